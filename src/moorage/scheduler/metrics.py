"""The scheduler's metrics, by kube-scheduler's names: counted per decision, never per node."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from moorage.features import Gates
from moorage.histogram import Histogram
from moorage.scheduler.framework import Cycle, PluginStatus, Timings
from moorage.scheduler.profile import scheduler_name
from moorage.scheduler.queue import Queue, Queued

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

_DURATIONS = tuple(0.001 * 2**exponent for exponent in range(15))
_STEPS = tuple(0.0001 * 2**exponent for exponent in range(12))
_PLUGIN_STEPS = tuple(0.00001 * 1.5**exponent for exponent in range(20))
_WAITS = tuple(0.01 * 2**exponent for exponent in range(20))
_SAMPLE = 10
"""Of so many decisions, one is timed plugin by plugin."""


class SchedulerMetrics:
    """The metrics of one scheduler."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
        self._collectors: list[Collector] = []
        self.attempts: Counter[tuple[str, str]] = Counter()
        self._durations = self._histogram(
            "scheduling_attempt_duration_seconds", "From the start of an attempt to its end.", _DURATIONS,
            "result", "profile",
        )  # fmt: skip
        self._algorithm = self._histogram(
            "scheduling_algorithm_duration_seconds", "How long decisions take.", _DURATIONS
        )
        self._points = self._histogram(
            "framework_extension_point_duration_seconds", "How long extension points take.", _STEPS,
            "extension_point", "status", "profile",
        )  # fmt: skip
        self._plugins = self._histogram(
            "plugin_execution_duration_seconds", "How long plugins take, of some decisions.", _PLUGIN_STEPS,
            "plugin", "extension_point", "status",
        )  # fmt: skip
        self._tries = self._histogram("pod_scheduling_attempts", "Attempts until a pod was bound.", (1, 2, 4, 8, 16))
        self._waits = self._histogram(
            "pod_scheduling_sli_duration_seconds", "From the arrival of a pod to its binding.", _WAITS, "attempts"
        )
        self.wildcard = self._histogram(
            "wildcard_match_duration_seconds", "How long a set of taints takes to be matched by wildcard tolerations.",
            _PLUGIN_STEPS,
        )  # fmt: skip
        self.parse_errors: Counter[str] = Counter()
        """Verdicts that could not be reached, by what is said of them."""
        self.preemptions = 0
        """How often preemption was tried."""
        self.evaluations: Counter[tuple[str, tuple[PluginStatus, ...]]] = Counter()
        self._number = 0

    @cached_property
    def registry(self) -> CollectorRegistry:
        """Exposes them. It is made when somebody asks for it: slow to import, and most commands expose nothing."""
        from prometheus_client import CollectorRegistry

        from moorage.componentmetrics import expose_gates

        registry = CollectorRegistry()
        expose_gates(registry, self._gates)
        for collector in self._collectors:
            registry.register(collector)
        return registry

    def register(self, collector: Collector) -> None:
        """Expose what a collector collects; to be called before the registry is asked for."""
        self._collectors.append(collector)

    def follow(self, queue: Queue) -> None:
        """Expose what is counted here, and the number of pods in each part of a queue."""
        self.register(_Asked(self, queue))

    def timings(self) -> Timings | None:
        """Where to write the times of a decision down, of one decision in ten."""
        self._number += 1
        return [] if self._number % _SAMPLE == 1 else None

    def decided(self, profile: str, start: float, cycle: Cycle) -> None:
        """A decision was made."""
        self.evaluations[profile, cycle.statuses] += 1
        self._algorithm.observe(time.perf_counter() - start)
        for point, plugin, seconds in cycle.timings or ():
            if plugin:
                self._plugins.observe(seconds, plugin, point, "Success")
            else:
                self._points.observe(seconds, point, "Success", profile)

    def attempted(self, profile: str, result: str, start: float) -> None:
        """An attempt has ended: scheduled, unschedulable or error."""
        self.attempts[result, profile] += 1
        self._durations.observe(time.perf_counter() - start, result, profile)

    def bound(self, entry: Queued, now: float) -> None:
        """A pod was bound."""
        self._tries.observe(entry.attempts)
        attempts = str(entry.attempts) if entry.attempts < 16 else "16+"
        self._waits.observe(max(0.0, now - entry.added), attempts)

    def preempted(self) -> None:
        """Preemption was tried."""
        self.preemptions += 1

    def _histogram(self, name: str, text: str, buckets: Iterable[float], *labels: str) -> Histogram:
        return Histogram(self, f"scheduler_{name}", text, buckets, *labels)


class _Asked:
    """Metrics that are computed when they are collected."""

    def __init__(self, metrics: SchedulerMetrics, queue: Queue) -> None:
        self._metrics = metrics
        self._queue = queue

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now."""
        from prometheus_client.core import GaugeMetricFamily

        pending = GaugeMetricFamily("scheduler_pending_pods", "Pods that are not placed yet.", labels=["queue"])
        for place, count in self._queue.counts().items():
            pending.add_metric([place], count)
        yield pending
        waiting = GaugeMetricFamily(
            "scheduler_unschedulable_pods", "Pods that no node will do for.", labels=["plugin", "profile"]
        )
        for (plugin, profile), count in self._rejected().items():
            waiting.add_metric([plugin, profile], count)
        yield waiting
        yield from self._counted()

    def _counted(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield _counter("schedule_attempts", "Attempts to place a pod.", ("result", "profile"), metrics.attempts)
        yield _counter(
            "unclear_verdicts", "Verdicts on taints, labels and devices that could not be reached.", ("message",),
            {(message,): count for message, count in metrics.parse_errors.items()},
        )  # fmt: skip
        text = "Attempts to make room by removing pods."
        yield _counter("preemption_attempts", text, (), {(): metrics.preemptions})
        totals: Counter[tuple[str, str, str, str]] = Counter()
        for (profile, evaluations), count in metrics.evaluations.items():
            for plugin, point, status in evaluations:
                totals[plugin, point, profile, status] += count
        yield _counter(
            "plugin_evaluation", "Decisions in which a plugin had a say, and what it said.",
            ("plugin", "extension_point", "profile", "status"), totals,
        )  # fmt: skip

    def _rejected(self) -> Counter[tuple[str, str]]:
        counts: Counter[tuple[str, str]] = Counter()
        for entry in self._queue.pods.values():
            if entry.place == "unschedulable":
                profile = scheduler_name(entry.info.pod)
                counts.update((plugin, profile) for plugin in entry.plugins)
        return counts


def _counter(name: str, text: str, labels: Sequence[str], counts: Mapping[Any, int]) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(f"scheduler_{name}", text, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family
