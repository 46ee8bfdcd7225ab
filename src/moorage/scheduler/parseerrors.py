"""Taints that were not tolerated because a value could not be parsed: counted, and logged once for each value."""

from __future__ import annotations

import logging

from moorage.api.node import Taint
from moorage.match.tolerations import Tolerations
from moorage.scheduler.metrics import SchedulerMetrics

_LOG = logging.getLogger(__name__)
_LOGGED_MAX = 10_000


class ParseErrors:
    """What has been logged already."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._logged: set[tuple[str, str, str]] = set()

    def note(self, tolerations: Tolerations, taint: Taint) -> None:
        """Note a taint that was not tolerated: nothing happens unless a parse error is the reason."""
        verdict = tolerations.verdict(taint)
        if not verdict.error:
            return
        self._metrics.parse_errors.labels(verdict.log).inc()
        line = (verdict.log, taint.key, taint.value)
        if line not in self._logged and len(self._logged) < _LOGGED_MAX:
            self._logged.add(line)
            _LOG.warning('%s taint="%s": %s', verdict.log, taint, verdict.error)
