"""What the pods that a plugin has rejected wait for, so that only a change of just that wakes them."""

from __future__ import annotations

from collections.abc import Hashable

from moorage.api.meta import Object
from moorage.api.pod import Pod
from moorage.scheduler.framework import Handle
from moorage.scheduler.table.shape import FINISHED

_KEPT = 100_000


class Waiting:
    """Notes of one plugin. Waking wakes all pods that it has rejected, so that all notes are void then."""

    def __init__(self, handle: Handle, plugin: str) -> None:
        self._handle, self._plugin = handle, plugin
        self._subjects: set[Hashable] = set()

    def note(self, *subjects: Hashable) -> None:
        """A pod that is rejected waits for a change of one of these."""
        self._subjects.update(subjects)
        if len(self._subjects) > _KEPT:
            self._wake(None, None)

    def told(self, old: Object | None, new: Object | None, *subjects: Hashable) -> None:
        """Something has changed that is a reason to try again for all who wait for one of these."""
        if not self._subjects.isdisjoint(subjects):
            self._wake(old, new)

    def _wake(self, old: Object | None, new: Object | None) -> None:
        self._subjects.clear()
        self._handle.wake(self._plugin, old, new)


def leaves(old: Pod | None, new: Pod | None) -> bool:
    """Whether a pod was on a node and is there no more: what it had is free again."""
    if old is None or not old.spec.node_name or old.status.phase in FINISHED:
        return False
    return new is None or new.status.phase in FINISHED
