"""The metrics of the API server, under the names that kube-apiserver uses."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from moorage.histogram import Histogram
from moorage.match.expressions import cache_counters

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)


class ApiServerMetrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.others: list[CollectorRegistry] = []
        """The metrics of other components in the same process."""
        labels = ("verb", "group", "version", "resource", "subresource", "scope")
        self._requests = Counter(
            "apiserver_request", "Requests, by what was asked and how it was answered.", (*labels, "code", "dry_run"),
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            self._registry, "apiserver_request_duration_seconds", "How long requests other than watches took.",
            _BUCKETS, *labels,
        )  # fmt: skip
        self._expressions = Gauge(
            "moorage_cel_cache_total", "Look-ups of compiled CEL expressions.", ("cache", "result"),
            registry=self._registry,
        )  # fmt: skip
        self._count = lru_cache(maxsize=4096)(self._requests.labels)

    def request(self, labels: tuple[str, ...], code: int, seconds: float | None, *, dry_run: bool) -> None:
        """Count a request by verb, group, version, resource, sub-resource and scope; a watch has no duration."""
        counter: Any = self._count(*labels, str(code), "All" if dry_run else "")
        counter.inc()
        if seconds is not None:
            self._seconds.observe(seconds, *labels)

    def text(self) -> bytes:
        """All metrics in Prometheus' text form."""
        for cache, counters in cache_counters().items():
            for result, count in counters._asdict().items():
                self._expressions.labels(cache, result).set(count)
        return b"".join(map(generate_latest, (self._registry, *self.others)))
