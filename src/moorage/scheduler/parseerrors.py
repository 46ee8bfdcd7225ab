"""Verdicts that could not be reached: counted, and logged once for each expression and value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from moorage.api.labels import Labels
from moorage.api.node import Taint
from moorage.logs import Log
from moorage.match.selector import Term
from moorage.match.tolerations import Tolerations
from moorage.scheduler.metrics import SchedulerMetrics

_LOG = Log(__name__)
_LOGGED_MAX = 10_000
_DEVICE = "device selector failed to evaluate"


class ParseErrors:
    """What has been logged already.

    Values of taints and attributes of devices are somebody's mistake, and warned of. A label may well be no version on
    nodes that a selector is not about, so that is logged at a higher verbosity.
    """

    def __init__(self, metrics: SchedulerMetrics, *, quiet: bool = False) -> None:
        """`quiet`: count only."""
        self._metrics = metrics
        self._is_quiet = quiet
        self._logged: set[Hashable] = set()

    def note(self, tolerations: Tolerations, taint: Taint) -> None:
        """Note a taint that was not tolerated: nothing happens unless a toleration had no answer."""
        for toleration, verdict in tolerations.unanswered(taint):
            key = verdict.log, toleration.expression, taint.key, taint.value
            if self._is_new(verdict.log, key):
                _LOG.warning(verdict.log, expression=toleration.expression or None, taint=taint, err=verdict.error)

    def note_labels(self, terms: Iterable[Term], labels: Labels, name: str) -> None:
        """Note labels that terms do not match: nothing happens unless a condition had no answer."""
        for term in terms:
            if term.errors:
                pairs = {"expression": "; ".join(term.errors)}
                message = "node selector term does not parse"
            elif (unmet := term.unmet(labels, name)) and unmet[1].error:
                condition, verdict = unmet
                read = [f"{key}={labels[key]}" for key in sorted(condition.keys or ()) if key in labels]
                values = {"labels": ",".join(read)} if condition.expression else {}
                message, pairs = verdict.log, {"expression": condition.text, **values, "err": str(verdict.error)}
            else:
                continue
            # The message of a label names the value, as the enhancement words it; a metric must not.
            if self._is_new(message.partition(" for value ")[0], (message, *pairs.values())):
                _LOG.info(message, v=2, **pairs)

    def note_device(self, sentence: str) -> None:
        """Note that a selector had no answer for a device."""
        if self._is_new(_DEVICE, sentence):
            _LOG.warning(_DEVICE, err=sentence)

    def _is_new(self, message: str, key: Hashable) -> bool:
        """Count an error. Whether it is to be logged."""
        self._metrics.parse_errors[message] += 1
        if self._is_quiet or key in self._logged or len(self._logged) >= _LOGGED_MAX:
            return False
        self._logged.add(key)
        return True
