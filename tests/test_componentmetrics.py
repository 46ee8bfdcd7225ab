"""Each component says in its metrics which gates are on, what build it is and what its process uses."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from moorage.apiserver.describe import version
from moorage.componentmetrics import expose_gates, expose_process
from moorage.controllers.run import prepare
from moorage.features import ALL_ON, NONE_ON, Gate, Gates
from moorage.match.expressions import NodeExpression
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from tests.plane import api_server

WILDCARD = Gates(frozenset((Gate.WILDCARD,)))


def enabled(registry: CollectorRegistry) -> set[str]:
    return {
        gate.value
        for gate in Gate
        if registry.get_sample_value("kubernetes_feature_enabled", {"name": gate.value, "stage": "ALPHA"})
    }


async def test_scheduler_and_controllers_expose_their_gates(tmp_path: Path) -> None:
    async with api_server(tmp_path, NONE_ON) as server:
        client = server.client("test")
        assert enabled(Scheduler(client, WILDCARD, Configuration()).metrics.registry) == {"WildcardTolerationKeys"}
        assert enabled(prepare(client, ALL_ON).context.registry) == {gate.value for gate in Gate}


def test_a_gate_that_is_off_is_there_as_zero() -> None:
    registry = CollectorRegistry()
    expose_gates(registry, NONE_ON)
    labels = {"name": "WildcardTolerationKeys", "stage": "ALPHA"}
    assert registry.get_sample_value("kubernetes_feature_enabled", labels) == 0


async def test_hollow_kubelets_have_gates_of_their_own(tmp_path: Path) -> None:
    async with api_server(tmp_path, NONE_ON) as server:
        controllers = prepare(server.client("test"), NONE_ON, kubelet_gates=WILDCARD)
        labels = {"name": "WildcardTolerationKeys", "stage": "ALPHA"}
        value = controllers.context.registry.get_sample_value
        assert value("kubernetes_feature_enabled", labels) == 0
        assert value("kubernetes_feature_enabled", {**labels, "component": "kubelet"}) == 1
        with server.measuring("controllers", controllers.context.registry):
            text = (await server.transport("test").request("GET", "/metrics")).body.decode()
    of_gate = [line for line in text.splitlines() if 'name="WildcardTolerationKeys"' in line]
    assert sorted(re.findall(r'component="(\w+)".* (\S+)$', "\n".join(of_gate), re.MULTILINE)) == [
        ("controllers", "0.0"), ("kubelet", "1.0")
    ]  # fmt: skip


def test_the_process_and_the_build_are_exposed() -> None:
    registry = CollectorRegistry()
    expose_process(registry)
    names = ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds", "start_time_seconds")
    assert all((registry.get_sample_value(f"process_{name}") or 0) > 0 for name in names)
    told = msgspec.json.decode(version.document())
    (build,) = (family for family in registry.collect() if family.name == "kubernetes_build_info")
    (sample,) = build.samples
    assert (sample.labels["git_version"], sample.labels["platform"]) == (told["gitVersion"], told["platform"])


async def test_components_of_one_process_are_one_text_with_each_name_once(tmp_path: Path) -> None:
    NodeExpression("node.labels['a'] == 'b'")
    async with api_server(tmp_path, NONE_ON) as server:
        client = server.client("test")
        scheduler = Scheduler(client, WILDCARD, Configuration())
        with server.measuring("scheduler", scheduler.metrics.registry):
            text = (await server.transport("test").request("GET", "/metrics")).body.decode()
    types = [line for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len({line.split()[2] for line in types}) == len(types)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    on = [
        (each.labels.get("component"), each.labels["name"])
        for each in families["kubernetes_feature_enabled"].samples
        if each.value
    ]
    assert on == [("scheduler", "WildcardTolerationKeys")]
    assert families["moorage_cel_cache"].type == "counter"
    assert {each.name for each in families["moorage_cel_cache"].samples} == {"moorage_cel_cache_total"}
