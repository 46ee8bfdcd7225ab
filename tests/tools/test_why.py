from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from typing import Protocol

import pytest

from moorage.api import manifests
from moorage.features import ALL_ON, NONE_ON, Gates
from moorage.tools.cluster import read_cluster
from moorage.tools.why import Explainer, Explanation


def node(name: str, *taints: str, labels: str = "", cordoned: bool = False) -> str:
    marks = "".join(
        f"\n    - {{key: {key}, value: '{value}', effect: {effect}}}" for key, value, effect in _taints(taints)
    )
    return (
        dedent(f"""\
        apiVersion: v1
        kind: Node
        metadata:
          name: {name}
          labels: {{{labels}}}
        spec:
          unschedulable: {str(cordoned).lower()}
          taints: {"[]" if not marks else ""}""")
        + marks
        + "\n"
    )


def _taints(taints: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    for taint in taints:
        rest, _, effect = taint.rpartition(":")
        key, _, value = rest.partition("=")
        yield key, value, effect


def pod(*lines: str, name: str = "web", kind: str = "Pod") -> str:
    return f"apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n" + "".join(
        f"  {line}\n" for line in ("containers: [{name: app, image: app:1}]", *lines)
    )


def sla(operator: str, value: str, effect: str = "NoSchedule", seconds: str = "") -> str:
    extra = f", tolerationSeconds: {seconds}" if seconds else ""
    return f"tolerations: [{{key: sla, operator: {operator}, value: '{value}', effect: {effect}{extra}}}]"


def requires(key: str, operator: str, *values: str) -> str:
    requirement = f"{{key: {key}, operator: {operator}, values: {list(values)}}}"
    return (
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        f"{{nodeSelectorTerms: [{{matchExpressions: [{requirement}]}}]}}}}}}"
    )


class Ask(Protocol):
    def __call__(self, *documents: str, gates: Gates = ALL_ON, exact: bool = True) -> list[Explanation]: ...


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    def explain(*documents: str, gates: Gates = ALL_ON, exact: bool = True) -> list[Explanation]:
        file = tmp_path / "cluster.yaml"
        file.write_text("---\n".join(documents))
        cluster = read_cluster(manifests.read([str(file)]))
        assert not cluster.problems
        return list(Explainer(cluster, gates, exact=exact).explain_all())

    return explain


def reasons(explanation: Explanation) -> dict[str, list[str]]:
    return {
        name: [str(each) for each in refused.refusals]
        for refused in explanation.answer.refused
        for name in refused.nodes
    }


def fits(explanation: Explanation) -> list[str]:
    return [name for fit in explanation.answer.fits for name in fit.nodes]


def test_a_pod_fits_where_its_threshold_is_passed(ask: Ask) -> None:
    (web,) = ask(node("low", "sla=800:NoSchedule"), node("high", "sla=980:NoSchedule"), pod(sla("Gt", "950")))
    assert fits(web) == ["high"]
    assert reasons(web) == {"low": ["taint sla=800:NoSchedule: 800 is not greater than 950 (`Gt 950`)"]}
    assert not web.is_finding


def test_a_taint_that_is_no_number_is_named_with_the_reason(ask: Ask) -> None:
    (web,) = ask(node("odd", "sla=high:NoSchedule"), pod(sla("Gt", "900")))
    assert reasons(web)["odd"] == [
        'taint sla=high:NoSchedule: "high" is not a decimal integer, so `Gt 900` cannot match'
    ]


@pytest.mark.parametrize(
    ("documents", "change"),
    [
        ([node("a", "sla=941:NoSchedule"), node("b", "sla=941:NoSchedule"), pod(sla("Gt", "950"))],
         "`Gt 940` instead of `Gt 950` admits 2 nodes"),
        ([node("a", "sla=941:NoSchedule"), node("b", "sla=100:NoSchedule"), pod(sla("Gt", "950"))],
         "`Gt 940` instead of `Gt 950` admits 1 node"),
        ([node("a", "sla=60:NoSchedule"), pod(sla("Lt", "50"))], "`Lt 61` instead of `Lt 50` admits 1 node"),
        ([node("a", "sla=1.2.3:NoSchedule"), pod(sla("SemverGt", "2.0.0"))],
         "`SemverGt 1.2.2` instead of `SemverGt 2.0.0` admits 1 node"),
        ([node("a", "sla=3.0.0:NoSchedule"), pod(sla("SemverGt", "4.0.0"))],
         "`SemverGt 3.0.0-0` instead of `SemverGt 4.0.0` admits 1 node"),
        ([node("a", "gpu=yes:NoSchedule"), pod()], 'a toleration of gpu="yes" with effect NoSchedule admits 1 node'),
        ([node("a", labels="zone: west"), pod(requires("zone", "In", "east"))],
         "west among the values of `zone In` admits 1 node"),
        ([node("a", labels="cpus: '8'"), pod(requires("cpus", "Gt", "16"))],
         "`cpus Gt 7` instead of `cpus Gt 16` admits 1 node"),
        ([node("a", labels="zone: west"), pod("nodeSelector: {zone: east}")],
         "`zone: west` instead of `zone: east` in nodeSelector admits 1 node"),
        ([node("a"), pod(requires("gpu", "Exists"))], "no requirement `gpu Exists` admits 1 node"),
        ([node("a", cordoned=True), pod()], "`kubectl uncordon` of the node admits 1 node"),
        ([node("a", "sla=800:NoSchedule", labels="zone: west"), pod(sla("Gt", "950"), requires("zone", "In", "east"))],
         "`Gt 799` instead of `Gt 950` and west among the values of `zone In` admits 1 node"),
    ],
)  # fmt: skip
def test_the_smallest_change_that_admits_a_node(ask: Ask, documents: list[str], change: str) -> None:
    (web,) = ask(*documents)
    assert not fits(web)
    assert str(web.answer.remedies[0]) == change
    assert web.is_finding


def test_with_the_gate_off_the_smallest_change_is_the_gate(ask: Ask) -> None:
    (web,) = ask(node("a", "sla=980:NoSchedule"), pod(sla("Gt", "950")), gates=NONE_ON)
    assert "which is off" in reasons(web)["a"][0]
    assert str(web.answer.remedies[0]) == "turning on TaintTolerationComparisonOperators admits 1 node"
    assert web.admission == [
        'spec.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"'
    ]


def test_the_eviction_trap_shows_as_an_eviction_from_the_good_node(ask: Ask) -> None:
    (web,) = ask(node("good", "sla=980:NoExecute"), pod(sla("Gt", "950", "NoExecute", "30")))
    (fit,) = web.answer.fits
    assert fit.grace_seconds == 30
    assert web.is_finding


def test_a_running_pod_says_when_it_has_to_leave(ask: Ask) -> None:
    low = node("low", "sla=940:NoExecute")
    (web,) = ask(low, pod("nodeName: low", sla("Gt", "950", "NoExecute")))
    assert (web.leaves, web.leaves_after) == ("taint sla=940:NoExecute: 940 is not greater than 950 (`Gt 950`)", 0)
    (web,) = ask(low, pod("nodeName: low", sla("Gt", "900", "NoExecute", "30")))
    assert (web.leaves, web.leaves_after) == ("taint sla=940:NoExecute: tolerated for 30 seconds only", 30)
    (web,) = ask(low, pod("nodeName: low", sla("Gt", "900", "NoExecute")))
    assert web.leaves_after is None


def test_running_pods_stay_when_the_comparison_gate_is_turned_off(ask: Ask) -> None:
    documents = node("n1", "sla=980:NoExecute"), pod("nodeName: n1", sla("Gt", "950", "NoExecute"))
    (web,) = ask(*documents, gates=NONE_ON)
    assert web.leaves_after is None
    assert not fits(web)


def prefers(key: str, operator: str, value: str) -> str:
    return (
        "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 10, preference: "
        f"{{matchExpressions: [{{key: {key}, operator: {operator}, values: ['{value}']}}]}}}}]}}}}"
    )


NODES = node("new", labels="os: '1.2'"), node("odd", labels="os: jammy"), node("bare")


@pytest.mark.parametrize(
    ("preference", "gates", "note"),
    [
        (prefers("os", "SemverGt", "1.1"), ALL_ON, "on 1 node: label os=jammy is not a semantic version: "),
        (prefers("os", "SemverGt", "5.0.0+b1"), ALL_ON, ": os SemverGt [5.0.0+b1]: a valid label must be an empty"),
        (prefers("os", "In", "a b"), ALL_ON, ": os In [a b]: a valid label must be an empty string or consist of"),
        (prefers("os", "SemverGt", "1.1"), NONE_ON, ": feature gate TolerationAffinitySemverOperators is off"),
    ],
)
def test_a_preferred_term_that_cannot_be_evaluated_is_named(ask: Ask, preference: str, gates: Gates, note: str) -> None:
    (web,) = ask(*NODES, pod(preference), gates=gates)
    (told,) = web.answer.notes
    assert told.startswith("a preferred term is ignored")
    assert note in told
    assert sorted(fits(web)) == ["bare", "new", "odd"]


def test_a_preferred_term_that_can_be_evaluated_is_not_named(ask: Ask) -> None:
    (web,) = ask(*NODES[::2], pod(prefers("os", "SemverGt", "1.1")))
    assert web.answer.notes == ()


def test_nodes_are_ranked_by_preferred_taints_and_affinity(ask: Ask) -> None:
    prefers = (
        "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "
        "[{weight: 10, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}}"
    )
    (web,) = ask(
        node("plain"),
        node("shy", "old=yes:PreferNoSchedule"),
        node("fast", labels="disk: ssd"),
        pod(prefers),
    )
    assert [(fit.nodes, fit.scores["TaintToleration"], fit.scores["NodeAffinity"]) for fit in web.answer.fits] == [
        (("fast",), 300, 200),
        (("plain",), 300, 0),
        (("shy",), 0, 0),
    ]


def test_a_volume_keeps_its_pod_on_the_nodes_that_reach_it(ask: Ask) -> None:
    volume = dedent("""\
        apiVersion: v1
        kind: PersistentVolume
        metadata: {name: data}
        spec:
          nodeAffinity:
            required:
              nodeSelectorTerms: [{matchExpressions: [{key: kernel, operator: SemverGt, values: ["5.10.0"]}]}]
        """)
    claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {volumeName: data}\n"
    user = pod("volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]")
    new, old = node("new", labels="kernel: 6.1.0"), node("old", labels="kernel: 5.4.0")
    (web,) = ask(new, old, volume, claim, user)
    assert fits(web) == ["new"]
    assert reasons(web)["old"] == ["volume data: `kernel SemverGt [5.10.0]`: the label is 5.4.0"]
    (web,) = ask(new, old, user)
    assert fits(web) == []
    assert [each.reason for each in web.answer.rejected] == ['persistentvolumeclaim "c" not found']


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [("required: [", "Invalid value: line 1: bad YAML"), ("{}", "required: Required value"), ("5", "expected a map")],
)
def test_a_volume_whose_rules_cannot_be_read_reaches_no_node_and_says_why(ask: Ask, rules: str, wrong: str) -> None:
    note = f"moorage.dev/node-affinity: '{rules}'"
    volume = f"apiVersion: v1\nkind: PersistentVolume\nmetadata:\n  name: data\n  annotations: {{{note}}}\nspec: {{}}\n"
    claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {volumeName: data}\n"
    (web,) = ask(node("a"), volume, claim, pod("volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]"))
    ((reason,),) = reasons(web).values()
    assert reason.startswith("volume data (metadata.annotations[moorage.dev/node-affinity]")
    assert wrong in reason


def test_several_terms_are_all_explained(ask: Ask) -> None:
    terms = (
        "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}, {}, "
        "{matchFields: [{key: metadata.name, operator: In, values: [x]}]}]}"
    )
    (web,) = ask(
        node("n1"), pod("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " + terms + "}}")
    )
    assert reasons(web)["n1"] == [
        "node affinity: no term matches: `a Exists`: the node has no label a; `metadata.name In [x]` does not hold"
    ]


def test_a_cordoned_node_is_refused_unless_its_taint_is_tolerated(ask: Ask) -> None:
    cordoned = node("n1", "node.kubernetes.io/unschedulable=:NoSchedule", cordoned=True)
    (web,) = ask(cordoned, pod())
    assert reasons(web)["n1"] == ["node: it is cordoned (spec.unschedulable)"]
    (web,) = ask(cordoned, pod("tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}]"))
    assert fits(web) == ["n1"]


def test_refusals_of_one_kind_stand_together_unless_all_are_wanted(ask: Ask) -> None:
    nodes = [node(f"n{value}", f"sla={value}:NoSchedule") for value in range(5)]
    (web,) = ask(*nodes, pod(sla("Gt", "950")), exact=False)
    (refused,) = web.answer.refused
    assert (len(refused.nodes), refused.variants) == (5, 5)
    (web,) = ask(*nodes, pod(sla("Gt", "950")), exact=True)
    assert [refused.variants for refused in web.answer.refused] == [1] * 5


def test_pods_that_ask_for_the_same_share_one_answer(ask: Ask) -> None:
    first, second = ask(node("n1"), pod(name="a"), pod(name="b"))
    assert first.answer is second.answer


def test_the_last_of_two_nodes_of_one_name_counts(ask: Ask) -> None:
    (web,) = ask(node("n1", "gpu=yes:NoSchedule"), node("n1"), pod())
    assert fits(web) == ["n1"]


def test_the_pods_of_a_kind_that_is_not_ours_are_placed_too(ask: Ask) -> None:
    rollout = dedent("""\
        apiVersion: argoproj.io/v1alpha1
        kind: Rollout
        metadata: {name: web}
        spec:
          template:
            spec:
              containers: [{name: a, image: "a:1"}]
              tolerations: [{key: sla, operator: Gt, value: "VALUE", effect: NoSchedule}]
        """)
    nodes = node("good", "sla=980:NoSchedule"), node("bad", "sla=900:NoSchedule")
    (web,) = ask(*nodes, rollout.replace("VALUE", "950"))
    assert (web.item.name, fits(web), web.admission) == ("Rollout default/web", ["good"], [])
    (web,) = ask(*nodes, rollout.replace("VALUE", "0950"))
    assert web.admission[0].startswith("spec.template.spec.tolerations[0].value: Invalid value")
