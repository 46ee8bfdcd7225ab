"""Thresholds on the figures of a workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from moorage.api.meta import Wire
from moorage.tools.perf.measure import THROUGHPUT, DataItem


class MetricSelector(Wire, forbid_unknown_fields=True):
    """Which of the figures a threshold is about."""

    name: str = THROUGHPUT
    labels: dict[str, str] = {}
    data_bucket: str = "Average"
    expect_lower: bool = False

    def selects(self, item: DataItem) -> bool:
        """Whether it is about this one."""
        return item.labels["Metric"] == self.name and self.labels.items() <= item.labels.items()


class Threshold(NamedTuple):
    """What a figure must reach, or must not exceed; nothing when it is 0."""

    value: float = 0.0
    selector: MetricSelector = MetricSelector()

    def misses(self, items: Sequence[DataItem]) -> Iterator[str]:
        """A sentence for each figure that is not as expected; what is expected is noted in the figures."""
        bucket, sign = self.selector.data_bucket, -1 if self.selector.expect_lower else 1
        for item in filter(self.selector.selects, items if self.value else ()):
            actual = item.data.get(bucket, 0.0)
            item.data[f"{bucket}Threshold"] = self.value
            if sign * actual < sign * self.value:
                yield f"{item.labels['Name']}: {self._figure()}{_shown(actual)} {item.unit}, and {self._expected()}"

    def _figure(self) -> str:
        bucket, name = self.selector.data_bucket, self.selector.name
        return "" if (name, bucket) == (THROUGHPUT, "Average") else f"{bucket} of {name} is "

    def _expected(self) -> str:
        way = "at most" if self.selector.expect_lower else "at least"
        return f"{way} {_shown(self.value)} are expected"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"
