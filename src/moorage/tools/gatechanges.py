"""Which gates differ from those of the last start, and what that changes for the objects that are there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from moorage import features
from moorage.client import ApiError, Client
from moorage.features import Gate, GateError, Gates
from moorage.logs import Log
from moorage.tools.cluster import Cluster
from moorage.tools.live import read_live
from moorage.tools.rollback import Rollback, RollbackStep

LAST_GATES = "feature-gates.json"
"""The file in the data directory that holds the gates of the last start, by component."""
_LOG = Log(__name__)
_EFFECTS = {
    RollbackStep.TEMPLATES: ("apiserver", "workloads that cannot create pods"),
    RollbackStep.VOLUMES: ("scheduler", "volumes that no node reaches"),
    RollbackStep.CLAIMS: ("controllers", "device claims that lose their devices or get none"),
    RollbackStep.EVICTED: ("controllers", "running pods that are evicted"),
    RollbackStep.PENDING: ("scheduler", "pending pods that stay pending"),
}
"""What a finding means, and the component that does it when its gate is off."""


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
    steps = Counter(
        finding.step
        for finding in Rollback(cluster, change.gate).findings()
        if _EFFECTS[finding.step][0] in change.components
    )
    said = [f"{words}: {steps[step]}" for step, (_, words) in _EFFECTS.items() if steps[step]]
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
    changes = gate_changes(before, now)
    if before != {**before, **now}:
        keep_gates(directory, {**before, **now})
    if not changes:
        return
    try:
        cluster = await read_live(client)
    except ApiError as error:
        _LOG.warning("Objects not read: effects of changed feature gates are not known", err=error)
        return
    for change in changes:
        components = list(change.components)
        if change.on:
            _LOG.info("Feature gate turned on since the last start", gate=change.gate.value, components=components)
        else:
            changed = await asyncio.to_thread(effect, cluster, change)
            _LOG.warning(
                "Feature gate turned off since the last start", gate=change.gate.value, components=components,
                effect=changed, more=f"moorage rollback {change.gate.value}",
            )  # fmt: skip
