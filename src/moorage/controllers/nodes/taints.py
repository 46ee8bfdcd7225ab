"""Taints as eviction controllers see them: since when each counts, and values that cannot be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter

from moorage.api.node import Taint
from moorage.api.pod import Toleration
from moorage.bounded import Bounded
from moorage.client.clock import Clock
from moorage.logs import Log
from moorage.match.tolerations import NO_EXECUTE
from moorage.match.verdict import Verdict

_LOG = Log(__name__)
_REMEMBERED = 4096
TolerationFailures = tuple[tuple[Toleration, Verdict], ...]
"""Tolerations that cannot be evaluated, and why."""
LONGEST = 1_000_000_000
"""The most seconds that anything tolerates: thirty years, since a date cannot be moved by all that an int64 holds."""


class SeenTaints:
    """The NoExecute taints of nodes or devices, each with the time that it counts from.

    That is the taint's own `timeAdded`, so that a restart changes nothing. A taint without one counts from when it was
    seen; so does one whose value changed while its `timeAdded` stayed, because a pod that tolerates the new value for
    some seconds must not be evicted for the age of the old one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, dict[Taint, datetime]] = {}

    def of(self, holder: str) -> Mapping[Taint, datetime]:
        """The taints of a node or a device."""
        return self._since.get(holder, {})

    def update(self, holder: str, taints: Iterable[Taint]) -> bool:
        """Set all taints that a node or a device has now. Returns whether anything changed."""
        old, now = self._since.get(holder, {}), self._clock.now()
        timed = {(each.key, each.time_added) for each in old if each.time_added is not None}
        new: dict[Taint, datetime] = {}
        for taint in taints:
            if taint.effect != NO_EXECUTE:
                continue
            changed = (taint.key, taint.time_added) in timed
            new[taint] = old.get(taint) or (now if changed else min(taint.time_added or now, now))
        if new:
            self._since[holder] = new
        else:
            self._since.pop(holder, None)
        return new != old


class TolerationErrors:
    """Taints that tolerations cannot be compared with: each case is counted, each expression and value logged once."""

    def __init__(self, registry: CollectorRegistry, subsystem: str) -> None:
        self._errors = Counter(
            f"{subsystem}_toleration_errors",
            "Decisions in which no toleration matched a taint and one could not be evaluated.",
            ["error"],
            registry=registry,
        )
        self._logged: Bounded[tuple[str, str, Taint], bool] = Bounded(_REMEMBERED)

    def note(self, unanswered: TolerationFailures, taint: Taint) -> None:
        """Count a taint that no toleration matches and that some could not be compared with."""
        if unanswered:
            self._errors.labels(unanswered[0][1].log).inc()
        for toleration, verdict in unanswered:
            key = verdict.log, toleration.expression, Taint(taint.key, taint.value, taint.effect)
            if not self._logged.get(key):
                self._logged.put(key, True)
                _LOG.warning(verdict.log, expression=toleration.expression or None, taint=taint, err=verdict.error)
