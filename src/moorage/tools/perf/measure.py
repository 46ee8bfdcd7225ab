"""Figures: pods placed a second, scheduling latency, processor time and memory."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

THROUGHPUT = "SchedulingThroughput"
_SAMPLE, _SAMPLES = 1.0, 10
"""About how many seconds one sample of the throughput takes, and how many there are at least."""
PERCENTILES = (50, 90, 95, 99)


class DataItem(msgspec.Struct):
    """One figure with its percentiles, in the form that scheduler_perf writes."""

    data: dict[str, float]
    unit: str
    labels: dict[str, str]


class Measurement(msgspec.Struct):
    """What was measured between two moments of a workload."""

    name: str
    pods: int
    throughput: dict[str, float]
    """Pods a second."""
    latency: dict[str, float]
    """Milliseconds from the moment a pod's creation is acknowledged to the moment it is seen on its node."""
    duration: float
    """Seconds from the first moment to the second."""
    cpu: float
    """Microseconds of processor time for each pod, everything included."""
    memory: float = 0.0
    """Megabytes that the process had in memory, at most."""
    counted: list[DataItem] = []
    """The scheduler's own histograms."""

    def items(self) -> list[DataItem]:
        """The figures one by one."""
        return [
            DataItem(self.throughput, "pods/s", self._labels(THROUGHPUT)),
            DataItem({"Duration": self.duration}, "s", self._labels("SchedulingDuration")),
            DataItem(self.latency, "ms", self._labels("PodSchedulingLatency")),
            DataItem({"Average": self.cpu}, "us", self._labels("ProcessorTimePerPod")),
            DataItem({"Max": self.memory}, "MB", self._labels("PeakMemory")),
            *self.counted,
        ]

    def _labels(self, metric: str) -> dict[str, str]:
        return {"Name": self.name, "Metric": metric}


class Collector:
    """Records when pods are created and placed, from its construction to `measured`."""

    def __init__(self, name: str, namespaces: Sequence[str], labels: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._namespaces = frozenset(namespaces)
        self._labels = dict(labels or {})
        self._created: dict[str, float] = {}
        self._bound: list[tuple[str, float]] = []
        self._start, self._cpu = time.perf_counter(), time.process_time()

    def created(self, namespace: str, name: str) -> None:
        """A pod's creation is acknowledged."""
        self._created[f"{namespace}/{name}"] = time.perf_counter()

    def bound(self, namespace: str, name: str, labels: Mapping[str, str]) -> None:
        """A pod is on a node."""
        if namespace in self._namespaces and self._labels.items() <= labels.items():
            self._bound.append((f"{namespace}/{name}", time.perf_counter()))

    def measured(self) -> Measurement:
        """The figures for the pods that were placed."""
        times = [at - self._start for _, at in self._bound]
        latencies = [1e3 * (at - self._created[name]) for name, at in self._bound if name in self._created]
        cpu = 1e6 * (time.process_time() - self._cpu)
        return Measurement(
            self.name, len(times), throughput(times), summary(latencies, sum(latencies) / max(len(latencies), 1)),
            time.perf_counter() - self._start, cpu / max(len(times), 1),
        )  # fmt: skip


def throughput(times: Sequence[float]) -> dict[str, float]:
    """Pods a second on the whole, and percentiles over samples of equal length; `times` count from the start."""
    if not times:
        return {}
    end = max(times[-1], 1e-9)
    counts = [0] * max(_SAMPLES, round(end / _SAMPLE))
    length = end / len(counts)
    for at in times:
        counts[min(int(at / length), len(counts) - 1)] += 1
    return summary([count / length for count in counts], len(times) / end)


def summary(values: Sequence[float], average: float) -> dict[str, float]:
    """A given average, and the percentiles of some values."""
    if not values:
        return {}
    ordered = sorted(values)
    percentiles = {f"Perc{each}": ordered[math.ceil(len(ordered) * each / 100) - 1] for each in PERCENTILES}
    return {"Average": average, **percentiles}


def peak_memory() -> float:
    """Megabytes that this process has had in memory, at most."""
    # The figure of getrusage counts the parent in, from the moment in which this process was still a copy of it.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def document(items: Sequence[DataItem]) -> dict[str, Any]:
    """All figures, as scheduler_perf's dashboard reads them."""
    return {"version": "v1", "dataItems": items}
