"""The scheduler's own histograms over the time of a measurement, as figures."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from moorage.api.meta import Wire
from moorage.features import NONE_ON
from moorage.scheduler.metrics import SchedulerMetrics
from moorage.tools.perf.measure import PERCENTILES, DataItem


class LabelValues(Wire, forbid_unknown_fields=True):
    """A label that splits a metric by its values; by all of them, when none are given."""

    label: str
    values: list[str] = []


class MetricsConfig(Wire, forbid_unknown_fields=True):
    """The metrics to collect, by name."""

    metrics: dict[str, list[LabelValues] | None]


_POINT, _PLUGIN, _RESULT = LabelValues("extension_point"), LabelValues("plugin"), LabelValues("result")
DEFAULT = MetricsConfig({
    "scheduler_framework_extension_point_duration_seconds": [_POINT],
    "scheduler_scheduling_attempt_duration_seconds": [_RESULT],
    "scheduler_pod_scheduling_sli_duration_seconds": None,
    "scheduler_plugin_execution_duration_seconds": [_PLUGIN, _POINT],
})  # fmt: skip


class _Series(NamedTuple):
    metric: str
    labels: frozenset[tuple[str, str]]


class _Read(NamedTuple):
    """Histograms at one moment."""

    counts: dict[_Series, Counter[float]]
    """How many values are at most as large as each bound."""
    sums: dict[_Series, float]


class Histograms:
    """The change of histograms since the construction of this object."""

    def __init__(self, registry: CollectorRegistry, config: MetricsConfig) -> None:
        self._registry = registry
        self._metrics = config.metrics
        self._before = self._read()

    def items(self, name: str) -> Iterator[DataItem]:
        """One figure for each metric and combination of the labels that split it."""
        now = self._read()
        for series, counts in now.counts.items():
            counts.subtract(self._before.counts.get(series, {}))
            if not counts[math.inf]:
                continue
            spent = now.sums[series] - self._before.sums[series]
            data = {"Average": 1e3 * spent / counts[math.inf]}
            data |= {f"Perc{each}": 1e3 * quantile(each / 100, counts) for each in PERCENTILES}
            yield DataItem(data, "ms", {"Name": name, "Metric": series.metric, **dict(sorted(series.labels))})

    def _read(self) -> _Read:
        read = _Read(defaultdict(Counter), defaultdict(float))
        for family in self._registry.collect():
            if family.name not in self._metrics:
                continue
            for sample in family.samples:
                labels = self._labels(family.name, sample.labels)
                if labels is None:
                    continue
                series = _Series(family.name, labels)
                if sample.name.endswith("_bucket"):
                    read.counts[series][float(sample.labels["le"])] += int(sample.value)
                elif sample.name.endswith("_sum"):
                    read.sums[series] += sample.value
        return read

    def _labels(self, metric: str, labels: Mapping[str, str]) -> frozenset[tuple[str, str]] | None:
        """The labels that split a metric; None when a value is not among those to collect."""
        splitting = {}
        for each in self._metrics[metric] or ():
            value = labels.get(each.label, "")
            if each.values and value not in each.values:
                return None
            splitting[each.label] = value
        return frozenset(splitting.items())


def quantile(share: float, counts: Mapping[float, int]) -> float:
    """The value that a share of all values do not exceed, as Prometheus estimates it from buckets."""
    bounds = sorted(counts)
    rank = share * counts[bounds[-1]]
    lower, below = 0.0, 0
    for bound in bounds:
        if counts[bound] >= rank:
            break
        lower, below = bound, counts[bound]
    if math.isinf(bound):
        return lower
    return lower + (bound - lower) * (rank - below) / max(counts[bound] - below, 1)


@cache
def names() -> frozenset[str]:
    """The histograms that a scheduler of ours has."""
    return frozenset(
        family.name for family in SchedulerMetrics(NONE_ON).registry.collect() if family.type == "histogram"
    )
