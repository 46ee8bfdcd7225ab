"""What the scheduler knows, `why` says: resources, ports, claims, other pods, preemption, profiles."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.api.rules import TOLERATIONS
from moorage.features import ALL_ON
from moorage.scheduler.config import Configuration
from moorage.tools.named import UnknownName, named, pending
from moorage.tools.why import Explainer, Explanation
from tests.plane import node, pod
from tests.scheduler.volumes.storage import class_data
from tests.tools.random_cluster import HOST, ZONE, cluster_of

Data = dict[str, Any]


def ask(
    asked: Data, *objects: Data, exact: bool = True, configuration: Configuration | None = None, attached: bool = False
) -> Explanation:
    """What is said about a pod or template of a running cluster."""
    cluster = cluster_of([*objects, _stored(asked)])
    cluster.is_attached = attached
    items = [cluster.items[-1]]
    (explanation,) = Explainer(cluster, ALL_ON, configuration, items, exact=exact).explain_all()
    return explanation


def _stored(data: Data) -> Data:
    return {**data, "metadata": {"uid": data["metadata"]["name"], "namespace": "default", **data["metadata"]}}


def placed(name: str, on: str, **given: Any) -> Data:
    return _stored({**(made := pod(name, **given)), "spec": {**made["spec"], "nodeName": on}})


def refusals(explanation: Explanation) -> dict[str, list[str]]:
    return {
        name: [str(each) for each in refused.refusals]
        for refused in explanation.answer.refused
        for name in refused.nodes
    }


def fits(explanation: Explanation) -> set[str]:
    return {name for fit in explanation.answer.fits for name in fit.nodes}


def with_port(data: Data, port: int = 8080) -> Data:
    data["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": port}]
    return data


def test_what_is_asked_for_and_what_is_free_are_told_in_numbers() -> None:
    said = ask(pod("web", requests={"cpu": "3", "memory": "1Gi", "nvidia.com/gpu": "1"}), node("a", cpu="4"),
               placed("old", "a", requests={"cpu": "1800m", "memory": "63.5Gi"}))  # fmt: skip
    assert refusals(said) == {
        "a": [
            "cpu: asks for 3, 2.2 of 4 free",
            "memory: asks for 1Gi, 512Mi of 64Gi free",
            "nvidia.com/gpu: asks for 1, the node has none",
        ]
    }


def test_amounts_that_look_equal_when_rounded_are_told_in_full() -> None:
    said = ask(pod("web", requests={"memory": "1480Mi"}), node("a", memory="1450Mi"))
    assert refusals(said) == {"a": ["memory: asks for 1551892480, 1520435200 of 1520435200 free"]}


def test_the_holder_of_a_port_is_named_and_the_next_free_port_proposed() -> None:
    said = ask(with_port(pod("web")), node("a"), with_port(placed("old", "a")), with_port(placed("other", "a"), 8081))
    assert refusals(said) == {"a": ["port 8080/TCP: is taken by pod default/old"]}
    of_pod, of_cluster = said.answer.remedies
    assert str(of_pod) == "`hostPort: 8082` instead of `hostPort: 8080` admits 1 node"
    assert of_cluster.commands == ("kubectl delete pod old -n default",)


def test_a_pod_that_is_on_a_node_is_asked_about_as_if_it_were_not() -> None:
    there = with_port(placed("web", "a", requests={"cpu": "3"}))
    said = ask(there, node("a", cpu="4"), node("b", cpu="2"))
    assert (fits(said), said.placed_on, said.leaves) == ({"a"}, "a", "")


def test_a_claim_that_is_missing_refuses_the_pod_everywhere_and_can_be_made() -> None:
    user = pod("web", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "gone"}}])
    said = ask(user, node("a"))
    assert [each.reason for each in said.answer.rejected] == ['persistentvolumeclaim "gone" not found']
    assert said.answer.remedies == ()
    (remedy,) = ask(user, node("a"), class_data("fast", provisioner="example.com/disk")).answer.remedies
    assert remedy.edits == ("a claim gone of class fast",)
    assert remedy.commands[0].startswith("echo '{")


def test_skew_is_told_with_the_numbers_of_pods() -> None:
    labels = {"app": "web"}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                  "labelSelector": {"matchLabels": labels}}  # fmt: skip
    nodes = [node("a", {ZONE: "one"}), node("b", {ZONE: "two"}, cpu="0"), node("c")]
    said = ask(pod("web", labels=labels, topologySpreadConstraints=[constraint]), *nodes,
               placed("old", "a", labels=labels))  # fmt: skip
    words = refusals(said)
    assert words["a"] == [
        f"topology spread: maxSkew 1 would be exceeded: 1 pod in {ZONE}=one, the fewest are 0",
    ]
    assert words["b"] == ["cpu: asks for 0.1, the node has none"]
    assert words["c"] == [f"topology spread: the node has no label {ZONE}"]


def test_other_pods_keep_a_pod_away_and_are_named_by_their_labels() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST}
    shy = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    there = placed("old", "a", labels={"app": "web"}, affinity=shy)
    said = ask(pod("new", labels={"app": "web"}), node("a"), there)
    assert refusals(said) == {
        "a": [f"anti-affinity of other pods: a pod that keeps away from pods with app=web is in {HOST}=a"]
    }
    close = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    said = ask(pod("new", labels={"app": "db"}, affinity=close), node("a"), node("b"), placed("old", "b"))
    assert refusals(said)["a"] == [f"pod affinity: no pod that matches app=web in {HOST}=a"]


def test_preemption_is_foretold_with_its_victims() -> None:
    low, high = placed("low", "a", requests={"cpu": "3"}), pod("high", requests={"cpu": "3"}, priority=100)
    said = ask(high, node("a", cpu="4"), low)
    assert said.answer.preemption is not None
    assert (said.answer.preemption.node, said.answer.preemption.victims) == ("a", ("default/low",))
    assert (
        ask({**high, "spec": {**high["spec"], "preemptionPolicy": "Never"}}, node("a", cpu="4"), low).answer.preemption
        is None
    )


def test_room_is_kept_for_nominated_pods() -> None:
    nominated = _stored(pod("vip", requests={"cpu": "3"}, priority=10)) | {"status": {"nominatedNodeName": "a"}}
    said = ask(pod("web", requests={"cpu": "2"}), node("a", cpu="4"), nominated)
    assert refusals(said) == {"a": ["nominated pods: room is kept for default/vip"]}


def test_where_attach_mode_applies_rules_it_is_said_of_whom_another_scheduler_places() -> None:
    for name in ("", "default-scheduler"):
        ruled = pod("web", schedulerName=name)
        assert ask(ruled, node("a"), attached=True).answer.notes == ()
        ruled["metadata"]["annotations"] = {TOLERATIONS: "[{key: a, operator: Exists}]"}
        assert ask(ruled, node("a"), attached=True).answer.notes == (
            "its rules in annotations count here, but default-scheduler, which places it, knows nothing of them",
        )
        assert ask(ruled, node("a")).answer.notes == ()


def test_a_pod_with_scheduling_gates_is_held_back_until_they_are_removed() -> None:
    said = ask(pod("web", schedulingGates=[{"name": "quota"}]), node("a"))
    assert [each.reason for each in said.answer.rejected] == ["waiting for scheduling gates: [quota]"]
    (remedy,) = said.answer.remedies
    assert remedy.commands == (
        'kubectl patch pod web -n default --type=json -p \'[{"op":"remove","path":"/spec/schedulingGates"}]\'',
    )


def test_the_profile_of_another_scheduler_is_that_of_kubernetes_and_said_to_be() -> None:
    foreign = pod("web", schedulerName="volcano")
    assert ask(foreign, node("a")).answer.notes == (
        "scheduler volcano is not known here: answered as Kubernetes' default profile",
    )
    assert ask(pod("web", schedulerName="moorage"), node("a"), attached=True).answer.notes == ()
    no_ports = Configuration.of({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "volcano", "plugins": {"filter": {"disabled": [{"name": "NodePorts"}]}}}],
    })  # fmt: skip
    said = ask(with_port(foreign), node("a"), with_port(placed("old", "a")), configuration=no_ports)
    assert (fits(said), said.answer.profile, said.answer.notes) == ({"a"}, "volcano", ())


def test_the_change_of_a_pod_is_made_in_the_workload_that_makes_it() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("web", nodeSelector={"disk": "ssd"})["spec"]}
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    }  # fmt: skip
    said = ask(deployment, node("a", {"disk": "hdd"}))
    assert said.item.name == "Deployment shop/web"
    assert said.answer.remedies[0].commands == (
        'kubectl patch deployment web -n shop --type=json -p \'[{"op":"add","path":"/spec/template/spec/nodeSelector",'
        '"value":{"disk":"hdd"}}]\'',
    )


def test_when_nothing_else_helps_one_more_node_does() -> None:
    said = ask(pod("web", requests={"cpu": "3"}), node("a", cpu="4"), placed("daemon", "a", requests={"cpu": "2"}) | {
        "metadata": {"name": "daemon", "namespace": "default", "uid": "d", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": True}]},
    })  # fmt: skip
    assert str(said.answer.remedies[-1]) == "one more node like a admits 1 node"


def test_refusals_that_differ_in_numbers_stand_together_with_an_example() -> None:
    nodes = [node(f"n{number}", cpu=str(number % 3 + 1)) for number in range(60)]
    said = ask(pod("web", requests={"cpu": "8"}), *nodes, exact=False)
    (group,) = said.answer.refused
    assert (len(group.nodes), group.variants) == (60, 3)
    assert len(ask(pod("web", requests={"cpu": "8"}), *nodes).answer.refused) == 3


def test_names_are_found_as_kubectl_finds_them() -> None:
    cluster = cluster_of([_stored(pod("web")), _stored(pod("web", namespace="shop")), placed("busy", "a")])
    assert [item.name for item in named(cluster, ["web", "po/busy"])] == ["Pod default/web", "Pod default/busy"]
    assert [item.name for item in named(cluster, ["pods/web"], "shop")] == ["Pod shop/web"]
    assert [item.name for item in pending(cluster)] == ["Pod default/web", "Pod shop/web"]
    with pytest.raises(UnknownName, match="there is no pod bussy: did you mean busy"):
        named(cluster, ["bussy"])
    with pytest.raises(UnknownName, match="gizmo is not a kind that has pods"):
        named(cluster, ["gizmo/web"])
