from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm
from moorage.api.pod import NodeAffinity
from moorage.features import ALL_ON, NONE_ON, Gate, Gates
from moorage.match.selector import compile_selector
from moorage.names import label_key_errors, label_value_errors, subdomain_errors
from moorage.validation.expressions import ExpressionBudget
from moorage.validation.selector import node_affinity_errors, selector_errors
from tests import known_expressions as known
from tests.match.operands import GATE_SETS, gate_names, gate_sets

SEMVER, CEL = Gates(frozenset([Gate.SEMVER])), Gates(frozenset([Gate.CEL]))
SEMANTIC = ("SemverEq", "SemverGt", "SemverLt")

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
NO_OPERATOR = "not a valid selector operator"
CEL_OFF = "Forbidden: may not be set unless the feature gate TaintTolerationNodeAffinityCEL is enabled"
SINGLE_VERSION = (
    "Required value: must be specified single value when `operator` is 'SemverEq', 'SemverGt' or 'SemverLt'"
)
(BAD_VALUE,) = label_value_errors("a b")
(BAD_KEY,) = label_key_errors("a b")
(BAD_NAME,) = subdomain_errors("N1")


def requirement(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key, operator, values)


def label(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((requirement(key, operator, *values),))


def field(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=(requirement(key, operator, *values),))


def cel(*sources: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_cel_expressions=sources)


def refused(*terms: NodeSelectorTerm, gates: Gates = ALL_ON) -> list[str]:
    """What a selector with these terms is refused for, without the path of the selector."""
    errors = selector_errors("at", NodeSelector(terms), gates, ExpressionBudget("spec"))
    return [str(error).removeprefix("at.nodeSelectorTerms") for error in errors]


def preference_refused(term: NodeSelectorTerm, weight: int = 1, gates: Gates = ALL_ON) -> list[str]:
    affinity = NodeAffinity(None, (PreferredSchedulingTerm(weight, term),))
    errors = node_affinity_errors("at", affinity, gates, ExpressionBudget("spec"))
    return [str(error).removeprefix(f"at.{PREFERRED}") for error in errors]


def test_a_refusal_starts_with_the_path_of_the_field() -> None:
    affinity = NodeAffinity(NodeSelector((label("kubelet", "SemverEq", "1.31"),)))
    errors = node_affinity_errors("spec.affinity.nodeAffinity", affinity, NONE_ON, ExpressionBudget("spec"))
    assert [str(error) for error in errors] == [
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator: "
        'Invalid value: "SemverEq": not a valid selector operator'
    ]


@pytest.mark.parametrize("gates", GATE_SETS, ids=gate_names)
@pytest.mark.parametrize("operator", SEMANTIC)
def test_a_semver_operator_is_valid_exactly_when_its_gate_is_on(operator: str, gates: Gates) -> None:
    off = [f'[0].matchExpressions[0].operator: Invalid value: "{operator}": {NO_OPERATOR}']
    errors = [] if gates.enabled(Gate.SEMVER) else off
    assert refused(label("kubelet", operator, "1.31"), gates=gates) == errors
    preferred = preference_refused(label("kubelet", operator, "1.31"), gates=gates)
    assert preferred == [error.replace("[0].", "[0].preference.", 1) for error in errors]


@pytest.mark.parametrize("operator", SEMANTIC)
@pytest.mark.parametrize("values", [(), ("1.30", "1.31")], ids=["none", "two"])
def test_a_semver_requirement_has_one_value(operator: str, values: tuple[str, ...]) -> None:
    assert refused(label("kubelet", operator, *values)) == [f"[0].matchExpressions[0].values: {SINGLE_VERSION}"]
    assert preference_refused(label("kubelet", operator, *values)) == [
        f"[0].preference.matchExpressions[0].values: {SINGLE_VERSION}"
    ]


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ("v1.2.x", 'Invalid character(s) found in patch number "x"'),
        ("1.31-rc", "Short version cannot contain PreRelease/Build meta data"),
        ("latest", 'Invalid character(s) found in major number "latest"'),
    ],
)
def test_the_value_of_a_semver_requirement_must_parse(value: str, detail: str) -> None:
    for operator in SEMANTIC:
        assert refused(label("kubelet", operator, value)) == [
            f'[0].matchExpressions[0].values[0]: Invalid value: "{value}": {detail}'
        ]


@pytest.mark.parametrize("operator", [*SEMANTIC, "Gt", "Lt", "Exists", "DoesNotExist", ""])
def test_fields_know_neither_versions_nor_anything_but_in_and_not_in(operator: str) -> None:
    assert refused(field("metadata.name", operator, "1.31")) == [
        f'[0].matchFields[0].operator: Invalid value: "{operator}": {NO_OPERATOR}'
    ]


TERMS: list[tuple[NodeSelectorTerm, list[str]]] = [
    (label("zone", "In", "west", "east"), []),
    (label("zone", "NotIn", ""), []),
    (label("zone", "Exists"), []),
    (label("cpu", "Gt", "16"), []),
    (label("cpu", "Lt", "many"), []),
    (
        label("zone", "In"),
        ["matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
    ),
    (
        label("zone", "DoesNotExist", "west"),
        ["matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"],
    ),
    (
        label("cpu", "Gt"),
        ["matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"],
    ),
    (label("zone", "Is"), [f'matchExpressions[0].operator: Invalid value: "Is": {NO_OPERATOR}']),
    (label("zone", ""), [f'matchExpressions[0].operator: Invalid value: "": {NO_OPERATOR}']),
    (label("a b", "Exists"), [f'matchExpressions[0].key: Invalid value: "a b": {BAD_KEY}']),
    (field("metadata.name", "In", "n1"), []),
    (
        field("metadata.name", "NotIn", "n1", "n2"),
        [
            "matchFields[0].values: Required value: "
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        ],
    ),
    (
        field("metadata.uid", "In", "n1"),
        ['matchFields[0].key: Invalid value: "metadata.uid": not a valid field selector key'],
    ),
    (field("metadata.name", "In", "N1"), [f'matchFields[0].values[0]: Invalid value: "N1": {BAD_NAME}']),
    (cel(known.ALWAYS, known.IN_WEST), []),
    (
        cel(known.ALWAYS, known.BROKEN),
        [f'matchCELExpressions[1]: Invalid value: "foo.bar": compilation failed: {known.PROBLEM}'],
    ),
    (cel("x" * 10_241), ["matchCELExpressions[0]: Too long: may not be more than 10240 bytes"]),
    (NodeSelectorTerm(), []),
]


@pytest.mark.parametrize(("term", "errors"), TERMS, ids=[str(term)[:60] for term, _ in TERMS])
def test_a_term_is_refused_in_kubernetes_words_wherever_it_stands(term: NodeSelectorTerm, errors: list[str]) -> None:
    assert refused(NodeSelectorTerm(), term) == [f"[1].{error}" for error in errors]
    assert preference_refused(term) == [f"[0].preference.{error}" for error in errors]


def test_a_bad_value_is_refused_in_a_required_term_and_passes_in_a_preferred_one() -> None:
    term = label("zone", "In", "west", "a b")
    assert refused(term) == [f'[0].matchExpressions[0].values[1]: Invalid value: "a b": {BAD_VALUE}']
    assert preference_refused(term) == []


@pytest.mark.parametrize("value", ["5.0.0+b1", " 5.0.0"])
def test_a_version_that_is_no_label_value_is_refused_in_a_preferred_term_too(value: str) -> None:
    term = label("kubelet", "SemverGt", value)
    error = f'matchExpressions[0].values[0]: Invalid value: "{value}": {BAD_VALUE}'
    assert refused(term) == [f"[0].{error}"]
    assert preference_refused(term) == [f"[0].preference.{error}"]


@pytest.mark.parametrize("gates", [NONE_ON, SEMVER], ids=gate_names)
def test_expressions_are_forbidden_while_their_gate_is_off(gates: Gates) -> None:
    for term in (cel(known.ALWAYS), cel(known.BROKEN, known.COSTLY_NODE)):
        assert refused(term, gates=gates) == [f"[0].matchCELExpressions: {CEL_OFF}"]
        assert preference_refused(term, gates=gates) == [f"[0].preference.matchCELExpressions: {CEL_OFF}"]


def test_a_costly_expression_is_complained_of_on_the_specification() -> None:
    complaint = "spec: Forbidden: too complex, exceeds cost limit"
    assert refused(cel(known.COSTLY_NODE)) == [complaint]
    assert preference_refused(cel(known.COSTLY_NODE)) == [complaint]


@pytest.mark.parametrize("weight", [1, 50, 100])
def test_a_weight_from_one_to_a_hundred_is_accepted(weight: int) -> None:
    assert preference_refused(label("zone", "Exists"), weight) == []


@pytest.mark.parametrize("weight", [-1, 0, 101])
def test_any_other_weight_is_refused(weight: int) -> None:
    errors = preference_refused(label("zone", "Exists"), weight)
    assert errors == [f"[0].weight: Invalid value: {weight}: must be in the range 1-100"]


def test_a_selector_without_terms_is_refused() -> None:
    assert refused() == [": Required value: must have at least one node selector term"]


def test_all_errors_of_all_terms_are_reported_at_once_and_in_order() -> None:
    broken = NodeSelectorTerm(
        (requirement("a b", "Is", "c d"), requirement("kubelet", "SemverGt", "latest")),
        (requirement("metadata.name", "In", "N1"),),
        (known.BROKEN,),
    )
    assert refused(label("zone", "In"), broken) == [
        "[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        f'[1].matchExpressions[0].operator: Invalid value: "Is": {NO_OPERATOR}',
        f'[1].matchExpressions[0].key: Invalid value: "a b": {BAD_KEY}',
        f'[1].matchExpressions[0].values[0]: Invalid value: "c d": {BAD_VALUE}',
        '[1].matchExpressions[1].values[0]: Invalid value: "latest": '
        'Invalid character(s) found in major number "latest"',
        f'[1].matchFields[0].values[0]: Invalid value: "N1": {BAD_NAME}',
        f'[1].matchCELExpressions[0]: Invalid value: "foo.bar": compilation failed: {known.PROBLEM}',
    ]


operators = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", *SEMANTIC, "Is"))
values = st.sampled_from(("5", "1.31", "west", "", "a b", "latest")) | st.text(max_size=3)
requirements = st.builds(
    NodeSelectorRequirement, st.sampled_from(("zone", "a b", "")), operators, st.lists(values, max_size=2).map(tuple)
)
terms = st.builds(
    NodeSelectorTerm,
    st.lists(requirements, max_size=2).map(tuple),
    st.just(()),
    st.lists(st.sampled_from((known.ALWAYS, known.BROKEN)), max_size=1).map(tuple),
)


@given(st.lists(terms, min_size=1, max_size=3), gate_sets)
def test_a_selector_that_admission_lets_in_parses_but_for_words_as_numbers(
    given_terms: list[NodeSelectorTerm], gates: Gates
) -> None:
    admitted = tuple(node_term for node_term in given_terms if not refused(node_term, gates=gates))
    compiled = compile_selector(NodeSelector(admitted), gates)
    # Kubernetes never looked at the number of Gt and Lt before matching.
    assert all("the value must be an integer" in error for error in compiled.errors)
