from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm
from moorage.api.pod import Affinity, NodeAffinity, PodSpec
from moorage.features import ALL_ON, NONE_ON, Gate, Gates
from moorage.match.selector import Selector, compile_pod_selector, compile_preferences, compile_selector
from moorage.match.verdict import MATCH, NO_MATCH
from tests import known_expressions as known
from tests.match import naive
from tests.match.operands import GATE_SETS, INT64_MAX, INT64_MIN, UINT64_MAX, gate_names, gate_sets

SEMVER, CEL = Gates(frozenset([Gate.SEMVER])), Gates(frozenset([Gate.CEL]))

# Operands of requirements must be label values; what a node carries in its labels may be anything.
INTEGERS = ("0", "5", "007", "950", str(INT64_MAX))
VERSIONS = ("v1.31", "1.31.0", "1.31.0-rc.2", "5.15.0-1034-aws", f"{UINT64_MAX}.0.0")
WORDS = ("west", "", "true")
BOUNDS = (*INTEGERS, *VERSIONS, *WORDS)
LABELS = (None, *BOUNDS, "-5", "+5", str(INT64_MIN), str(INT64_MAX + 1), "1.31.0+build", " 5", "٣", "1.31-rc", "high")

SETS, EXISTENCE = ("In", "NotIn"), ("Exists", "DoesNotExist")
NUMERIC, SEMANTIC = ("Gt", "Lt"), ("SemverEq", "SemverGt", "SemverLt")


def requirement(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key, operator, values)


def term(
    *requirements: NodeSelectorRequirement, fields: tuple[NodeSelectorRequirement, ...] = (), cel: tuple[str, ...] = ()
) -> NodeSelectorTerm:
    return NodeSelectorTerm(requirements, fields, cel)


def select(*terms: NodeSelectorTerm, gates: Gates = ALL_ON) -> Selector:
    return compile_selector(NodeSelector(terms), gates)


WEST, EAST = requirement("zone", "In", "west"), requirement("zone", "In", "east")
BIG = requirement("cpu", "Gt", "16")
NEW = requirement("kubelet", "SemverGt", "1.31")
NAMED = requirement("metadata.name", "In", "n1")
IN_WEST = {"zone": "west", "cpu": "32", "kubelet": "v1.32.0"}

REQUIREMENTS = [
    *(requirement("x", operator, *values) for operator in SETS for values in (("west",), ("",), ("5", "950"), BOUNDS)),
    *(requirement("x", operator) for operator in EXISTENCE),
    *(requirement("x", operator, value) for operator in NUMERIC for value in INTEGERS),
    *(requirement("x", operator, value) for operator in SEMANTIC for value in (*VERSIONS, *INTEGERS[:3])),
]


@pytest.mark.parametrize("gates", GATE_SETS, ids=gate_names)
def test_the_operand_grid(gates: Gates) -> None:
    wrong = []
    for required in REQUIREMENTS:
        asked = select(term(required), gates=gates)
        for value in LABELS:
            labels = {"other": "5"} if value is None else {"x": value, "other": "5"}
            want = naive.requirement_matches(required, labels, gates)
            if asked.verdict(labels, "n1").matched != want:
                wrong.append(f"{required} on {labels}: want {want}")
    assert not wrong, "\n".join(wrong)


def test_a_semver_requirement_compares_the_label_with_its_value() -> None:
    for value, matching in (("1.30.9", "SemverLt"), ("v1.31", "SemverEq"), ("1.31.1", "SemverGt")):
        for operator in SEMANTIC:
            asked = select(term(requirement("kubelet", operator, "1.31.0")))
            assert asked.verdict({"kubelet": value}, "n1").matched == (operator == matching)


@pytest.mark.parametrize("value", ["containerd://2.1.4", "", "latest", "1.31-rc"])
def test_a_label_that_is_no_version_is_an_error_with_a_reason(value: str) -> None:
    verdict = select(term(NEW)).verdict({"kubelet": value}, "n1")
    assert not verdict
    assert verdict.error.startswith(f"label kubelet={value} is not a semantic version: ")
    assert verdict.log == f"Parse semver failed for value {value} in label kubelet"


def test_a_missing_label_is_no_error() -> None:
    for required in (NEW, BIG, WEST):
        assert select(term(required)).verdict({}, "n1") == NO_MATCH


def test_a_label_that_is_no_number_is_no_match_as_in_kubernetes() -> None:
    assert select(term(BIG)).verdict({"cpu": "many"}, "n1") == NO_MATCH
    assert select(term(BIG)).verdict({"cpu": "+0017"}, "n1") == MATCH


NOT_REQUIREMENTS = [
    requirement("x", "In"),
    requirement("x", "NotIn"),
    requirement("x", "Exists", "a"),
    requirement("x", "DoesNotExist", "a"),
    requirement("x", "Gt"),
    requirement("x", "Gt", "1", "2"),
    requirement("x", "Lt", "many"),
    requirement("x", "Lt", "1.5"),
    requirement("x", "SemverGt"),
    requirement("x", "SemverGt", "1", "2"),
    requirement("x", "SemverEq", "latest"),
    requirement("x", "Is", "a"),
    requirement("x", ""),
    requirement("", "Exists"),
    requirement("-x", "Exists"),
    requirement("x", "In", "a b"),
]


@pytest.mark.parametrize("bad", NOT_REQUIREMENTS, ids=str)
def test_a_term_that_does_not_parse_matches_nothing_and_says_why(bad: NodeSelectorRequirement) -> None:
    asked = select(term(WEST, bad))
    assert asked.errors
    verdict = asked.verdict({**IN_WEST, "x": "a"}, "n1")
    assert not verdict
    assert verdict.log == "node selector term does not parse"
    assert all(error in verdict.error for error in asked.errors)


@pytest.mark.parametrize("bad", [requirement("metadata.name", "Exists"), requirement("metadata.name", "In", "a", "b")])
def test_a_field_requirement_that_does_not_parse_matches_nothing(bad: NodeSelectorRequirement) -> None:
    asked = select(term(WEST, fields=(bad,)))
    assert not asked.verdict(IN_WEST, "a")
    assert len(asked.errors) == 1


def test_an_error_in_one_term_does_not_stop_the_others() -> None:
    for terms in ((term(NEW), term(WEST)), (term(WEST), term(NEW)), (term(NOT_REQUIREMENTS[0]), term(WEST))):
        assert select(*terms).verdict({"zone": "west", "kubelet": "latest"}, "n1") == MATCH
    assert select(term(EAST), term(NEW)).verdict({"zone": "west", "kubelet": "latest"}, "n1").error


def test_terms_are_alternatives_and_all_of_a_term_must_hold() -> None:
    assert select(term(WEST, BIG, NEW)).verdict(IN_WEST, "n1")
    for lacking in IN_WEST:
        partial = {key: value for key, value in IN_WEST.items() if key != lacking}
        assert not select(term(WEST, BIG, NEW)).verdict(partial, "n1")
        assert select(term(WEST, BIG, NEW), term(requirement(lacking, "DoesNotExist"))).verdict(partial, "n1")
    assert select(term(EAST), term(WEST)).verdict(IN_WEST, "n1")
    assert not select(term(EAST), term(EAST, WEST)).verdict(IN_WEST, "n1")


def test_expressions_fields_and_labels_of_a_term_are_all_asked() -> None:
    parts = term(WEST, fields=(NAMED,), cel=(known.IN_WEST, known.RACKED))
    node = {"zone": "west", "rack": "7"}
    assert select(parts).verdict(node, "n1")
    assert not select(parts).verdict(node, "n2")
    assert not select(parts).verdict({"zone": "west"}, "n1")
    assert not select(term(EAST, fields=(NAMED,), cel=(known.IN_WEST,))).verdict(node, "n1")


def test_no_selector_matches_every_node_and_an_empty_one_none() -> None:
    for labels in ({}, IN_WEST):
        assert compile_selector(None, ALL_ON).verdict(labels, "n1") == MATCH
        assert select().verdict(labels, "n1") == NO_MATCH
        assert select(term()).verdict(labels, "n1") == NO_MATCH
        assert select(term(), term(), term()).verdict(labels, "n1") == NO_MATCH


def test_an_empty_term_takes_nothing_away_from_the_others() -> None:
    assert select(term(), term(WEST)).verdict(IN_WEST, "n1") == MATCH
    assert select(term(WEST), term()).verdict({"zone": "east"}, "n1") == NO_MATCH


def test_a_semver_requirement_does_not_match_while_its_gate_is_off() -> None:
    for operator in SEMANTIC:
        for value in ("1.30", "1.31", "1.32", "latest"):
            asked = select(term(requirement("kubelet", operator, "1.31")), gates=CEL)
            assert asked.verdict({"kubelet": value}, "n1") == NO_MATCH
    assert not select(term(WEST, NEW), gates=NONE_ON).verdict(IN_WEST, "n1")
    assert select(term(WEST, NEW), term(WEST), gates=NONE_ON).verdict(IN_WEST, "n1")


MIXTURES = {
    "alone": term(cel=(known.ALWAYS,)),
    "with a label": term(WEST, cel=(known.ALWAYS,)),
    "with a field": term(fields=(NAMED,), cel=(known.ALWAYS,)),
    "with everything": term(WEST, fields=(NAMED,), cel=(known.ALWAYS, known.IN_WEST)),
    "not compiling": term(WEST, cel=(known.BROKEN,)),
}


@pytest.mark.parametrize("mixed", MIXTURES.values(), ids=MIXTURES)
@pytest.mark.parametrize("gates", GATE_SETS, ids=gate_names)
def test_a_term_with_expressions_is_never_widened_by_forgetting_them(mixed: NodeSelectorTerm, gates: Gates) -> None:
    verdict = select(mixed, gates=gates).verdict(IN_WEST, "n1")
    assert verdict.matched == (gates.enabled(Gate.CEL) and known.BROKEN not in mixed.match_cel_expressions)
    if not gates.enabled(Gate.CEL):
        assert verdict == NO_MATCH
        assert compile_preferences([PreferredSchedulingTerm(9, mixed)], gates).score(IN_WEST, "n1") == 0


def test_an_expression_that_cannot_be_evaluated_is_an_error() -> None:
    assert select(term(cel=(known.IN_WEST,))).verdict({}, "n1") == known.NO_ZONE
    assert select(term(cel=(known.BROKEN,))).verdict({}, "n1").error == known.PROBLEM


@pytest.mark.parametrize(
    ("operator", "value", "name", "matches"),
    [
        ("In", "n1", "n1", True),
        ("In", "n1", "n2", False),
        ("NotIn", "n1", "n1", False),
        ("NotIn", "n1", "n2", True),
        ("In", "n1", "N1", False),
    ],
)
def test_a_node_is_picked_by_its_name(operator: str, value: str, name: str, matches: bool) -> None:
    asked = select(term(fields=(requirement("metadata.name", operator, value),)))
    assert asked.verdict({"metadata.name": value}, name).matched == matches


def test_the_name_of_a_node_is_no_label_and_a_label_no_field() -> None:
    assert not select(term(requirement("name", "In", "n1"))).verdict({}, "n1")
    assert not select(term(fields=(requirement("zone", "In", "west"),))).verdict(IN_WEST, "n1")


def pod_selector(affinity: Affinity | None, **labels: str) -> Selector:
    return compile_pod_selector(PodSpec(node_selector=labels, affinity=affinity), ALL_ON)


def test_a_pod_demands_its_node_selector_and_its_required_terms() -> None:
    both = pod_selector(Affinity(NodeAffinity(NodeSelector((term(BIG), term(NEW))))), zone="west", disk="")
    assert both.verdict({**IN_WEST, "disk": ""}, "n1") == MATCH
    assert both.verdict({"zone": "west", "disk": "", "cpu": "32"}, "n1") == MATCH
    assert both.verdict({"zone": "west", "disk": ""}, "n1") == NO_MATCH
    assert both.verdict({**IN_WEST, "disk": "ssd"}, "n1") == NO_MATCH
    assert both.verdict(IN_WEST, "n1") == NO_MATCH
    assert both.keys == frozenset(["zone", "disk", "cpu", "kubelet"])


@pytest.mark.parametrize("affinity", [None, Affinity(), Affinity(NodeAffinity())], ids=["none", "empty", "no terms"])
def test_a_pod_without_required_terms_may_go_anywhere_its_node_selector_allows(affinity: Affinity | None) -> None:
    assert pod_selector(affinity).verdict({}, "n1") == MATCH
    assert pod_selector(affinity, zone="west").verdict(IN_WEST, "n1") == MATCH
    assert pod_selector(affinity, zone="east").verdict(IN_WEST, "n1") == NO_MATCH


def test_a_pod_with_an_empty_list_of_terms_may_go_nowhere() -> None:
    assert pod_selector(Affinity(NodeAffinity(NodeSelector()))).verdict(IN_WEST, "n1") == NO_MATCH


def prefer(weight: int, *requirements: NodeSelectorRequirement, cel: tuple[str, ...] = ()) -> PreferredSchedulingTerm:
    return PreferredSchedulingTerm(weight, term(*requirements, cel=cel))


def test_preferred_terms_add_their_weight_when_the_whole_term_matches() -> None:
    terms = [prefer(1, WEST), prefer(10, WEST, EAST), prefer(100, BIG, NEW), prefer(50, cel=(known.IN_WEST,))]
    preferences = compile_preferences(terms, ALL_ON)
    assert preferences.score(IN_WEST, "n1") == 151
    assert preferences.score({"zone": "west"}, "n1") == 51
    assert preferences.score({}, "n1") == 0
    assert compile_preferences(terms, NONE_ON).score(IN_WEST, "n1") == 1
    assert compile_preferences([], ALL_ON).score(IN_WEST, "n1") == 0


def test_a_preference_without_weight_or_conditions_says_nothing() -> None:
    bad = NOT_REQUIREMENTS[0]
    preferences = compile_preferences([prefer(0, bad), prefer(7)], ALL_ON)
    assert preferences.errors == ()
    assert preferences.score(IN_WEST, "n1") == 0


def test_a_preference_that_cannot_be_evaluated_adds_nothing() -> None:
    preferences = compile_preferences([prefer(5, NEW), prefer(7, NOT_REQUIREMENTS[0])], ALL_ON)
    assert len(preferences.errors) == 1
    assert preferences.score({"kubelet": "latest", "x": "a"}, "n1") == 0


KEYS = ("zone", "cpu", "kubelet", "rack", "shelf")
label_values = st.sampled_from([value for value in LABELS if value is not None] + ["east"])
label_sets = st.dictionaries(st.sampled_from(KEYS), label_values)
names = st.sampled_from(("n1", "n2", "n3"))
requirements = st.builds(
    lambda key, each: requirement(key, each.operator, *each.values),
    st.sampled_from(KEYS),
    st.sampled_from(REQUIREMENTS),
)
fields = st.builds(lambda operator, name: requirement("metadata.name", operator, name), st.sampled_from(SETS), names)
sources = st.sampled_from((known.ALWAYS, known.NEVER, known.IN_WEST, known.RACKED, known.MANY_LABELS))
terms = st.builds(
    NodeSelectorTerm,
    st.lists(requirements, max_size=2).map(tuple),
    st.lists(fields, max_size=1).map(tuple),
    st.lists(sources, max_size=2).map(tuple),
)
selectors = st.lists(terms, max_size=3).map(lambda each: NodeSelector(tuple(each)))


@settings(max_examples=300)
@given(selectors, label_sets, names, gate_sets)
def test_a_compiled_selector_says_what_the_rules_say(
    selector: NodeSelector, labels: dict[str, str], name: str, gates: Gates
) -> None:
    matching = [
        node_term for node_term in selector.node_selector_terms if naive.term_matches(node_term, labels, name, gates)
    ]
    assert compile_selector(selector, gates).verdict(labels, name).matched == bool(matching)
    weighted = [
        PreferredSchedulingTerm(2**index, node_term) for index, node_term in enumerate(selector.node_selector_terms)
    ]
    score = sum(
        node_term.weight for node_term in weighted if naive.term_matches(node_term.preference, labels, name, gates)
    )
    assert compile_preferences(weighted, gates).score(labels, name) == score


@settings(max_examples=300)
@given(selectors, label_sets, label_sets, names, names, gate_sets)
def test_what_a_selector_says_it_does_not_read_never_changes_its_verdict(
    selector: NodeSelector, labels: dict[str, str], other: dict[str, str], name: str, other_name: str, gates: Gates
) -> None:
    weighted = [
        PreferredSchedulingTerm(2**index, node_term) for index, node_term in enumerate(selector.node_selector_terms)
    ]
    asked, preferences = (
        compile_selector(selector, gates),
        compile_preferences(weighted, gates),
    )
    for keys, reads_name, answer in (
        (asked.keys, asked.reads_name, asked.verdict),
        (preferences.keys, preferences.reads_name, preferences.score),
    ):
        read = set(KEYS) if keys is None else keys
        changed = {key: labels[key] for key in read & set(labels)} | {key: other[key] for key in set(other) - read}
        assert answer(changed, name if reads_name else other_name) == answer(labels, name)


def test_a_selector_reports_what_it_reads_and_no_more() -> None:
    assert select(term(WEST, BIG), term(NEW)).keys == frozenset(["zone", "cpu", "kubelet"])
    assert not select(term(WEST)).reads_name
    assert select(term(fields=(NAMED,))).reads_name
    assert select(term(fields=(NAMED,))).keys == frozenset()
    assert select(term(WEST, cel=(known.RACKED,))).keys == frozenset(["zone", "rack", "shelf"])
    assert select(term(WEST, cel=(known.MANY_LABELS,))).keys is None
    assert select(term(cel=(known.MANY_LABELS,)), gates=NONE_ON).keys == frozenset()
    assert compile_selector(None, ALL_ON).keys == frozenset()
    assert compile_preferences([prefer(1, WEST), prefer(2, BIG)], ALL_ON).keys == frozenset(["zone", "cpu"])


def test_a_condition_says_which_gate_it_waits_for() -> None:
    gates = [condition.gate for condition in select(term(WEST, NEW, cel=(known.ALWAYS,)), gates=NONE_ON).conditions]
    assert gates == [None, Gate.SEMVER, Gate.CEL]
    assert [condition.gate for condition in select(term(WEST, NEW, cel=(known.ALWAYS,))).conditions] == [None] * 3


def test_the_keys_of_very_many_conditions_are_collected_in_one_go() -> None:
    spec = PodSpec(node_selector={f"k-{number}": "v" for number in range(100_000)})
    keys = compile_pod_selector(spec, ALL_ON).keys
    assert keys is not None
    assert len(keys) == 100_000
