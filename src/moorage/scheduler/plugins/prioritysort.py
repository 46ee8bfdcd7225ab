"""PrioritySort: the order in which pods are tried."""

from __future__ import annotations

from typing import Any

from moorage.scheduler.framework import Plugin
from moorage.scheduler.table.shape import PodInfo


class PrioritySort(Plugin):
    """Pods of higher priority first; of the same priority, those that have waited longest."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, added: float) -> Any:
        """Smaller comes first."""
        return -pod.priority, added
