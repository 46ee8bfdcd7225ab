"""Attach mode: the scheduler and the evictors of a cluster that somebody else runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from moorage.api.labels import parse
from moorage.client import Client, Informers, TooManyRequests, Unavailable
from moorage.client.clock import Clock
from moorage.client.errors import first_of
from moorage.client.leases import CONTROLLERS_LEASE, SCHEDULER_LEASE, LeaseTerms, identity, lead
from moorage.client.rights import check_rights, to_follow
from moorage.controllers.nodes.devicetaints import DeviceTaintEviction
from moorage.controllers.nodes.tainteviction import TaintEviction
from moorage.controllers.run import EVICTION_RIGHTS, Controllers, prepare
from moorage.features import ALL_ON, Gates
from moorage.scheduler.config import Configuration, ProfileSpec
from moorage.scheduler.profile import ATTACHED_NAME
from moorage.scheduler.scheduler import BINDING_RIGHTS, Scheduler

LEASES = (SCHEDULER_LEASE, CONTROLLERS_LEASE)
"""Of whoever places, and of whoever evicts."""
LABELS = {"app.kubernetes.io/name": "moorage"}
"""Of everything that is installed."""
EVICTORS = (TaintEviction, DeviceTaintEviction)


@dataclass(frozen=True, slots=True)
class AttachSettings:
    """The options of attach mode."""

    gates: Gates = ALL_ON
    """All are on unless turned off: who writes a rule means it."""
    scheduler_name: str = ATTACHED_NAME
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


class _Part(NamedTuple):
    """One of the two that work, each under a lease of its own."""

    name: str
    lease: str
    informers: Informers
    run: Callable[[], Awaitable[None]]


async def run_attached(
    client: Client,
    settings: AttachSettings,
    clock: Clock | None = None,
    *,
    leads: bool = False,
    metrics: list[CollectorRegistry] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Place and evict until cancelled; with `leads` only while holding the lease of each.

    What each of the two does is said: that it waits, for whom, and that it is at work, once it is. Raises
    RightsMissing, LeadershipLost, and Forbidden when a lease may not be had.
    """
    scheduler, evictors = attached_scheduler(client, settings, clock), attached_evictors(client, settings, clock)
    if metrics is not None:
        metrics += (scheduler.metrics.registry, evictors.context.registry)
    parts = (
        _Part("scheduler", SCHEDULER_LEASE, scheduler.handle.informers, scheduler.run),
        _Part("evictors", CONTROLLERS_LEASE, evictors.context.informers, evictors.run),
    )
    followed = (right for part in parts for right in to_follow(part.informers))
    with suppress(TooManyRequests, Unavailable):  # it will be there when it is there
        await check_rights(client, dict.fromkeys((*followed, *BINDING_RIGHTS, *EVICTION_RIGHTS)))
    try:
        async with asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(_lead(client, part, say) if leads else _work(part, say), name=part.lease)
    except ExceptionGroup as group:
        raise first_of(group) from None


async def _lead(client: Client, part: _Part, say: Callable[[str], None]) -> None:
    def waiting(holder: str) -> None:
        say(f"{part.name}: waiting for the lease held by {holder}")

    await lead(client, LeaseTerms(part.lease), identity(), Clock(), lambda: _work(part, say), waiting)


async def _work(part: _Part, say: Callable[[str], None]) -> None:
    async def saying() -> None:
        for each in part.informers:
            await each.synced.wait()
        say(f"{part.name}: at work")

    telling = asyncio.create_task(saying())
    try:
        await part.run()
    finally:
        telling.cancel()
