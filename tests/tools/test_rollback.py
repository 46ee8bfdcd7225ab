"""What turning a gate off would do is found before it is done, in the order in which it is best dealt with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.api import manifests
from moorage.api.decode import from_manifest
from moorage.features import Gate
from moorage.tools.cluster import Cluster, ClusterObject, read_cluster
from moorage.tools.rollback import Rollback, RollbackFinding, RollbackStep
from moorage.tools.rollbackpatches import patches

Data = dict[str, Any]

NUMBER = {"key": "sla", "operator": "Gt", "value": "950"}
VERSION = {"key": "sla", "operator": "SemverGt", "value": "1.0.0"}
EXPRESSION = {"expression": "taint.key == 'sla'"}
FAMILY = {"key": "s*", "operator": "Exists"}
TOLERATIONS = {Gate.COMPARISON: NUMBER, Gate.SEMVER: VERSION, Gate.CEL: EXPRESSION, Gate.WILDCARD: FAMILY}
VALUES = {Gate.COMPARISON: "990", Gate.SEMVER: "2.0.0", Gate.CEL: "x", Gate.WILDCARD: "x"}

SEMVER_TERM = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}]}
CEL_TERM = {"matchCELExpressions": ["node.labels['kernel'] == '6.1.0'"]}
PLAIN_TERM = {"matchExpressions": [{"key": "kernel", "operator": "Exists"}]}


def manifest(kind: str, name: str, api_version: str = "v1", **fields: Any) -> Data:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def node(name: str, *taints: Data, **labels: str) -> Data:
    return manifest("Node", name, metadata={"labels": labels}, spec={"taints": list(taints)})


def taint(value: str, effect: str = "NoExecute", key: str = "sla") -> Data:
    return {"key": key, "value": value, "effect": effect}


def pod(name: str, *tolerations: Data, node_name: str = "", phase: str = "", owner: str = "", **spec: Any) -> Data:
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "1", "controller": True}]
    return manifest(
        "Pod", name, metadata={"ownerReferences": owners} if owner else {},
        spec={"tolerations": list(tolerations), "nodeName": node_name, **spec}, status={"phase": phase},
    )  # fmt: skip


def requiring(*terms: Data) -> Data:
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def preferring(term: Data) -> Data:
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}}


def findings(gate: Gate, *objects: Data) -> list[RollbackFinding]:
    items = []
    for each in objects:
        decoded = from_manifest(each)
        assert decoded is not None
        items.append(ClusterObject(decoded))
    return Rollback(Cluster(items), gate).findings()


def broken(gate: Gate, *objects: Data) -> list[tuple[RollbackStep, str]]:
    return [(each.step, each.name) for each in findings(gate, *objects)]


@pytest.mark.parametrize("gate", Gate)
def test_running_pods_are_evicted_only_by_the_gates_that_eviction_asks(gate: Gate) -> None:
    running = pod("web", TOLERATIONS[gate], node_name="n1", phase="Running", owner="web")
    expected = [(RollbackStep.EVICTED, "Pod default/web")] if gate in (Gate.CEL, Gate.WILDCARD) else []
    assert broken(gate, node("n1", taint(VALUES[gate])), running) == expected


@pytest.mark.parametrize("gate", Gate)
def test_who_does_not_use_a_gate_does_not_mind(gate: Gate) -> None:
    others = [pod(f"p{number}", each) for number, each in enumerate(TOLERATIONS.values()) if each != TOLERATIONS[gate]]
    assert broken(gate, node("n1", taint("1")), *others) == []


def test_a_running_pod_beside_a_no_schedule_taint_stays() -> None:
    running = pod("web", FAMILY, node_name="n1", phase="Running")
    assert broken(Gate.WILDCARD, node("n1", taint("x", "NoSchedule")), running) == []


def test_a_running_pod_that_another_toleration_keeps_for_a_while_is_told_how_long() -> None:
    other = {"key": "sla", "operator": "Exists", "tolerationSeconds": 60}
    running = pod("web", FAMILY, other, node_name="n1", phase="Running", owner="web-1")
    finding = findings(Gate.WILDCARD, node("n1", taint("x")), running)[0]
    assert finding.reason.endswith("which it tolerates only with the gate: evicted after 60 seconds")
    assert finding.command == "kubectl delete pod web --ignore-not-found --wait=false"


def test_pods_that_are_over_or_leaving_are_left_out() -> None:
    over = pod("over", FAMILY, node_name="n1", phase="Succeeded")
    leaving = pod("leaving", FAMILY, node_name="n1", phase="Running")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert broken(Gate.WILDCARD, node("n1", taint("x")), over, leaving) == []


@pytest.mark.parametrize("gate", Gate)
def test_a_pending_pod_that_no_node_would_admit_is_stuck(gate: Gate) -> None:
    finding = findings(gate, node("n1", taint(VALUES[gate], "NoSchedule")), pod("web", TOLERATIONS[gate]))[0]
    assert finding.step is RollbackStep.PENDING
    assert finding.reason == "it is pending, and without the gate no node will do: it stays pending"
    assert finding.command.startswith("kubectl get pod web -o yaml > web.yaml;")


def test_a_pending_pod_is_told_which_nodes_it_loses() -> None:
    nodes = [node(f"n{number}", taint("x", "NoSchedule")) for number in range(5)]
    finding = findings(Gate.WILDCARD, *nodes, node("open"), pod("web", FAMILY))[0]
    assert finding.reason == "it is pending, and without the gate may no longer go to n0, n1, n2 and 2 more"


def test_a_pending_pod_that_loses_no_node_is_not_stuck() -> None:
    assert broken(Gate.WILDCARD, node("open"), pod("web", FAMILY)) == []


def test_a_preference_keeps_no_pod_from_anywhere() -> None:
    wishing = pod("wishing", affinity=preferring(CEL_TERM))
    assert broken(Gate.CEL, node("n1", kernel="6.1.0"), wishing) == []
    assert broken(Gate.CEL, wishing) == []
    assert broken(Gate.CEL, pod("demanding", affinity=requiring(CEL_TERM))) == [
        (RollbackStep.PENDING, "Pod default/demanding")
    ]


def test_templates_are_found_once_where_they_are_changed() -> None:
    template = {"template": {"spec": {"tolerations": [FAMILY]}}}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1", "controller": True}
    deployment = manifest("Deployment", "web", "apps/v1", metadata={"namespace": "shop"}, spec=template)
    replica_set = manifest("ReplicaSet", "web-1", "apps/v1", metadata={"ownerReferences": [owner]}, spec=template)
    cron_job = manifest("CronJob", "nightly", "batch/v1", spec={"jobTemplate": {"spec": template}})
    done = manifest(
        "Job", "done", "batch/v1", spec=template, status={"conditions": [{"type": "Complete", "status": "True"}]}
    )
    answer = findings(Gate.WILDCARD, done, replica_set, cron_job, deployment)
    assert [(each.step, each.name) for each in answer] == [
        (RollbackStep.TEMPLATES, "CronJob default/nightly"),
        (RollbackStep.TEMPLATES, "Deployment shop/web"),
    ]
    assert answer[1].command == "kubectl edit deployment web -n shop"


@pytest.mark.parametrize(("gate", "term"), [(Gate.SEMVER, SEMVER_TERM), (Gate.CEL, CEL_TERM)])
def test_volumes_that_lose_nodes_are_found(gate: Gate, term: Data) -> None:
    def volume(*terms: Data) -> Data:
        required = {"required": {"nodeSelectorTerms": list(terms)}}
        return manifest("PersistentVolume", "disk", spec={"nodeAffinity": required})

    here = node("n1", kernel="6.1.0")
    assert broken(gate, here, volume(term)) == [(RollbackStep.VOLUMES, "PersistentVolume disk")]
    assert broken(gate, here, volume(PLAIN_TERM)) == []
    assert broken(gate, here, volume(term, PLAIN_TERM)) == []
    other = {"matchExpressions": [{"key": "kernel", "operator": "DoesNotExist"}]}
    assert findings(gate, here, volume(term, other))[0].reason == "without the gate its node affinity leaves out n1"


def claim(toleration: Data, *, allocated: bool) -> Data:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "tolerations": [toleration]}}
    result = {"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0", "tolerations": [toleration]}
    user = {"resource": "pods", "name": "trainer", "uid": "1"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]} if allocated else {}
    spec = {"devices": {"requests": [request]}}
    return manifest("ResourceClaim", "gpu", "resource.k8s.io/v1", spec=spec, status=status)


def devices(*taints: Data) -> Data:
    spec = {
        "driver": "d", "nodeName": "n1", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "taints": list(taints)}, {"name": "gpu-1", "taints": [taint("x")]}],
    }  # fmt: skip
    return manifest("ResourceSlice", "s", "resource.k8s.io/v1", spec=spec)


@pytest.mark.parametrize("gate", Gate)
def test_a_claim_that_has_no_device_yet_would_get_none_that_is_tainted(gate: Gate) -> None:
    assert broken(gate, claim(TOLERATIONS[gate], allocated=False)) == [
        (RollbackStep.CLAIMS, "ResourceClaim default/gpu")
    ]


@pytest.mark.parametrize("gate", Gate)
def test_a_claim_loses_its_device_only_to_a_taint_that_evicts(gate: Gate) -> None:
    holding = claim(TOLERATIONS[gate], allocated=True)
    evicts = gate in (Gate.CEL, Gate.WILDCARD)
    assert bool(findings(gate, holding, devices(taint(VALUES[gate])))) is evicts
    assert findings(gate, holding, devices(taint(VALUES[gate], "NoSchedule"))) == []
    assert findings(gate, holding, devices()) == []


@pytest.mark.parametrize(
    ("selector", "selects"),
    [({"driver": "d"}, True), ({"driver": "other"}, False), ({"device": "gpu-0"}, True), (None, False)],
)
def test_rules_taint_devices_too(selector: Data | None, selects: bool) -> None:
    spec = {"taint": taint("x")} | ({"deviceSelector": selector} if selector else {})
    rule = manifest("DeviceTaintRule", "r", "resource.k8s.io/v1alpha3", spec=spec)
    answer = findings(Gate.WILDCARD, claim(FAMILY, allocated=True), devices(), rule)
    assert bool(answer) is selects
    if selects:
        assert answer[0].reason == (
            "its device has the taint sla=x:NoExecute, which it tolerates only with the gate: evicts trainer at once"
        )


@pytest.mark.parametrize(
    ("with_gate", "without", "says"),
    [
        ({}, {"tolerationSeconds": 600}, "evicts trainer after 600 seconds"),
        ({"tolerationSeconds": 900}, {"tolerationSeconds": 600}, ""),
        ({"tolerationSeconds": 600}, {"tolerationSeconds": 900}, ""),
        ({"tolerationSeconds": 600}, {}, ""),
        ({"tolerationSeconds": 0}, {"tolerationSeconds": 600}, ""),
    ],
)
def test_a_device_that_may_be_used_less_long_is_told_of(with_gate: Data, without: Data, says: str) -> None:
    """The shortest of all tolerations that match counts, unless one tolerates for good."""
    holding = claim(FAMILY, allocated=True)
    plain = {"key": "sla", "operator": "Exists"}
    tolerations = [{**FAMILY, **with_gate}, {**plain, **without}]
    holding["status"]["allocation"]["devices"]["results"][0]["tolerations"] = tolerations
    answer = findings(Gate.WILDCARD, holding, devices(taint("x")))
    assert [each.reason.partition("the gate: ")[2] for each in answer] == ([says] if says else [])


def test_what_pods_are_made_of_comes_before_the_pods() -> None:
    required = {"nodeAffinity": {"required": {"nodeSelectorTerms": [CEL_TERM]}}}
    template = {"spec": {"template": {"spec": {"tolerations": [EXPRESSION]}}}}
    order = broken(
        Gate.CEL, node("n1", taint("x")), pod("waits", EXPRESSION),
        pod("runs", EXPRESSION, node_name="n1", phase="Running"),
        claim(EXPRESSION, allocated=False), manifest("PersistentVolume", "disk", spec=required),
        manifest("Deployment", "web", "apps/v1", **template),
    )  # fmt: skip
    assert [step for step, _ in order] == [
        RollbackStep.TEMPLATES,
        RollbackStep.VOLUMES,
        RollbackStep.CLAIMS,
        RollbackStep.EVICTED,
        RollbackStep.PENDING,
    ]


def test_a_claim_that_was_made_for_a_pod_goes_with_it() -> None:
    owned = claim(EXPRESSION, allocated=False)
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "trainer", "uid": "1", "controller": True}
    ]
    (finding,) = findings(Gate.CEL, owned)
    assert finding.command == "kubectl delete pod trainer --ignore-not-found --wait=false"


def test_device_inventories_are_changed_by_their_driver() -> None:
    spec = {"driver": "d", "pool": {"name": "p"}, "nodeSelector": {"nodeSelectorTerms": [CEL_TERM]}}
    finding = findings(Gate.CEL, manifest("ResourceSlice", "s", "resource.k8s.io/v1", spec=spec))[0]
    assert (finding.step, finding.command) == (RollbackStep.CLAIMS, "")
    assert finding.reason.endswith("change it in the driver that publishes it")


def test_the_scheduler_is_the_first_to_be_told_and_other_gates_stay_as_they_are() -> None:
    lines = Rollback(Cluster(), Gate.CEL).procedure()
    assert [line.split()[-2:] for line in lines] == [
        [f"--{component}-feature-gates", "GATES,TaintTolerationNodeAffinityCEL=false"]
        for component in ("scheduler", "apiserver", "controllers")
    ]


def test_a_workload_of_a_kind_that_is_not_ours_is_edited_by_its_own_name(tmp_path: Path) -> None:
    rollout = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [{"name": "a"}], "tolerations": [FAMILY]}}},
    }
    (tmp_path / "rollout.json").write_text(json.dumps(rollout))
    cluster = read_cluster(manifests.read([str(tmp_path)]))
    (finding,) = Rollback(cluster, Gate.WILDCARD).findings()
    assert (finding.step, finding.command) == (RollbackStep.TEMPLATES, "kubectl edit rollout web")


def noted(item: Data, **annotations: str) -> Data:
    """An object with rules in annotations."""
    names = {name: f"moorage.dev/{name.replace('_', '-')}" for name in annotations}
    item["metadata"]["annotations"] = {names[name]: text for name, text in annotations.items()}
    return item


FAMILY_RULES = "- {key: 's*', operator: Exists}\n- {key: other, operator: Exists}\n"
VERSION_RULES = yaml.safe_dump({"required": {"nodeSelectorTerms": [SEMVER_TERM]}})


def ruled_deployment(**annotations: str) -> Data:
    template = {"spec": {"containers": [{"name": "app", "image": "app"}], "schedulerName": "moorage"}}
    template["metadata"] = noted({"metadata": {}}, **annotations)["metadata"]
    return manifest("Deployment", "web", "apps/v1", spec={"template": template})


def test_rules_in_annotations_count_as_the_fields_that_they_stand_for() -> None:
    objects = (
        node("n1", taint("x"), kernel="6.1.0"),
        noted(pod("runs", node_name="n1", phase="Running", schedulerName="moorage"), tolerations=FAMILY_RULES),
        noted(pod("waits", schedulerName="moorage"), tolerations=FAMILY_RULES),
        noted(pod("refused", node_name="n1", phase="Running"), tolerations="- {key: 's*', operator: Bad}"),
        ruled_deployment(tolerations=FAMILY_RULES),
        noted(
            manifest(
                "ResourceClaim", "gpu", "resource.k8s.io/v1",
                spec={"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
            ),
            device_tolerations=FAMILY_RULES,
        ),
    )  # fmt: skip
    assert broken(Gate.WILDCARD, *objects) == [
        (RollbackStep.RULES, "Deployment default/web"),
        (RollbackStep.CLAIMS, "ResourceClaim default/gpu"),
        (RollbackStep.EVICTED, "Pod default/runs"),
        (RollbackStep.PENDING, "Pod default/waits"),
    ]
    assert broken(Gate.SEMVER, *objects) == []


def test_a_cover_is_no_toleration_of_the_pod() -> None:
    covered = pod("runs", {"operator": "Exists", "effect": "NoExecute"}, node_name="n1", phase="Running")
    noted(covered, tolerations=FAMILY_RULES, cover='[{"operator":"Exists","effect":"NoExecute"}]')
    assert broken(Gate.WILDCARD, node("n1", taint("x")), covered) == [(RollbackStep.EVICTED, "Pod default/runs")]


def test_a_volume_with_rules_in_annotations_is_changed() -> None:
    volume = noted(manifest("PersistentVolume", "data", spec={}), node_affinity=VERSION_RULES)
    assert broken(Gate.SEMVER, node("n1", kernel="6.1.0"), volume) == [(RollbackStep.VOLUMES, "PersistentVolume data")]


def test_a_device_that_rules_in_annotations_let_a_claim_keep_is_lost_without_their_gate() -> None:
    result = {"request": "gpu", "driver": "d", "pool": "p", "device": "one", "tolerations": [{"operator": "Exists"}]}
    claim = manifest(
        "ResourceClaim", "gpu", "resource.k8s.io/v1",
        spec={"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
        status={"allocation": {"devices": {"results": [result]}}},
    )  # fmt: skip
    device = {"name": "one", "taints": [taint("x")]}
    inventory = manifest(
        "ResourceSlice", "s", "resource.k8s.io/v1",
        spec={"driver": "d", "pool": {"name": "p"}, "devices": [device]},
    )  # fmt: skip
    found = findings(Gate.WILDCARD, inventory, noted(claim, device_tolerations=FAMILY_RULES))
    assert [each.name for each in found] == ["ResourceClaim default/gpu"]
    assert "its device has the taint sla=x:NoExecute" in found[0].reason


def test_a_patch_takes_rules_out_of_the_annotations_of_a_template() -> None:
    affinity = yaml.safe_dump({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [CEL_TERM]}})
    deployment = ruled_deployment(tolerations=FAMILY_RULES, node_affinity=affinity)
    place = "/spec/template/metadata/annotations/moorage.dev~1"
    (family,) = patches(findings(Gate.WILDCARD, deployment), Gate.WILDCARD)
    assert family.operations[0] == {"op": "test", "path": f"{place}tolerations", "value": FAMILY_RULES}
    assert yaml.safe_load(family.operations[1]["value"]) == [{"key": "other", "operator": "Exists"}]
    (demand,) = patches(findings(Gate.CEL, deployment), Gate.CEL)
    assert demand.operations[1] == {"op": "remove", "path": f"{place}node-affinity"}
    assert (family.widens, demand.widens) == (False, True)
