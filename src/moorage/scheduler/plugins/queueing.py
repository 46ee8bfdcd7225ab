"""What keeps pods from being tried, what order they are tried in, and how the chosen node is made known."""

from __future__ import annotations

from typing import Any

from moorage.scheduler.framework import Cycle, Plugin
from moorage.scheduler.table.shape import PodInfo


class SchedulingGates(Plugin):
    """Holds pods back as long as they have scheduling gates."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> str:
        """Which gates there are."""
        gates = [gate.name for gate in pod.pod.spec.scheduling_gates]
        return f"waiting for scheduling gates: [{' '.join(gates)}]" if gates else ""


class PrioritySort(Plugin):
    """Pods of higher priority first; of the same priority, those that have waited longest."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, added: float) -> Any:
        """Smaller comes first."""
        return -pod.priority, added


class DefaultBinder(Plugin):
    """Binds pods through the API."""

    name = "DefaultBinder"

    async def bind(self, cycle: Cycle, node: str) -> None:
        """Bind this very pod."""
        namespace, name = cycle.pod.key
        await self.handle.client.bind(namespace, name, cycle.pod.uid, node)
