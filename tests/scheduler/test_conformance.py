"""Kubernetes' own end-to-end specs of predicates, priorities and zones, each named by its test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.plane import create, eventually
from tests.scheduler.cluster import FAKE, HOST, REQUIRED, cluster, matching, only, spread
from tests.scheduler.stage import NODE, POD

Data = dict[str, Any]


@pytest.mark.parametrize("resource", ["ephemeral-storage", "cpu", FAKE])
async def test_predicates_resource_limits_of_pods_that_are_allowed_to_run(tmp_path: Path, resource: str) -> None:
    async with cluster(tmp_path) as here:
        for name in ("node-1", "node-2"):
            if resource == FAKE:
                await here.fake(name, 100)
            else:
                value = {resource: "100"}
                status = {"capacity": value, "allocatable": value}
                await here.client.patch(NODE, "", name, {"status": status}, subresource="status")
        for number in range(20):
            await here.make(f"filler-{number}", 10, resource)
        for number in range(20):
            await here.runs(f"filler-{number}")
        await here.make("additional", 10, resource)
        assert f"2 Insufficient {resource}" in await here.unschedulable("additional")


def runtime_class(name: str, overhead: dict[str, str]) -> Data:
    return {
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "runc",
        "overhead": {"podFixed": overhead},
    }  # fmt: skip


async def test_predicates_pod_overhead_is_accounted_for(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as here:
        await here.fake("node-1", 1000)
        await here.run_pod("filler", 700)
        await create(here.client, runtime_class("sandbox", {FAKE: "250"}))
        await here.make("heavy", 200, runtimeClassName="sandbox")
        assert f"Insufficient {FAKE}" in await here.unschedulable("heavy")
        await here.run_pod("light", 200)


async def test_predicates_node_selector_is_respected_if_not_matching(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        await here.make("restricted", nodeSelector={"label": "nonempty"})
        assert "2 node(s) didn't match Pod's node affinity/selector" in await here.unschedulable("restricted")


async def test_predicates_node_selector_is_respected_if_matching(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        await here.label("node-2", e2e="42")
        assert await here.run_pod("with-labels", nodeSelector={"e2e": "42"}) == "node-2"


async def test_predicates_node_affinity_is_respected_if_not_matching(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        terms = [
            {"matchExpressions": [{"key": "foo", "operator": "In", "values": ["bar", "value2"]}]},
            {"matchExpressions": [{"key": "diffkey", "operator": "In", "values": ["wrong", "value2"]}]},
        ]
        await here.make("restricted", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
        assert "2 node(s) didn't match Pod's node affinity/selector" in await here.unschedulable("restricted")


async def test_predicates_required_node_affinity_is_respected_if_matching(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        await here.label("node-1", e2e="42")
        assert await here.run_pod("with-labels", affinity=matching("e2e", "42", "other")) == "node-1"


async def test_predicates_taints_and_tolerations_are_respected(tmp_path: Path) -> None:
    """Both specs: a pod that tolerates the taint goes to the node, one that does not waits until the taint is gone."""
    async with cluster(tmp_path) as here:
        await here.taint("node-1", {"key": "e2e", "value": "testing", "effect": "NoSchedule"})
        await here.label("node-1", e2e="42")
        toleration = {"key": "e2e", "operator": "Equal", "value": "testing", "effect": "NoSchedule"}
        assert await here.run_pod("tolerant", tolerations=[toleration], nodeSelector={"e2e": "42"}) == "node-1"
        await here.make("intolerant", nodeSelector={"e2e": "42"})
        assert "untolerated taint(s)" in await here.unschedulable("intolerant")
        await here.taint("node-1")
        assert await here.runs("intolerant") == "node-1"


async def test_predicates_no_conflict_between_pods_with_same_host_port_but_other_address_or_protocol(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 1) as here:
        wanted = [("127.0.0.1", "TCP"), ("127.0.0.2", "TCP"), ("127.0.0.2", "UDP")]
        for number, (address, protocol) in enumerate(wanted):
            port = {"containerPort": 8080, "hostPort": 54321, "hostIP": address, "protocol": protocol}
            assert await here.run_pod(f"pod-{number}", ports=[port]) == "node-1"


async def test_predicates_conflict_between_pods_with_same_host_port_and_one_on_all_addresses(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as here:
        await here.run_pod("first", ports=[{"containerPort": 8080, "hostPort": 54322, "hostIP": "0.0.0.0"}])
        await here.make("second", ports=[{"containerPort": 8080, "hostPort": 54322, "hostIP": "127.0.0.1"}])
        assert "didn't have free ports for the requested pod ports" in await here.unschedulable("second")


async def test_predicates_four_pods_with_max_skew_one_are_evenly_distributed_into_two_nodes(tmp_path: Path) -> None:
    async with cluster(tmp_path, 3) as here:
        for name in ("node-1", "node-2"):
            await here.label(name, pts=name)
        affinity = matching("pts", "node-1", "node-2")
        labels = {"spread": "yes"}
        constraints = spread("pts", "spread")
        await here.replicas("rs", 4, labels, affinity=affinity, topologySpreadConstraints=constraints)

        async def all_placed() -> list[str]:
            found = [each["spec"].get("nodeName", "") for each in await here.pods("rs-")]
            return sorted(found) if len(found) == 4 and all(found) else []

        assert await eventually(all_placed) == ["node-1", "node-1", "node-2", "node-2"]


async def test_predicates_pods_with_scheduling_gates_are_blocked(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        gates = [{"name": "foo"}, {"name": "bar"}]
        await here.replicas("gated", 3, {"app": "gated"}, schedulingGates=gates)

        async def blocked() -> list[Data]:
            found = await here.pods("gated-")
            conditions = [
                [(each["type"], each["status"], each["reason"]) for each in pod["status"].get("conditions", [])]
                for pod in found
            ]
            wanted = [[("PodScheduled", "False", "SchedulingGated")]] * 3
            return found if conditions == wanted else []

        for left in ([{"name": "bar"}], None):
            for each in await eventually(blocked):
                path = {"op": "replace" if left else "remove", "path": "/spec/schedulingGates"}
                patch = [{**path, "value": left} if left else path]
                name = each["metadata"]["name"]
                await here.client.patch(POD, "default", name, patch, form="application/json-patch+json")
            if left:
                assert len(await eventually(blocked)) == 3
                assert here.scheduler.queue.counts()["gated"] == 3
        for each in await here.pods("gated-"):
            await here.runs(each["metadata"]["name"])


async def test_predicates_a_claim_with_affinity_to_nodes_that_do_not_exist_is_no_hindrance(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        hosts = ["node-2", "not-there-1", "not-there-2"]
        term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": hosts}]}
        volume = {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "local": {"path": "/tmp"}, "claimRef": {"namespace": "default", "name": "claim"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }  # fmt: skip
        claim = {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "volume",
            "resources": {"requests": {"storage": "1Gi"}},
        }  # fmt: skip
        manifests = (("PersistentVolume", "volume", volume), ("PersistentVolumeClaim", "claim", claim))
        for kind, name, spec in manifests:
            await create(here.client, {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
        assert await here.run_pod("with-claim", volumes=volumes) == "node-2"


async def test_priorities_pod_goes_to_a_node_that_does_not_match_its_anti_affinity_terms(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        taken = await here.run_pod("security-s1", labels={"security": "S1"})
        selector = {
            "matchExpressions": [
                {"key": "security", "operator": "In", "values": ["S1", "value2"]},
                {"key": "security", "operator": "NotIn", "values": ["S2"]},
                {"key": "security", "operator": "Exists"},
            ]
        }
        term = {"labelSelector": selector, "topologyKey": HOST, "namespaces": ["default"]}
        weighted = [{"weight": 10, "podAffinityTerm": term}]
        affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
        assert await here.run_pod("apart", affinity=affinity) != taken


async def test_priorities_pod_goes_to_the_node_whose_taints_it_tolerates(tmp_path: Path) -> None:
    async with cluster(tmp_path, 3) as here:
        taints = {
            name: [
                {"key": f"e2e-{name}-{number}", "value": "testing", "effect": "PreferNoSchedule"}
                for number in range(10)
            ]
            for name in ("node-1", "node-2", "node-3")
        }
        for name, given in taints.items():
            await here.taint(name, *given)
        assert await here.run_pod("tolerant", tolerations=taints["node-2"]) == "node-2"


async def test_priorities_pod_goes_where_matching_pods_are_more_evenly_distributed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        await here.replicas("rs", 4, {"pts": "foo"}, nodeSelector={HOST: "node-1"})
        assert await eventually(lambda: here.placed("rs-", 4))
        constraints = spread(HOST, "pts", "ScheduleAnyway")
        assert await here.run_pod("test", labels={"pts": "bar"}, topologySpreadConstraints=constraints) == "node-2"


@pytest.mark.parametrize("kind", ["Service", "ReplicationController"])
async def test_multi_zone_clusters_spread_pods_of_a_kind_across_zones(tmp_path: Path, kind: str) -> None:
    async with cluster(tmp_path, 3) as here:
        # Room alone would draw all of them to the one node that is empty.
        for name in ("node-2", "node-3"):
            await here.run_pod(f"on-{name}", 4, resource="cpu", affinity=only(name))
        labels = {"app": "web"}
        if kind == "Service":
            await create(here.client, owner(kind, {"selector": labels, "ports": [{"port": 80}]}))
            for number in range(6):
                await here.make(f"web-{number}", labels=labels)
        else:
            template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            await create(here.client, owner(kind, {"replicas": 6, "template": template}))
        await eventually(lambda: here.placed("web-", 6))
        nodes = Counter(each["spec"]["nodeName"] for each in await here.pods("web-"))
        assert nodes == {"node-1": 2, "node-2": 2, "node-3": 2}


def owner(kind: str, spec: Data) -> Data:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec}
