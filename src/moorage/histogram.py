"""A histogram for hot paths: unlike prometheus_client's it takes no lock."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector


class Register(Protocol):
    """What metrics are registered with."""

    def register(self, collector: Collector) -> None:
        """Expose what a collector collects."""


class Histogram:
    """Counts of values in buckets, by labels. Only one thread may observe."""

    def __init__(self, registry: Register, name: str, text: str, buckets: Iterable[float], *labels: str) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._bounds = (*map(float, buckets), float("inf"))
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}
        if not labels:
            self._add(())
        registry.register(self)

    def observe(self, value: float, *labels: str) -> None:
        """Count a value."""
        counts = self._counts.get(labels) or self._add(labels)
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def _add(self, labels: tuple[str, ...]) -> list[int]:
        self._sums[labels] = 0.0
        counts = self._counts[labels] = [0] * len(self._bounds)
        return counts

    def collect(self) -> Iterator[Metric]:
        """The metric as it is now."""
        from prometheus_client.core import HistogramMetricFamily  # slow to import, and most commands expose nothing
        from prometheus_client.utils import floatToGoString

        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        bounds = list(map(floatToGoString, self._bounds))
        for labels, counts in list(self._counts.items()):
            family.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), self._sums[labels])
        yield family
