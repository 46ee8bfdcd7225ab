"""Attach mode: the scheduler and the evictors of a cluster that somebody else runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from moorage.api.labels import parse
from moorage.client import Client
from moorage.client.clock import Clock
from moorage.client.leases import CONTROLLERS_LEASE, SCHEDULER_LEASE, LeadershipLost, LeaseTerms, identity, lead
from moorage.controllers.nodes.devicetaints import DeviceTaintEviction
from moorage.controllers.nodes.tainteviction import TaintEviction
from moorage.controllers.run import Controllers, prepare
from moorage.features import ALL_ON, Gates
from moorage.scheduler.config import Configuration, ProfileSpec
from moorage.scheduler.scheduler import Scheduler

SCHEDULER_NAME = "moorage"
LEASES = (SCHEDULER_LEASE, CONTROLLERS_LEASE)
"""Of whoever places, and of whoever evicts."""
EVICTORS = (TaintEviction, DeviceTaintEviction)


@dataclass(frozen=True, slots=True)
class AttachSettings:
    """The options of attach mode."""

    gates: Gates = ALL_ON
    """All are on unless turned off: who writes a rule means it."""
    scheduler_name: str = SCHEDULER_NAME
    rule_namespaces: str = ""
    """The labels of the namespaces whose pods may have rules; empty for all."""
    covers_native: bool = True
    """Whether native comparisons get a cover: other components may have their gate off."""


def attached_scheduler(client: Client, settings: AttachSettings, clock: Clock | None = None) -> Scheduler:
    """Places the pods that name it, and covers their rules."""
    configuration = Configuration((ProfileSpec(settings.scheduler_name),))
    told = configuration.attached(settings.rule_namespaces, covers_native=settings.covers_native)
    return Scheduler(client, settings.gates, told, clock=clock)


def attached_evictors(client: Client, settings: AttachSettings, clock: Clock | None = None) -> Controllers:
    """Evict pods with rules, and no others."""
    allowed = parse(settings.rule_namespaces) if settings.rule_namespaces else None
    return prepare(client, settings.gates, EVICTORS, clock=clock, attached=True, rule_namespaces=allowed)


async def run_attached(
    client: Client,
    settings: AttachSettings,
    clock: Clock | None = None,
    *,
    leads: bool = False,
    metrics: list[CollectorRegistry] | None = None,
) -> None:
    """Place and evict until cancelled; with `leads` only while holding the lease of each."""
    scheduler, evictors = attached_scheduler(client, settings, clock), attached_evictors(client, settings, clock)
    if metrics is not None:
        metrics += (scheduler.metrics.registry, evictors.context.registry)
    works = (scheduler.run, evictors.run)
    try:
        async with asyncio.TaskGroup() as tasks:
            for lease, work in zip(LEASES, works, strict=True):
                leading = lead(client, LeaseTerms(lease), identity(), Clock(), work) if leads else work()
                tasks.create_task(leading, name=lease)
    except* LeadershipLost as lost:
        raise lost.exceptions[0] from None
