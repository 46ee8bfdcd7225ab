"""Metrics that every component has: its gates, the build, what its process uses, and its compiled expressions."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from typing import cast

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moorage.features import Gate, Gates
from moorage.match.expressions import cache_counters

MAJOR, MINOR = "1", "36"
_OURS = "+moorage-"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def git_version() -> str:
    """The Kubernetes version with Moorage's own as its suffix."""
    from importlib.metadata import version  # slow to import, and most commands do not need it

    return f"v{MAJOR}.{MINOR}.0{_OURS}{version('moorage')}"


def is_moorage(git_version: str) -> bool:
    """Whether a server of this version is Moorage's."""
    return _OURS in git_version


def build_info() -> dict[str, str]:
    """What clients and metrics are told about the build, by the names of Kubernetes' version document."""
    machine = platform.machine()
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": git_version(),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{_MACHINES.get(machine, machine)}",
    }


_BUILD_LABELS = {
    "major": "major", "minor": "minor", "gitVersion": "git_version", "gitCommit": "git_commit",
    "gitTreeState": "git_tree_state", "buildDate": "build_date", "goVersion": "go_version", "compiler": "compiler",
    "platform": "platform",
}  # fmt: skip


def expose_gates(registry: CollectorRegistry, gates: Gates, kubelet: Gates | None = None) -> None:
    """Expose which gates are on in a component, and in the hollow kubelets of its process if there are any.

    Of no counter it is told when it was created: Kubernetes has none of those.
    """
    cast(Callable[[], None], disable_created_metrics)()
    registry.register(_GatesCollector(gates, kubelet))


class _GatesCollector(Collector):
    """The gates of a component and of hollow kubelets."""

    def __init__(self, gates: Gates, kubelet: Gates | None) -> None:
        self._all: list[tuple[Gates, dict[str, str]]] = [(gates, {})]
        if kubelet is not None:
            self._all.append((kubelet, {"component": "kubelet"}))

    def collect(self) -> Iterator[Metric]:
        """1 for each gate that is on, 0 for the others."""
        family = GaugeMetricFamily("kubernetes_feature_enabled", "Whether a gate is on.")
        for gates, more in self._all:
            for gate in Gate:
                labels = {"name": gate.value, "stage": gate.stage.value, **more}
                family.add_sample(family.name, labels, float(gates.enabled(gate)))
        yield family


def expose_process(registry: CollectorRegistry) -> None:
    """Expose the build, what the process uses, and the expressions that it has compiled."""
    info = {label: build_info()[name] for name, label in _BUILD_LABELS.items()}
    Gauge("kubernetes_build_info", "The build, in its labels.", tuple(info), registry=registry).labels(**info).set(1)
    ProcessCollector(registry=registry)
    registry.register(_ExpressionCacheCollector())


class _ExpressionCacheCollector(Collector):
    """The look-ups of compiled expressions, which the matcher counts."""

    def collect(self) -> Iterator[Metric]:
        """How many there were, by cache and result."""
        text = "Look-ups of compiled CEL expressions, and what was evicted to make room."
        found = CounterMetricFamily("moorage_cel_cache", text, labels=["cache", "result"])
        for cache, counters in cache_counters().items():
            for result, count in counters._asdict().items():
                found.add_metric([cache, result], count)
        yield found
