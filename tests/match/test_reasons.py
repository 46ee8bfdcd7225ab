from __future__ import annotations

import pytest

from moorage.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint
from moorage.api.pod import Toleration
from moorage.features import ALL_ON, NONE_ON, Gates
from moorage.match.reasons import Complaint, toleration_text, unsatisfied
from moorage.match.selector import compile_selector
from moorage.match.tolerations import Tolerations
from tests import known_expressions as known

COMPARISON, SEMVER = "TaintTolerationComparisonOperators", "TolerationAffinitySemverOperators"
CEL, WILDCARD = "TaintTolerationNodeAffinityCEL", "WildcardTolerationKeys"


def why(taint: Taint, *tolerations: Toleration, gates: Gates = ALL_ON) -> str:
    complaint = Complaint(Tolerations(tolerations, gates), gates)
    return "; ".join(lack.text for lack in complaint(taint))


@pytest.mark.parametrize(
    ("toleration", "text"),
    [
        (Toleration("sla", "Gt", "950"), "Gt 950"),
        (Toleration("sla", "", "950"), "Equal 950"),
        (Toleration("sla", "Exists"), "Exists"),
        (Toleration("sla"), "Equal"),
        (Toleration("cni", "SemverLt", "v3.28"), "SemverLt v3.28"),
        (Toleration(expression=known.ON_GPU), known.ON_GPU),
    ],
)
def test_a_toleration_is_named_in_as_few_words_as_say_what_it_does(toleration: Toleration, text: str) -> None:
    assert toleration_text(toleration) == text


SLA_900, SLA_HIGH = Taint("sla", "900", "NoSchedule"), Taint("sla", "high", "NoSchedule")
CNI = Taint("cni", "3.27.0", "NoSchedule")
OLD_RUNTIME = Taint("runtime", "containerd://2", "NoSchedule")

SENTENCES = [
    (SLA_900, (), "no toleration for this key"),
    (SLA_900, (Toleration("other", "Exists"),), "no toleration for this key"),
    (SLA_900, (Toleration("gpu*", "Exists"),), "no toleration for this key"),
    (SLA_900, (Toleration("sla", "Gt", "950"),), "900 is not greater than 950 (`Gt 950`)"),
    (SLA_900, (Toleration("s*", "Gt", "950"),), "900 is not greater than 950 (`Gt 950`)"),
    (SLA_900, (Toleration("sla", "Lt", "900"),), "900 is not less than 900 (`Lt 900`)"),
    (SLA_HIGH, (Toleration("sla", "Gt", "900"),), '"high" is not a decimal integer, so `Gt 900` cannot match'),
    (SLA_900, (Toleration("sla", "Gt", "many"),), '"many" is not a decimal integer, so `Gt many` cannot match'),
    (CNI, (Toleration("cni", "SemverGt", "v3.28"),), "3.27.0 is not greater than v3.28 (`SemverGt v3.28`)"),
    (CNI, (Toleration("cni", "SemverLt", "3.27"),), "3.27.0 is not less than 3.27 (`SemverLt 3.27`)"),
    (CNI, (Toleration("cni", "SemverEq", "3.28"),), "3.27.0 is not equal to 3.28 (`SemverEq 3.28`)"),
    (
        OLD_RUNTIME,
        (Toleration("runtime", "SemverEq", "2"),),
        '"containerd://2" is not a semantic version: Invalid character(s) found in major number "containerd://2", '
        "so `SemverEq 2` cannot match",
    ),
    (SLA_900, (Toleration("sla", "Equal", "950"),), 'the toleration is for the value "950"'),
    (SLA_900, (Toleration("sla"),), 'the toleration is for the value ""'),
    (SLA_900, (Toleration("sla", "Exists", "", "NoExecute"),), "the toleration `Exists` is for NoExecute only"),
    (SLA_900, (Toleration("sla", "Ge", "5"),), '"Ge" is not an operator'),
    (SLA_900, (Toleration(expression=known.ON_GPU),), f"`{known.ON_GPU}` is false: taint.key is 'sla'"),
    (SLA_900, (Toleration(expression=known.AGED),), "`taint.timeAdded` failed: no such key: timeAdded"),
    (
        SLA_900,
        (Toleration("other", "Exists"), Toleration("sla", "Gt", "950"), Toleration("sla", "Lt", "100")),
        "900 is not greater than 950 (`Gt 950`); 900 is not less than 100 (`Lt 100`)",
    ),
    (
        SLA_900,
        (Toleration("sla", "Gt", "950"), Toleration("sla", "Gt", "950", "NoSchedule")),
        "900 is not greater than 950 (`Gt 950`)",
    ),
]


@pytest.mark.parametrize(("taint", "tolerations", "sentence"), SENTENCES, ids=[each[2][:40] for each in SENTENCES])
def test_a_refusal_says_what_the_closest_toleration_lacks(
    taint: Taint, tolerations: tuple[Toleration, ...], sentence: str
) -> None:
    assert why(taint, *tolerations) == sentence


@pytest.mark.parametrize(
    ("toleration", "what", "gate"),
    [
        (Toleration("sla", "Gt", "800"), "Gt", COMPARISON),
        (Toleration("sla", "SemverGt", "800"), "SemverGt", SEMVER),
        (Toleration("sl*", "Exists"), "sl*", WILDCARD),
        (Toleration(expression=known.ALWAYS), known.ALWAYS, CEL),
    ],
)
def test_a_refusal_says_which_gate_is_off(toleration: Toleration, what: str, gate: str) -> None:
    assert why(SLA_900, toleration, gates=NONE_ON) == f"`{what}` needs the feature gate {gate}, which is off"


def test_refusals_for_the_same_lack_are_of_one_kind_whatever_the_value() -> None:
    thresholds = Tolerations([Toleration("sla", "Gt", "950")], ALL_ON)
    complaint = Complaint(thresholds, ALL_ON)
    (low,), (lower,), (wordy,) = (complaint(Taint("sla", value, "NoSchedule")) for value in ("900", "800", "high"))
    assert low.kind == lower.kind != wordy.kind
    assert low.text != lower.text


def why_not(term: NodeSelectorTerm, labels: dict[str, str], gates: Gates = ALL_ON) -> list[str]:
    selector = compile_selector(NodeSelector((term,)), gates)
    return [
        unsatisfied(condition, labels, verdict).text
        for condition in selector.conditions
        if not (verdict := condition.verdict(labels, "n2"))
    ]


def on(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((NodeSelectorRequirement(key, operator, values),))


CONDITIONS = [
    (on("zone", "In", "west", "east"), {"zone": "north"}, "`zone In [west east]`: the label is north"),
    (on("zone", "In", "west"), {}, "`zone In [west]`: the node has no label zone"),
    (on("zone", "In", "west"), {"zone": ""}, "`zone In [west]`: the node has an empty label zone"),
    (on("zone", "DoesNotExist"), {"zone": "west"}, "`zone DoesNotExist`: the label is west"),
    (on("zone", "DoesNotExist"), {"zone": ""}, "`zone DoesNotExist`: the node has an empty label zone"),
    (on("kubelet", "SemverGt", "1.31"), {"kubelet": "v1.30"}, "`kubelet SemverGt [1.31]`: the label is v1.30"),
    (
        on("kubelet", "SemverGt", "1.31"),
        {"kubelet": "x"},
        "`kubelet SemverGt [1.31]`: label kubelet=x is not a semantic version: "
        'Invalid character(s) found in major number "x"',
    ),
    (
        NodeSelectorTerm(match_fields=(NodeSelectorRequirement("metadata.name", "In", ("n1",)),)),
        {},
        "`metadata.name In [n1]` does not hold",
    ),
    (NodeSelectorTerm(match_cel_expressions=(known.RACKED,)), {}, "`has(node.labels.rack)` is false"),
    (NodeSelectorTerm(match_cel_expressions=(known.MANY_LABELS,)), {}, f"`{known.MANY_LABELS}` is false"),
    (NodeSelectorTerm(match_cel_expressions=(known.IN_WEST,)), {}, "`node.labels['zone']` failed: no such key: zone"),
    (
        NodeSelectorTerm(match_cel_expressions=(known.IN_WEST,)),
        {"zone": "east"},
        f"`{known.IN_WEST}` is false: node.labels['zone'] is 'east'",
    ),
]


@pytest.mark.parametrize(("term", "labels", "sentence"), CONDITIONS, ids=[each[2][:40] for each in CONDITIONS])
def test_a_condition_that_does_not_hold_says_what_the_node_has_instead(
    term: NodeSelectorTerm, labels: dict[str, str], sentence: str
) -> None:
    assert why_not(term, labels) == [sentence]


def test_a_condition_says_which_gate_is_off() -> None:
    assert why_not(on("kubelet", "SemverGt", "1.31"), {"kubelet": "1.32"}, NONE_ON) == [
        f"`kubelet SemverGt [1.31]` needs the feature gate {SEMVER}, which is off"
    ]
    assert why_not(NodeSelectorTerm(match_cel_expressions=(known.ALWAYS,)), {}, NONE_ON) == [
        f"`{known.ALWAYS}` needs the feature gate {CEL}, which is off"
    ]
