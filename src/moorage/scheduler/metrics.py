"""What the scheduler counts, under the names that kube-scheduler has made known."""

from __future__ import annotations

import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from moorage.scheduler.queue import Queued

_DURATIONS = tuple(0.001 * 2**exponent for exponent in range(15))


class Metrics:
    """Counts per decision, never per node."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._attempts = Counter(
            "scheduler_schedule_attempts", "Attempts to place a pod, by result.", ["result", "profile"],
            registry=self.registry,
        )  # fmt: skip
        self._durations = Histogram(
            "scheduler_scheduling_attempt_duration_seconds", "From the start of a decision to its end or the binding.",
            ["result", "profile"], buckets=_DURATIONS, registry=self.registry,
        )  # fmt: skip
        self._unclear = Counter(
            "scheduler_unclear_verdicts", "Taints that could not be understood when they were matched.",
            registry=self.registry,
        )  # fmt: skip
        self.unschedulable = Gauge(
            "scheduler_unschedulable_pods", "Rejections, by the plugin that rejected.", ["plugin", "profile"],
            registry=self.registry,
        )  # fmt: skip

    def decided(self, profile: str, result: str, start: float) -> None:
        """A decision was made."""
        if result != "scheduled":
            self.attempts(profile, result)
            self._durations.labels(result, profile).observe(time.perf_counter() - start)

    def attempts(self, profile: str, result: str) -> None:
        """An attempt has ended."""
        self._attempts.labels(result, profile).inc()

    def bound(self, profile: str, start: float, entry: Queued) -> None:
        """A pod was bound."""
        self.attempts(profile, "scheduled")
        self._durations.labels("scheduled", profile).observe(time.perf_counter() - start)

    def rejected(self, profile: str, plugins: Iterable[str]) -> None:
        """A pod was rejected by some plugins."""
        for plugin in plugins:
            self.unschedulable.labels(plugin, profile).inc()

    def unclear(self) -> None:
        """A taint could not be understood."""
        self._unclear.inc()
