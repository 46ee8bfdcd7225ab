"""Verdicts that could not be reached: counted, and logged once for each expression and value."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable

from moorage.api.labels import Labels
from moorage.api.node import Taint
from moorage.match.selector import Term
from moorage.match.tolerations import Tolerations
from moorage.scheduler.metrics import SchedulerMetrics

_LOG = logging.getLogger(__name__)
_LOGGED_MAX = 10_000
_DEVICE = "device selector failed to evaluate"


class ParseErrors:
    """What has been logged already.

    Values of taints and attributes of devices are somebody's mistake, and warned of. A label may well be no version on
    nodes that a selector is not about, so that is logged at a higher verbosity.
    """

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._logged: set[Hashable] = set()

    def note(self, tolerations: Tolerations, taint: Taint) -> None:
        """Note a taint that was not tolerated: nothing happens unless a toleration had no answer."""
        for toleration, verdict in tolerations.unanswered(taint):
            expression = f' expression="{toleration.expression}"' if toleration.expression else ""
            key = verdict.log, expression, taint.key, taint.value
            if self._is_new(verdict.log, key):
                _LOG.warning('%s%s taint="%s": %s', verdict.log, expression, taint, verdict.error)

    def note_labels(self, terms: Iterable[Term], labels: Labels, name: str) -> None:
        """Note labels that terms do not match: nothing happens unless a condition had no answer."""
        for term in terms:
            if term.errors:
                message, text, error = "node selector term does not parse", "; ".join(term.errors), ""
            elif (unmet := term.unmet(labels, name)) and unmet[1].error:
                condition, verdict = unmet
                read = [f"{key}={labels[key]}" for key in sorted(condition.keys or ()) if key in labels]
                values = f' labels="{",".join(read)}"' if condition.expression else ""
                message, text, error = verdict.log, condition.text, f"{values}: {verdict.error}"
            else:
                continue
            # The message of a label names the value, as the enhancement words it; a metric must not.
            if self._is_new(message.partition(" for value ")[0], (message, text, error)):
                _LOG.info('%s expression="%s"%s', message, text, error)

    def note_device(self, sentence: str) -> None:
        """Note that a selector had no answer for a device."""
        if self._is_new(_DEVICE, sentence):
            _LOG.warning("%s: %s", _DEVICE, sentence)

    def _is_new(self, message: str, key: Hashable) -> bool:
        """Count an error. Whether it is to be logged."""
        self._metrics.parse_errors.labels(message).inc()
        if key in self._logged or len(self._logged) >= _LOGGED_MAX:
            return False
        self._logged.add(key)
        return True
