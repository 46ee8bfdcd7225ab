"""The metrics of the API server, under the names that kube-apiserver uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moorage.apiserver.base.offload import LARGE, offload
from moorage.apiserver.http.flowcontrol import FlowControl
from moorage.componentmetrics import expose_gates, expose_process
from moorage.features import Gates
from moorage.histogram import Histogram

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)


class ApiServerMetrics:
    """The counters of one server."""

    def __init__(self, gates: Gates) -> None:
        self._registry = CollectorRegistry()
        self.others: dict[str, CollectorRegistry] = {}
        """The metrics of other components in the same process."""
        labels = ("verb", "group", "version", "resource", "subresource", "scope")
        self._requests = _RequestCounter((*labels, "code", "dry_run"))
        self._registry.register(self._requests)
        self._seconds = Histogram(
            self._registry, "apiserver_request_duration_seconds", "How long requests other than watches took.",
            _BUCKETS, *labels,
        )  # fmt: skip
        expose_gates(self._registry, gates)
        expose_process(self._registry)

    def request(self, labels: tuple[str, ...], code: int, seconds: float | None, *, dry_run: bool) -> None:
        """Count a request by verb, group, version, resource, sub-resource and scope; a watch has no duration."""
        self._requests.counts[labels, code, dry_run] += 1
        if seconds is not None:
            self._seconds.observe(seconds, *labels)

    def follow(self, control: FlowControl) -> None:
        """Serve what a server's flow control has counted."""
        self.serve(_FlowControlCollector(control))

    def serve(self, collector: Collector) -> None:
        """Serve more metrics."""
        self._registry.register(collector)

    async def text(self) -> bytes:
        """All metrics in Prometheus' text form: tens of thousands of lines, which are written in a thread."""
        # Those of other components are few, and may only be asked by the thread that changes them.
        others = {component: tuple(registry.collect()) for component, registry in self.others.items()}
        return await offload(LARGE, generate_latest, _Together(self._registry, others))


class _Together(Collector):
    """The metrics of a process as one text: what two components expose has the name of the other one as a label."""

    def __init__(self, own: CollectorRegistry, others: Mapping[str, Sequence[Metric]]) -> None:
        self._own = own
        self._others = others

    def collect(self) -> Iterator[Metric]:
        """All metrics, each name once."""
        families = {family.name: family for family in self._own.collect()}
        for component, collected in self._others.items():
            for family in collected:
                shared = families.setdefault(family.name, family)
                if shared is not family:
                    shared.samples += [
                        sample._replace(labels={"component": component, **sample.labels}) for sample in family.samples
                    ]
        yield from families.values()


class _RequestCounter(Collector):
    """How many requests there were, by what was asked and how it was answered. Only one thread counts."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = labels
        self.counts: Counter[tuple[tuple[str, ...], int, bool]] = Counter()
        """By what was asked, the code of the answer, and whether it was a dry run."""

    def collect(self) -> Iterator[Metric]:
        """The counter as it is now."""
        text = "Requests, by what was asked and how it was answered."
        family = CounterMetricFamily("apiserver_request", text, labels=self._labels)
        for (asked, code, dry_run), count in list(self.counts.items()):
            family.add_metric([*asked, str(code), "All" if dry_run else ""], count)
        yield family


class _FlowControlCollector(Collector):
    """The counters of flow control, under the names that kube-apiserver uses."""

    def __init__(self, control: FlowControl) -> None:
        self._control = control

    def collect(self) -> Iterator[Metric]:
        """What is executing, waiting, dispatched and rejected now, by priority level."""
        level, prefix = ["priority_level"], "apiserver_flowcontrol_"
        executing = GaugeMetricFamily(f"{prefix}current_executing_requests", "Requests that are served.", labels=level)
        waiting = GaugeMetricFamily(f"{prefix}current_inqueue_requests", "Requests that wait for a seat.", labels=level)
        dispatched = CounterMetricFamily(f"{prefix}dispatched_requests", "Requests that got a seat.", labels=level)
        rejected = CounterMetricFamily(f"{prefix}rejected_requests", "Requests without a seat.", labels=level)
        watches = GaugeMetricFamily("apiserver_longrunning_requests", "Watches that are being sent.")
        for each, count in self._control.executing.items():
            executing.add_metric([each.value], count)
        for each, seats in self._control.levels.items():
            waiting.add_metric([each.value], seats.waiting.used)
            dispatched.add_metric([each.value], seats.dispatched)
            rejected.add_metric([each.value], seats.refused)
        watches.add_metric([], self._control.streams)
        yield from (executing, waiting, dispatched, rejected, watches)
