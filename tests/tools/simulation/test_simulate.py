"""A simulation says what changes would lead to, and leaves what they do not concern as it was."""

from __future__ import annotations

import pytest

from moorage.controllers.workloads.replicaset import ReplicaSetController
from moorage.features import ALL_ON, NONE_ON
from moorage.tools.cluster import Cluster
from moorage.tools.simulation.changes import (
    AddNodes,
    CannotChange,
    CordonNodes,
    DeleteObject,
    DrainNodes,
    LabelNodes,
    NamedObject,
    RemoveNodes,
    ScaleWorkload,
    SetGates,
    TaintNodes,
)
from moorage.tools.simulation.result import Simulation
from tests.tools.simulation.asking import (
    Data,
    asked,
    budget,
    cluster_of,
    deployment,
    node,
    owned_by,
    pod,
    structs_of,
    taint,
)


def moves(result: Simulation) -> set[tuple[str, str, str]]:
    return {(each.owner, each.source, each.to) for each in result.after.moved}


def named(text: str) -> NamedObject:
    return NamedObject.parse(text, "default")


def test_what_is_there_stays_as_it_is_when_nothing_is_changed() -> None:
    found = (node("a"), node("b"), pod("one", "a"), pod("two", "b", owner=owned_by("Rollout", "x", "argoproj.io/v1")))
    for cluster in (cluster_of(*found), structs_of(*found)):
        result = asked(cluster)
        assert result.is_harmless
        assert result.at_rest
        assert not result.timeline
        assert result.after == result.before


def test_a_drain_moves_the_pods_of_workloads_and_loses_those_of_nobody() -> None:
    cluster = cluster_of(node("a"), node("b"), deployment("web", 2), pod("alone", "a"))
    result = asked(cluster, CordonNodes("b"), CordonNodes("b", on=False), DrainNodes("a"))
    assert moves(result) <= {("Deployment default/web", "a", "b")}
    assert [(each.pod, each.node, each.cause) for each in result.after.lost] == [("default/alone", "a", "drained")]
    assert not result.is_harmless


def test_a_drain_without_losses_is_harmless() -> None:
    result = asked(
        cluster_of(node("a"), node("b"), deployment("web", 3), deployment("log", 0, "DaemonSet")), DrainNodes("a")
    )
    assert result.is_harmless
    assert {to for _, _, to in moves(result)} == {"b"}
    assert all(each.replaced_by for each in result.after.evicted)
    assert not any("log" in each.pod for each in result.after.evicted)


def test_a_disruption_budget_blocks_a_drain_and_is_named() -> None:
    result = asked(
        cluster_of(node("a"), node("b"), deployment("web", 2), budget("web", minAvailable=2)), DrainNodes("a")
    )
    blocked = result.after.blocked
    assert [each.budget for each in blocked] == ["PodDisruptionBudget default/web (2 healthy, 2 needed)"]
    assert [each.node for each in blocked] == ["a"]
    assert not result.is_harmless


def test_a_disruption_budget_delays_a_drain_until_replacements_run() -> None:
    cluster = cluster_of(
        node("a"), node("b", taint("late", "NoSchedule")), deployment("web", 3), budget("web", minAvailable=2)
    )
    result = asked(cluster, TaintNodes.parse("b", "late-"), DrainNodes("a"))
    assert len(result.after.moved) == 3
    assert not result.after.blocked
    assert [each.at for each in result.after.evicted] == [0, 5, 10]


def test_what_ends_pending_is_said_with_the_words_of_the_scheduler() -> None:
    result = asked(cluster_of(node("a"), deployment("web", 2)), ScaleWorkload(named("deploy/web"), 6))
    assert [each.reason.partition(".")[0] for each in result.after.pending] == [
        "0/1 nodes are available: 1 Insufficient cpu"
    ] * 2
    assert len(result.after.placed) == 2


def test_more_nodes_take_what_was_pending() -> None:
    result = asked(cluster_of(node("a", zone="x"), deployment("web", 6)), AddNodes(1, "a"))
    assert len(result.before.pending) == 2
    assert [each.node for each in result.after.placed] == ["a-1", "a-1"]
    assert result.is_harmless
    (group,) = result.utilization
    assert group.before is not None
    assert group.after is not None
    assert (group.before.nodes, group.after.nodes) == (1, 2)
    assert (group.before.cpu.requested, group.after.cpu.requested) == (4000, 6000)


def test_new_nodes_have_the_taints_of_the_node_that_they_are_like_and_are_not_cordoned() -> None:
    taints = [
        taint("node.kubernetes.io/sla", "NoSchedule", "990"),
        taint("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]
    cordoned = node("a", *taints)
    cordoned["spec"]["unschedulable"] = True
    tolerations = [{"key": "node.kubernetes.io/sla", "operator": "Exists"}]
    cluster = cluster_of(cordoned, pod("plain"), pod("tolerant", tolerations=tolerations))
    result = asked(cluster, AddNodes(1, "a"))
    assert [(each.pod, each.node) for each in result.after.placed] == [("default/tolerant", "a-1")]
    assert [each.pod for each in result.still_pending] == ["default/plain"]


def test_pods_that_were_pending_before_do_not_count_as_lost() -> None:
    result = asked(cluster_of(node("a"), pod("large", cpu="9")), LabelNodes.parse("a", "x=y"))
    assert result.is_harmless
    assert [each.pod for each in result.still_pending] == ["default/large"]
    assert not asked(cluster_of(node("a"), pod("large", cpu="9"))).is_harmless


@pytest.mark.parametrize("toleration", [{"tolerationSeconds": 300}, {"tolerationSeconds": 600}])
def test_an_eviction_comes_when_the_toleration_ends(toleration: Data) -> None:
    tolerations = [{"key": "hot", "operator": "Exists", "effect": "NoExecute", **toleration}]
    cluster = cluster_of(node("a"), node("b", zone="b"), pod("web", "a", tolerations=tolerations))
    result = asked(cluster, TaintNodes.parse("a", "hot=1:NoExecute"))
    (lost,) = result.after.lost
    assert lost.at == pytest.approx(toleration["tolerationSeconds"], abs=1)
    assert "hot=1:NoExecute" in lost.cause
    assert not asked(cluster, TaintNodes.parse("a", "hot=1:NoExecute"), TaintNodes.parse("a", "hot-")).after.lost


def test_the_time_bound_ends_a_simulation_in_which_more_would_happen() -> None:
    tolerations = [{"key": "hot", "operator": "Exists", "tolerationSeconds": 300}]
    cluster = cluster_of(node("a"), pod("web", "a", tolerations=tolerations))
    result = asked(cluster, TaintNodes.parse("a", "hot:NoExecute"), seconds=299)
    assert result.is_harmless
    assert asked(cluster, TaintNodes.parse("a", "hot:NoExecute"), seconds=301).after.lost


def test_changes_are_made_in_their_order() -> None:
    cluster = cluster_of(node("a", zone="east"), node("b", zone="west"), pod("web", "a"))
    both = LabelNodes.parse("b", "zone=east"), TaintNodes.parse("zone=east", "gone:NoExecute")
    assert asked(cluster, *both).utilization[0].after == asked(cluster, both[1], both[0]).utilization[0].after
    waiting = cluster_of(node("a", zone="east"), node("b", zone="west"), pod("web", "b"))
    assert asked(waiting, *both).after.lost
    assert not asked(waiting, *reversed(both)).after.lost


def test_the_pods_of_a_removed_node_are_replaced_elsewhere() -> None:
    result = asked(cluster_of(node("a", zone="x"), node("b"), deployment("web", 3)), RemoveNodes("zone=x"))
    assert {(source, to) for _, source, to in moves(result)} == {("a", "b")}
    assert {each.cause for each in result.after.evicted} == {"its node is gone"}
    assert result.nodes == 1


def test_what_is_deleted_is_not_lost() -> None:
    result = asked(cluster_of(node("a"), deployment("web", 2)), DeleteObject(named("deploy/web")))
    assert result.is_harmless
    assert len(result.after.deleted) == 2


def test_pods_of_controllers_that_are_not_there_are_replaced_as_they_are() -> None:
    rollout, sets = owned_by("Rollout", "web", "argoproj.io/v1alpha1"), owned_by("ReplicaSet", "unread")
    found = (node("a"), node("b"), pod("web-1", "a", owner=rollout, cpu="2"), pod("other-1", "a", owner=sets))
    for cluster in (cluster_of(*found), structs_of(*found)):
        result = asked(cluster, DrainNodes("a"))
        assert {(each.pod, each.to) for each in result.after.moved} == {
            ("default/web-1", "b"),
            ("default/other-1", "b"),
        }
        assert result.is_harmless
        assert any("1 pod of a Rollout that is not here" in each for each in result.assumptions)


def test_a_node_that_is_not_ready_stays_so() -> None:
    not_ready = [taint("node.kubernetes.io/not-ready", "NoSchedule")]
    cluster = cluster_of(node("a"), node("b", *not_ready, ready="False"), node("c"), deployment("web", 4))
    result = asked(cluster, DrainNodes("a"))
    assert {to for _, _, to in moves(result)} == {"c"}


def test_a_gate_that_is_turned_off_evicts_what_only_it_kept() -> None:
    tolerations = [{"key": "ready*", "operator": "Exists"}]
    cluster = cluster_of(node("a", taint("ready.x")), pod("agent", "a", tolerations=tolerations))
    result = asked(cluster, SetGates(NONE_ON), gates=ALL_ON)
    assert [each.pod for each in result.after.lost] == ["default/agent"]
    assert asked(cluster, gates=ALL_ON).is_harmless


def test_a_workload_whose_pods_are_refused_is_named() -> None:
    tolerations = [{"key": "ready*", "operator": "Exists"}]
    cluster = cluster_of(node("a"), node("b"), deployment("web", 2, tolerations=tolerations))
    result = asked(cluster, SetGates(NONE_ON), DrainNodes("a"), gates=ALL_ON)
    (refused,) = result.after.refused
    assert refused.object.startswith("ReplicaSet default/web-")
    assert "tolerations" in refused.message
    assert len(result.after.lost) == 1


def test_objects_that_the_api_server_does_not_take_are_named() -> None:
    bad = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}, "spec": {"containers": []}}
    result = asked(cluster_of(node("a"), bad))
    assert [each.object for each in result.before.refused] == ["Pod default/bad"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: DrainNodes("nod-1"), "there is no node nod-1: did you mean node-1?"),
        (lambda: CordonNodes("zone=z"), "no node has the labels zone=z"),
        (lambda: CordonNodes("zone=(("), "'zone=((' is no label selector"),
        (lambda: TaintNodes.parse("node-1", "x"), "'x' is no taint: write key=value:Effect"),
        (lambda: LabelNodes.parse("node-1", "x"), "'x' is no label: write key=value"),
        (lambda: DeleteObject(named("deploy/wep")), "there is no deployment wep: did you mean web?"),
        (lambda: DeleteObject(named("deplyment/web")), "'deplyment' is no kind of object: did you mean deployment"),
        (lambda: DeleteObject(named("web")), "'web' names no object: write KIND/NAME"),
        (lambda: ScaleWorkload(named("pod/x"), 2), "a Pod has no replicas to scale"),
        (lambda: AddNodes(0, "node-1"), "--add-nodes 0: give a number above 0"),
        (lambda: TaintNodes.parse("node-1", "a b:NoExecute"), "Invalid value"),
    ],
)
def test_a_change_that_cannot_be_made_is_one_sentence(make: object, sentence: str) -> None:
    cluster = cluster_of(node("node-1"), deployment("web", 1))
    with pytest.raises(CannotChange) as raised:
        asked(cluster, make())  # type: ignore[operator]
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_same_question_has_the_same_answer() -> None:
    def ask() -> Simulation:
        cluster: Cluster = cluster_of(*(node(f"n{number}") for number in range(5)), deployment("web", 9))
        return asked(cluster, DrainNodes("n1"), ScaleWorkload(named("deploy/web"), 30))

    assert ask() == ask()


def storage(*volumes: Data) -> list[Data]:
    zonal = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip
    claims = {"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}},
    }}  # fmt: skip
    database = deployment("db", 1, "StatefulSet")
    database["spec"] |= {"volumeClaimTemplates": [claims], "serviceName": "db"}
    return [zonal, database, *volumes]


def test_volumes_of_any_driver_are_provisioned_and_stay_in_their_zone() -> None:
    zone = "topology.kubernetes.io/zone"
    nodes = [node("a", **{zone: "east"}), node("b", **{zone: "east"}), node("c", **{zone: "west"})]
    alone = asked(cluster_of(*nodes, *storage()), ScaleWorkload(named("sts/db"), 3))
    assert alone.is_harmless
    assert len(alone.after.placed) == 2
    late = node("c", taint("late", "NoSchedule"), **{zone: "west"})
    changes = TaintNodes.parse("c", "late-"), DrainNodes("a")
    (waiting,) = asked(cluster_of(nodes[0], late, *storage()), *changes).after.pending
    assert "didn't match PersistentVolume's node affinity" in waiting.reason
    moved = asked(cluster_of(nodes[0], late, *storage()), AddNodes(1, "a"), *changes).after.moved
    assert [(each.source, each.to) for each in moved] == [("a", "a-1")]


def test_new_nodes_have_the_devices_of_the_node_that_they_are_like() -> None:
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
    }
    inventory = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a-gpus"},
        "spec": {**spec, "devices": [{"name": "gpu-0"}]},
    }  # fmt: skip
    template = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
    }  # fmt: skip
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    cluster = cluster_of(node("a"), device_class, inventory, template, deployment("train", 2, resourceClaims=claims))
    result = asked(cluster, AddNodes(1, "a"))
    assert len(result.before.pending) == 1
    assert [each.node for each in result.after.placed] == ["a-1"]


def test_pods_stay_when_what_stands_between_them_and_their_workload_is_not_in_the_snapshot() -> None:
    """As with `kubectl get nodes,pods,deployments,statefulsets,daemonsets -o yaml`: no ReplicaSets and no revisions."""
    stored: Data = {"uid": "x", "namespace": "default", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    objects = [node("a"), node("b")]
    for kind in ("Deployment", "StatefulSet", "DaemonSet"):
        name = kind.lower()
        workload = deployment(name, 2, kind, cpu="500m")
        workload["metadata"] |= {**stored, "uid": f"{kind}-{name}"}
        objects.append(workload)
        labels = {"app": name} | ({"pod-template-hash": "h"} if kind == "Deployment" else {})
        labels |= {"controller-revision-hash": f"{name}-h" if kind == "StatefulSet" else "h"}
        owner = owned_by("ReplicaSet", f"{name}-h") if kind == "Deployment" else owned_by(kind, name)
        for number, place in enumerate("ab"):
            made = pod(f"{name}-{number}", place, owner=owner, labels=labels, cpu="500m")
            made["metadata"] |= {"generateName": f"{name}-h-"} if kind != "StatefulSet" else {}
            if kind == "StatefulSet":
                labels = {**labels, "statefulset.kubernetes.io/pod-name": made["metadata"]["name"]}
            objects.append(made)
    for cluster in (cluster_of(*objects), structs_of(*objects)):
        result = asked(cluster)
        assert result.timeline == []
        assert result.pods == 6
        drained = asked(cluster, DrainNodes("a"))
        assert moves(drained) == {
            ("Deployment default/deployment", "a", "b"),
            ("StatefulSet default/statefulset", "a", "b"),
        }
        assert drained.pods == 6
        assert drained.is_harmless


def test_a_fault_of_a_component_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    assert not asked(cluster_of(node("a"), deployment("web", 1))).assumptions
    monkeypatch.setattr(ReplicaSetController, "reconcile", fails)
    (note,) = asked(cluster_of(node("a"), deployment("web", 1))).assumptions
    assert "may have changed the answer: ZeroDivisionError: by zero" in note


def test_pods_of_another_scheduler_are_placed_as_by_the_default_profile() -> None:
    result = asked(cluster_of(node("a"), deployment("web", 1, schedulerName="volcano")))
    assert len(result.after.placed) == 1
    assert result.assumptions == [
        "the pods of the scheduler volcano are placed as by Kubernetes' default profile, or the first of --config"
    ]
