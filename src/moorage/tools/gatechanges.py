"""Which gates differ from those of the last start, and what that changes for the objects that are there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from moorage import features
from moorage.api import kinds
from moorage.api.meta import Data
from moorage.client import ApiError, Client, Conflict
from moorage.features import Gate, GateError, Gates
from moorage.logs import Log
from moorage.tools.cluster import Cluster
from moorage.tools.live import read_live
from moorage.tools.rollback import Rollback, RollbackStep

LAST_GATES = "feature-gates.json"
"""The file in the data directory that holds the gates of the last start, by component."""
GATES_ANNOTATION = "moorage.dev/feature-gates"
"""The annotation of a lease that holds the gates of the last leader."""
_LEASE = kinds.row("coordination.k8s.io/v1", "Lease")
_ATTEMPTS = 5
_LOG = Log(__name__)
_EFFECTS = (
    (RollbackStep.TEMPLATES, "apiserver", "workloads that cannot create pods"),
    (RollbackStep.TEMPLATES, "kubelet", "workloads whose new pods are rejected when they start"),
    (RollbackStep.VOLUMES, "scheduler", "volumes that no node reaches"),
    (RollbackStep.CLAIMS, "controllers", "device claims that lose their devices or get none"),
    (RollbackStep.EVICTED, "controllers", "running pods that are evicted"),
    (RollbackStep.PENDING, "scheduler", "pending pods that stay pending"),
)
"""Findings, the component that acts on each when its gate is off, and what it does."""


_READ = {
    "scheduler": {"Node", "Pod", "PersistentVolume"},
    "controllers": {"Node", "Pod", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"},
}
"""The kinds that effects in a component are about, all of which it may list; those in others are about all."""


class GateChange(NamedTuple):
    """A gate that some components have turned on or off."""

    gate: Gate
    on: bool
    components: tuple[str, ...]


def gate_changes(before: Mapping[str, Gates], now: Mapping[str, Gates]) -> list[GateChange]:
    """The gates that differ, those of components that ran before."""
    found = []
    for gate in Gate:
        for on in (False, True):
            changed = [
                name
                for name, gates in now.items()
                if name in before and gates.enabled(gate) is on and before[name].enabled(gate) is not on
            ]
            if changed:
                found.append(GateChange(gate, on, tuple(changed)))
    return found


def effect(cluster: Cluster, change: GateChange) -> str:
    """What turning a gate off does to the objects of a cluster, in one line."""
    steps = Counter(finding.step for finding in Rollback(cluster, change.gate).findings())
    said = [
        f"{words}: {steps[step]}"
        for step, component, words in _EFFECTS
        if component in change.components and steps[step]
    ]
    return ", ".join(said) if said else "nothing for what is there"


def last_gates(directory: Path) -> dict[str, Gates]:
    """The gates of the last start by component; empty when they are not known."""
    try:
        texts = msgspec.json.decode((directory / LAST_GATES).read_bytes(), type=dict[str, str])
        return {component: features.parse(text) for component, text in texts.items()}
    except (OSError, UnicodeError, msgspec.DecodeError, GateError):
        return {}


def keep_gates(directory: Path, gates: Mapping[str, Gates]) -> None:
    """Keep the gates for the next start."""
    texts = {component: str(each) for component, each in gates.items()}
    try:
        (directory / LAST_GATES).write_bytes(msgspec.json.encode(texts))
    except OSError as error:
        _LOG.warning("Feature gates not kept for the next start", file=directory / LAST_GATES, err=error)


async def log_changes(directory: Path, now: Mapping[str, Gates], client: Client) -> None:
    """Log the gates that differ from the last start, with their effects, and keep those of this one."""
    before = last_gates(directory)
    if before != {**before, **now}:
        keep_gates(directory, {**before, **now})
    await _log(gate_changes(before, now), client)


async def log_changes_since_leader(lease: tuple[str, str], component: str, now: Gates, client: Client) -> None:
    """Log the gates that differ from those of the last leader, for a component without a data directory.

    They are kept on its lease, by namespace and name, which this process holds.
    """
    for _ in range(_ATTEMPTS):
        try:
            data: Data = msgspec.json.decode(await client.get(_LEASE, *lease))
            annotations = data["metadata"].get("annotations") or {}
            before = annotations.get(GATES_ANNOTATION)
            if before != str(now):
                data["metadata"]["annotations"] = {**annotations, GATES_ANNOTATION: str(now)}
                await client.update(_LEASE, data)
            break
        except Conflict:
            continue  # the lease was renewed meanwhile
        except ApiError as error:
            _LOG.warning("Feature gates not kept for the next leader", lease=lease, err=error)
            return
    else:
        return
    try:
        last = {component: features.parse(before)} if before else {}
    except GateError:
        last = {}
    await _log(gate_changes(last, {component: now}), client)


def _kinds(changes: Iterable[GateChange]) -> set[str] | None:
    components = {component for change in changes if not change.on for component in change.components}
    return {kind for each in components for kind in _READ[each]} if components <= _READ.keys() else None


async def _log(changes: Sequence[GateChange], client: Client) -> None:
    cluster, problem = Cluster(), ""
    if any(not change.on for change in changes):
        try:
            cluster = await read_live(client, _kinds(changes))
            problem = next((f"not known: {reason}" for reason in cluster.unread.values()), "")
        except ApiError as error:
            problem = f"not known: {error}"
    for change in changes:
        components = list(change.components)
        if change.on:
            _LOG.info("Feature gate turned on since the last start", gate=change.gate.value, components=components)
        else:
            changed = problem or await asyncio.to_thread(effect, cluster, change)
            _LOG.warning(
                "Feature gate turned off since the last start", gate=change.gate.value, components=components,
                effect=changed, more=f"moorage rollback {change.gate.value}",
            )  # fmt: skip
