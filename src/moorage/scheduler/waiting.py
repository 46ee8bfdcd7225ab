"""What the pods that a plugin rejected wait for: only a change of that wakes them."""

from __future__ import annotations

from collections.abc import Hashable

from moorage.api.meta import Object
from moorage.api.pod import Pod
from moorage.scheduler.framework import Handle
from moorage.scheduler.table.shape import FINISHED

_SUBJECTS_MAX = 100_000


class Waiting:
    """The subjects that the rejected pods of one plugin wait for, forgotten when those pods are woken."""

    def __init__(self, handle: Handle, plugin: str) -> None:
        self._handle, self._plugin = handle, plugin
        self._subjects: set[Hashable] = set()

    def note(self, *subjects: Hashable) -> None:
        """Note that a rejected pod waits for a change of one of these."""
        self._subjects.update(subjects)
        if len(self._subjects) > _SUBJECTS_MAX:
            self._wake(None, None)

    def changed(self, old: Object | None, new: Object | None, *subjects: Hashable) -> None:
        """Wake the rejected pods if one of these is waited for."""
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
