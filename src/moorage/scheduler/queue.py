"""The scheduling queue: active pods, pods that back off, and unschedulable pods that wait for a change."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from moorage.client.backoff import Backoff
from moorage.scheduler.table.shape import PodInfo, Shape

FIRST_BACKOFF, LAST_BACKOFF = 1.0, 10.0
LONGEST_WAIT = 300.0
"""After this time a pod is tried again even if nothing that it waits for has happened."""


@dataclass(slots=True, eq=False)
class Queued:
    """A pod in the queue, and its history there."""

    info: PodInfo
    added: float
    """When it came to the queue first."""
    attempts: int = 0
    since: float = 0.0
    """Since when it is where it is."""
    failures: int = 0
    """How often in a row it was found unschedulable."""
    plugins: frozenset[str] = frozenset()
    """The plugins that rejected it last."""
    gated: str = ""
    """Why it must not be tried yet."""
    place: str = ""
    """Where it is: active, backoff, unschedulable, gated, preparing, or empty while it is tried."""
    ticket: int = 0
    """Only the heap entry with this number counts."""


@dataclass(slots=True)
class Queue:
    """Pods by where they are. Times are seconds of one clock that never goes back."""

    now: Callable[[], float]
    sort_key: Callable[[PodInfo, float], Any]
    backoff: Backoff
    ready: Callable[[], None] = lambda: None
    """Called when there is something to be tried."""
    pods: dict[str, Queued] = field(default_factory=dict)
    """All pods, by uid."""
    _active: list[tuple[Any, int, Queued]] = field(default_factory=list)
    _backoff: list[tuple[float, int, Queued]] = field(default_factory=list)
    _unschedulable: dict[Shape, dict[str, Queued]] = field(default_factory=dict)
    _tickets: Iterator[int] = field(default_factory=itertools.count)

    def add(self, info: PodInfo, gated: str = "") -> None:
        """Add a pod, or try one again that has changed."""
        entry = self.pods.get(info.uid)
        if entry is None:
            entry = self.pods[info.uid] = Queued(info, self.now())
        else:
            self._leave(entry)
            entry.info = info
        entry.gated = gated
        if gated:
            self._put(entry, "gated")
        else:
            self._activate(entry)

    def update(self, info: PodInfo) -> None:
        """Replace a pod that has changed in nothing that its placement depends on."""
        entry = self.pods.get(info.uid)
        if entry is None:
            return
        if entry.place == "unschedulable" and entry.info.shape is not info.shape:
            del self._unschedulable[entry.info.shape][info.uid]
            if not self._unschedulable[entry.info.shape]:
                del self._unschedulable[entry.info.shape]
            self._unschedulable.setdefault(info.shape, {})[info.uid] = entry
        entry.info = info

    def remove(self, uid: str) -> None:
        """Forget a pod that is bound or gone."""
        entry = self.pods.pop(uid, None)
        if entry is not None:
            self._leave(entry)

    def pop(self) -> Queued | None:
        """Take out the next pod to be tried; unschedulable pods that back off are tried early when no other is left."""
        self.flush()
        while self._active:
            _, ticket, entry = heapq.heappop(self._active)
            if entry.ticket == ticket and entry.place == "active":
                return self._taken(entry)
        while self._backoff:
            _, ticket, entry = heapq.heappop(self._backoff)
            if entry.ticket == ticket and entry.place == "backoff" and entry.failures:
                return self._taken(entry)
            if entry.ticket == ticket and entry.place == "backoff":
                heapq.heappush(self._backoff, (entry.since + self.backoff_of(entry), ticket, entry))
                break
        return None

    def has_other(self, shape: Shape) -> bool:
        """Whether the next pod, if there is one, is of another shape."""
        return bool(self._active) and self._active[0][2].info.shape is not shape

    def tries(self, entry: Queued) -> bool:
        """Whether a pod that was taken out is still to be tried: it may be gone, or have come again, meanwhile."""
        return self.pods.get(entry.info.uid) is entry and not entry.place

    def _taken(self, entry: Queued) -> Queued:
        entry.attempts += 1
        self._put(entry, "")
        return entry

    def failed(self, entry: Queued, plugins: Iterable[str]) -> None:
        """Let a pod that fits nowhere wait for a change that matters to the plugins that rejected it."""
        if not self.tries(entry):
            return
        entry.plugins = frozenset(plugins)
        entry.failures += 1
        self._put(entry, "unschedulable")
        self._unschedulable.setdefault(entry.info.shape, {})[entry.info.uid] = entry

    def retry(self, entry: Queued) -> None:
        """Try a pod again after its back-off, because of an error."""
        if not self.tries(entry):
            return
        entry.failures = 0
        self._to_backoff(entry, self.now())

    def prepare(self, entry: Queued) -> bool:
        """Let a pod wait until what its placement depends on is worked out, while others pass it."""
        if not self.tries(entry):
            return False
        entry.attempts -= 1
        self._put(entry, "preparing")
        return True

    def prepares(self, entry: Queued) -> bool:
        """Whether a pod still waits for that: it may be gone, or have changed, meanwhile."""
        return self.pods.get(entry.info.uid) is entry and entry.place == "preparing"

    def prepared(self, entry: Queued) -> None:
        """Try a pod again, in its old place among the others."""
        if self.prepares(entry):
            self._activate(entry)

    def waits(self) -> bool:
        """Whether any pod waits for a change."""
        return bool(self._unschedulable)

    def waiting_shapes(self) -> list[Shape]:
        """The shapes of the pods that wait for a change."""
        return list(self._unschedulable)

    def waiting(self, shape: Shape) -> list[Queued]:
        """The pods of a shape that wait for a change."""
        return list(self._unschedulable.get(shape, {}).values())

    def wake(self, entry: Queued) -> None:
        """Try an unschedulable pod again, once its back-off is over."""
        if entry.place != "unschedulable":
            return
        since = entry.since
        self._leave(entry)
        if since + self.backoff_of(entry) > self.now():
            self._to_backoff(entry, since)
        else:
            self._activate(entry)

    def flush(self) -> None:
        """Activate the pods whose back-off is over."""
        now = self.now()
        while self._backoff and self._backoff[0][0] <= now:
            _, ticket, entry = heapq.heappop(self._backoff)
            if entry.ticket == ticket and entry.place == "backoff":
                self._activate(entry)

    def flush_unschedulable(self, outdated: Container[Shape] = ()) -> None:
        """Wake the pods that have waited too long, and those whose message may be outdated: all of the given shapes."""
        now = self.now()
        for shape, entries in list(self._unschedulable.items()):
            for entry in list(entries.values()):
                if shape in outdated or now - entry.since > LONGEST_WAIT:
                    self.wake(entry)

    def next_due(self) -> float | None:
        """When the next backoff is over."""
        return self._backoff[0][0] if self._backoff else None

    def backoff_of(self, entry: Queued) -> float:
        """How long a pod backs off after so many attempts."""
        return self.backoff.delay(entry.attempts) if entry.attempts else 0.0

    def counts(self) -> dict[str, int]:
        """How many pods are where."""
        counts = {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
        for entry in self.pods.values():
            if entry.place:
                counts["active" if entry.place == "preparing" else entry.place] += 1
        return counts

    def _activate(self, entry: Queued) -> None:
        self._put(entry, "active")
        heapq.heappush(self._active, (self.sort_key(entry.info, entry.added), entry.ticket, entry))
        self.ready()

    def _to_backoff(self, entry: Queued, since: float) -> None:
        self._put(entry, "backoff")
        entry.since = since
        heapq.heappush(self._backoff, (since + self.backoff_of(entry), entry.ticket, entry))
        self.ready()

    def _put(self, entry: Queued, place: str) -> None:
        entry.place = place
        entry.since = self.now()
        entry.ticket = next(self._tickets)

    def _leave(self, entry: Queued) -> None:
        if entry.place == "unschedulable":
            waiting = self._unschedulable[entry.info.shape]
            waiting.pop(entry.info.uid, None)
            if not waiting:
                del self._unschedulable[entry.info.shape]
        entry.place = ""
        entry.ticket = next(self._tickets)
