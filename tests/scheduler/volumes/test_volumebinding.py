"""Where a pod can have its volumes: bound ones, those that are found for it, and those that may be made."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from moorage.api.claims import SELECTED_NODE
from moorage.api.decode import convert
from moorage.api.meta import Object
from moorage.api.pod import Pod
from moorage.api.volume import CSIDriver, CSIStorageCapacity
from moorage.scheduler.framework import Reject
from moorage.scheduler.plugins.volumebinding import (
    LOST,
    NONE_TO_BIND,
    OUT_OF_REACH,
    TOO_SMALL,
    UNBOUND,
    VolumeBinding,
)
from tests.scheduler.plugin_on_table import Data, PluginOnTable, pod
from tests.scheduler.volumes.storage import (
    GONE,
    NOW,
    affinity,
    claim,
    ephemeral,
    on,
    owned,
    pod_with,
    storage_class,
    volume,
)

HOST = "kubernetes.io/hostname"
NODES = {name: {HOST: name, "zone": "1" if name in "ab" else "2"} for name in "abcd"}
MADE = storage_class("made", provisioner="example.com/disks")
POD = pod_with("x")
EPHEMERAL = pod(volumes=[ephemeral("data")])


def host(*names: str) -> Data:
    return affinity(on(HOST, *names))


def alone(*there: Object, nodes: dict[str, dict[str, str]] = NODES, **args: Any) -> PluginOnTable:
    here = PluginOnTable(VolumeBinding, nodes, **args)
    for each in (storage_class(), storage_class(NOW, "Immediate"), MADE, *there):
        here.told(each)
    return here


def answers(here: PluginOnTable, given: Pod) -> str | dict[str, set[str]]:
    """Why no node will do, or the reasons against each node."""
    cycle = here.cycle(given)
    answer = here.plugin.pre_filter(cycle)
    if isinstance(answer, Reject):
        assert not answer.resolvable
        return answer.reason
    rows = here.table.alive.nonzero()[0]
    found: dict[str, set[str]] = {here.name(int(row)): set() for row in rows}
    rejected = rows[~here.plugin.filter(cycle, rows)]
    for rejection in here.plugin.diagnose(cycle, rejected) if len(rejected) else ():
        assert not rejection.resolvable
        for row in rejection.rows:
            found[here.name(int(row))].add(rejection.reason)
    assert {here.table.rows[name] for name, reasons in found.items() if reasons} == set(rejected.tolist())
    return found


def fits(here: PluginOnTable, given: Pod) -> str:
    """The nodes that will do."""
    found = answers(here, given)
    assert isinstance(found, dict), found
    return "".join(sorted(name for name, reasons in found.items() if not reasons))


def reserved(here: PluginOnTable, given: Pod, node: str) -> tuple[dict[str, str], list[str]]:
    """Which claims get which volumes on a node, and for which one is made."""
    assert isinstance(here.plugin, VolumeBinding)
    cycle = here.cycle(given)
    here.plugin.pre_filter(cycle)
    assert not here.plugin.reserve(cycle, node)
    decision = here.plugin.reserved[given.metadata.uid]
    return (
        {claim.metadata.name: volume.metadata.name for claim, volume in decision.bindings},
        [claim.metadata.name for claim in decision.provisions],
    )


def test_a_pod_without_claims_is_not_asked_about() -> None:
    here = alone()
    assert not here.plugin.applies(here.cycle(pod()).shape)
    assert not here.plugin.applies(here.cycle(pod(volumes=[{"name": "tmp", "emptyDir": {}}])).shape)
    assert here.plugin.applies(here.cycle(POD).shape)
    assert here.plugin.applies(here.cycle(EPHEMERAL).shape)


EPHEMERAL_CLAIM = f"{EPHEMERAL.metadata.name}-data"
REJECTED = [
    ("the claim is not there", POD, [], 'persistentvolumeclaim "x" not found'),
    ("one of two is not there", pod_with("x", "y"), [claim("x", bound="v"), volume("v")],
     'persistentvolumeclaim "y" not found'),
    ("the claim of an ephemeral volume is not made yet", EPHEMERAL, [],
     f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{EPHEMERAL_CLAIM}"'),
    ("somebody else's claim stands in the place of an ephemeral one", EPHEMERAL, [claim(EPHEMERAL_CLAIM)],
     f"PVC default/{EPHEMERAL_CLAIM} was not created for pod default/{EPHEMERAL.metadata.name} (pod is not owner)"),
    ("the claim has lost its volume", POD, [claim("x", bound="v", phase="Lost")],
     'persistentvolumeclaim "x" bound to non-existent persistentvolume "v"'),
    ("the claim is being deleted", POD, [claim("x", meta=GONE)], 'persistentvolumeclaim "x" is being deleted'),
    ("the claim should be bound already", POD, [claim("x", NOW)], UNBOUND),
    ("the claim has no class", POD, [claim("x", None)], UNBOUND),
    ("the claim's class is not there", POD, [claim("x", "other")], UNBOUND),
    ("the claim names its volume and is not bound yet", POD, [claim("x", volumeName="v"), volume("v")], UNBOUND),
    ("one claim waits for the pod, the other should be bound", pod_with("x", "y"), [claim("x"), claim("y", NOW)],
     UNBOUND),
]  # fmt: skip


@pytest.mark.parametrize(("given", "there", "reason"), [row[1:] for row in REJECTED], ids=[row[0] for row in REJECTED])
def test_no_node_is_looked_at_when(given: Pod, there: list[Object], reason: str) -> None:
    assert answers(alone(*there), given) == reason


class Case(NamedTuple):
    name: str
    there: list[Object]
    expected: str | dict[str, set[str]]
    """The nodes that will do, or the reasons by node."""
    given: Pod = POD


def against(names: str, *reasons: str) -> dict[str, set[str]]:
    return {name: set(reasons) for name in names}


ALL = "abcd"
NOWHERE = against(ALL, NONE_TO_BIND)
CASES = [
    Case("a bound volume without affinity", [claim("x", bound="v"), volume("v")], ALL),
    Case("a bound volume of some node", [claim("x", bound="v"), volume("v", **host("a"))],
         {"a": set()} | against("bcd", OUT_OF_REACH)),
    Case("two bound volumes that share a node",
         [claim("x", bound="v"), volume("v", **host("a", "b")), claim("y", bound="w"), volume("w", **host("b", "c"))],
         "b", pod_with("x", "y")),
    Case("a bound volume that is no more", [claim("x", bound="v")], against(ALL, LOST)),
    Case("an affinity without terms", [claim("x", bound="v"), volume("v", **affinity())], ""),
    Case("an empty term", [claim("x", bound="v"), volume("v", **affinity({}))], ""),
    Case("a node by name", [claim("x", bound="v"), volume("v", **affinity(
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}]}))], "c"),
    Case("no volume to bind", [claim("x")], NOWHERE),
    Case("a volume on one node", [claim("x"), volume("v", **host("b"))],
         {"b": set()} | against("acd", NONE_TO_BIND)),
    Case("a volume that is too small", [claim("x", size="10Gi"), volume("v")], NOWHERE),
    Case("a volume of another class", [claim("x"), volume("v", "other")], NOWHERE),
    Case("a volume that is not available", [claim("x"), volume("v", phase="Released")], NOWHERE),
    Case("a volume that is being deleted", [claim("x"), volume("v", meta=GONE)], NOWHERE),
    Case("a volume of another mode", [claim("x"), volume("v", volumeMode="Block")], NOWHERE),
    Case("a volume with other access modes", [claim("x"), volume("v", accessModes=["ReadOnlyMany"])], NOWHERE),
    Case("a volume with other attributes", [claim("x"), volume("v", volumeAttributesClassName="fast")], NOWHERE),
    Case("a volume without the labels that the claim selects",
         [claim("x", selector={"matchLabels": {"tier": "gold"}}), volume("v", labels={"tier": "tin"})], NOWHERE),
    Case("a volume with these labels",
         [claim("x", selector={"matchLabels": {"tier": "gold"}}), volume("v", labels={"tier": "gold"})], ALL),
    Case("a volume that is pre-bound to another claim",
         [claim("x"), volume("v", claimRef={"namespace": "default", "name": "y"})], NOWHERE),
    Case("a volume that is pre-bound to a claim of this name that was before",
         [claim("x"), volume("v", claimRef={"namespace": "default", "name": "x", "uid": "before"})], NOWHERE),
    Case("a pre-bound volume, whatever others there are",
         [claim("x"), volume("v", claimRef={"namespace": "default", "name": "x"}, **host("c")), volume("w")], "c"),
    Case("two claims and one volume", [claim("x"), claim("y"), volume("v")], NOWHERE, pod_with("x", "y")),
    Case("two claims and two volumes", [claim("x"), claim("y"), volume("v"), volume("w")], ALL, pod_with("x", "y")),
    Case("two claims whose volumes meet on one node",
         [claim("x"), claim("y"), volume("v", **host("a", "b")), volume("w", **host("b", "c"))], "b",
         pod_with("x", "y")),
    Case("one claim that a pod mounts twice", [claim("x"), volume("v")], ALL, pod_with("x", "x")),
    Case("a bound volume elsewhere and none to bind",
         [claim("x", bound="v"), volume("v", phase="Bound", **host("a")), claim("y"), volume("w", **host("b"))],
         {"a": {NONE_TO_BIND}, "b": {OUT_OF_REACH}} | against("cd", OUT_OF_REACH, NONE_TO_BIND),
         pod_with("x", "y")),
    Case("a class that makes volumes", [claim("x", "made")], ALL),
    Case("a class that makes volumes in a zone", [
        claim("x", "zoned"), storage_class("zoned", provisioner="example.com/disks", allowedTopologies=[
            {"matchLabelExpressions": [{"key": "zone", "values": ["2", "3"]}]}])],
        {"a": {NONE_TO_BIND}, "b": {NONE_TO_BIND}, "c": set(), "d": set()}),
    Case("a node was selected already", [claim("x", "made", meta={"annotations": {SELECTED_NODE: "c"}})], "c"),
    Case("a node was selected that is gone", [claim("x", "made", meta={"annotations": {SELECTED_NODE: "z"}})], ""),
    Case("the claim of an ephemeral volume", [claim(EPHEMERAL_CLAIM, meta=owned(EPHEMERAL)), volume("v", **host("d"))],
         "d", EPHEMERAL),
    Case("a version as affinity", [claim("x", bound="v"), volume("v", **affinity(on("zone", "1.5", operator="SemverGt"))
         )], "cd"),
    Case("an expression as affinity", [claim("x", bound="v"), volume("v", **affinity(
        {"matchCELExpressions": [f"node.labels['{HOST}'] in ['a', 'd']"]}))], "ad"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_which_nodes_will_do_for(case: Case) -> None:
    here = alone(*case.there)
    if isinstance(case.expected, str):
        assert fits(here, case.given) == case.expected
    else:
        assert answers(here, case.given) == case.expected


def capacity(name: str, room: str, labels: dict[str, str] | None, largest: str | None = None) -> CSIStorageCapacity:
    data: Data = {"metadata": {"name": name, "namespace": "default"}, "storageClassName": "made", "capacity": room}
    if labels is not None:
        data["nodeTopology"] = {"matchLabels": labels}
    return convert(data | ({"maximumVolumeSize": largest} if largest else {}), CSIStorageCapacity)


def driver(*, keeps_count: bool = True) -> CSIDriver:
    return convert({"metadata": {"name": MADE.provisioner}, "spec": {"storageCapacity": keeps_count}}, CSIDriver)


def test_a_volume_is_made_only_where_there_is_room_for_it() -> None:
    pools = [
        capacity("big", "10Gi", {"zone": "2"}),
        capacity("small", "512Mi", {HOST: "a"}),
        capacity("small-pieces", "10Gi", {HOST: "b"}, "512Mi"),
        capacity("nowhere", "10Gi", None),
    ]
    here = alone(claim("x", "made"), driver(), *pools)
    assert answers(here, POD) == {"a": {TOO_SMALL}, "b": {TOO_SMALL}, "c": set(), "d": set()}
    here.told(capacity("small", "1Gi", {HOST: "a"}))
    assert here.woken
    assert fits(here, POD) == "acd"
    here.told(driver(keeps_count=False))
    assert fits(here, POD) == ALL


def test_the_smallest_volume_that_is_big_enough_is_taken() -> None:
    here = alone(claim("x", size="2Gi"), volume("v", size="8Gi"), volume("w", size="1Gi"), volume("u", size="3Gi"))
    assert reserved(here, POD, "a") == ({"x": "u"}, [])


def test_the_smallest_claim_chooses_first() -> None:
    here = alone(claim("x", size="5Gi"), claim("y", size="1Gi"), volume("v", size="4Gi"), volume("w", size="6Gi"))
    assert reserved(here, pod_with("x", "y"), "a") == ({"x": "w", "y": "v"}, [])


def test_a_volume_that_is_there_is_better_than_a_new_one() -> None:
    here = alone(claim("x", "made"), claim("y", "made"), volume("v", "made", **host("a")))
    given = pod_with("x", "y")
    assert fits(here, given) == ALL
    assert reserved(here, given, "a") == ({"x": "v"}, ["y"])
    assert fits(here, pod_with("x")) == "a", "another pod with this claim goes where the volume is"


def test_what_one_pod_takes_is_not_there_for_others_until_it_is_given_back() -> None:
    here = alone(claim("x"), claim("y"), volume("v", **host("a")), volume("w", **host("b")))
    first, second = pod_with("x"), pod_with("y")
    assert reserved(here, first, "a") == ({"x": "v"}, [])
    assert fits(here, second) == "b"
    assert fits(here, pod_with("x")) == "a"
    here.plugin.unreserve(here.cycle(first), "a")
    assert fits(here, second) == "ab"
    assert fits(here, pod_with("x")) == "ab"


def test_pods_that_share_a_claim_go_where_its_volume_is_going_to_be_made() -> None:
    here = alone(claim("x", "made"))
    first, second = pod_with("x"), pod_with("x")
    assert reserved(here, first, "c") == ({}, ["x"])
    assert fits(here, second) == "c"
    assert reserved(here, second, "c") == ({}, ["x"])
    here.plugin.unreserve(here.cycle(first), "c")
    assert fits(here, pod_with("x")) == "c"
    here.plugin.unreserve(here.cycle(second), "c")
    assert fits(here, pod_with("x")) == ALL


def test_claims_are_those_of_the_pods_own_namespace() -> None:
    here = alone(claim("x", bound="v"), volume("v"))
    assert fits(here, POD) == ALL
    assert answers(here, pod_with("x", namespace="other")) == 'persistentvolumeclaim "x" not found'


def test_a_rejected_pod_wakes_only_for_what_it_waits_for() -> None:
    here = alone(claim("x"))
    assert answers(here, POD) == NOWHERE
    here.told(claim("y"))
    here.told(volume("v", "other"))
    here.node("a", NODES["a"])
    here.told(storage_class("another"))
    assert not here.woken
    here.told(volume("v", **host("z")))
    assert len(here.woken) == 1
    here.told(volume("v", **host("z"), size="9Gi"))
    assert len(here.woken) == 1, "nobody has been rejected since"
    assert fits(here, POD) == ""
    here.node("a", {HOST: "z"})
    assert len(here.woken) == 2
    assert fits(here, POD) == "a"


def test_a_pod_whose_claim_should_be_bound_wakes_when_it_is() -> None:
    here = alone(claim("x", NOW))
    assert answers(here, POD) == UNBOUND
    here.told(volume("v", NOW))
    here.node("e", {})
    assert not here.woken
    here.told(claim("x", NOW, bound="v"))
    assert len(here.woken) == 1


def test_a_pod_wakes_when_the_class_of_its_claim_appears_or_allows_more() -> None:
    here = alone(claim("x", "late"))
    assert answers(here, POD) == UNBOUND
    zone = {"matchLabelExpressions": [{"key": "zone", "values": ["3"]}]}
    here.told(storage_class("late", provisioner="p", allowedTopologies=[zone]))
    assert len(here.woken) == 1
    assert fits(here, POD) == ""
    here.told(storage_class("late", provisioner="p"))
    assert len(here.woken) == 2
    assert fits(here, POD) == ALL


@pytest.mark.parametrize("args", [{"bindTimeoutSeconds": -1}, {"shape": []}])
def test_arguments_that_mean_nothing_are_refused(args: Data) -> None:
    with pytest.raises(ValueError, match=next(iter(args))):
        alone(**args)
