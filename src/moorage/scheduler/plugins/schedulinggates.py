"""SchedulingGates: holds pods back as long as they have scheduling gates."""

from __future__ import annotations

from moorage.scheduler.framework import Plugin
from moorage.scheduler.table.shape import PodInfo


class SchedulingGates(Plugin):
    """Holds pods back as long as they have scheduling gates."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> str:
        """Which gates there are."""
        gates = [gate.name for gate in pod.pod.spec.scheduling_gates]
        return f"waiting for scheduling gates: [{' '.join(gates)}]" if gates else ""
