from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api.node import Taint
from moorage.api.pod import Toleration
from moorage.features import ALL_ON, NONE_ON, Gate, Gates
from moorage.match.tolerations import Tolerations
from moorage.names import label_key_errors, label_value_errors
from moorage.validation.expressions import ExpressionBudget
from moorage.validation.tolerations import (
    device_taint_errors,
    device_taint_list_errors,
    device_toleration_errors,
    taint_errors,
    toleration_errors,
)
from tests import known_expressions as known
from tests.match import operands
from tests.match.operands import GATE_SETS, gate_names

COMPARISON, SEMVER = Gates(frozenset([Gate.COMPARISON])), Gates(frozenset([Gate.SEMVER]))
CEL, WILDCARD = Gates(frozenset([Gate.CEL])), Gates(frozenset([Gate.WILDCARD]))

NOT_CANONICAL = "must be a valid decimal integer in canonical form"
WANTS_EXISTS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
NODE_EFFECTS = 'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
DEVICE_EFFECTS = 'supported values: "NoExecute", "NoSchedule", "None"'
(BAD_VALUE,) = label_value_errors("x/y")
(BAD_KEY,) = label_key_errors("a b")
CEL_OFF = "Forbidden: may not be set unless the feature gate TaintTolerationNodeAffinityCEL is enabled"
ALONE = "Forbidden: may not be set when `expression` is set"


def refused(*tolerations: Toleration, gates: Gates = ALL_ON) -> list[str]:
    """What a pod with these tolerations is refused for, without the path of the list."""
    errors = toleration_errors("spec.tolerations", tolerations, gates, ExpressionBudget("spec"))
    return [str(error).removeprefix("spec.tolerations") for error in errors]


def device_refused(*tolerations: Toleration, gates: Gates = ALL_ON) -> list[str]:
    errors = device_toleration_errors("tolerations", tolerations, gates, ExpressionBudget("spec"))
    return [str(error).removeprefix("tolerations") for error in errors]


def test_a_refusal_starts_with_the_path_of_the_field() -> None:
    (error,) = toleration_errors("spec.tolerations", [Toleration("a", "Gt", "5")], NONE_ON, ExpressionBudget("spec"))
    assert str(error) == 'spec.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"'


@pytest.mark.parametrize("gates", GATE_SETS, ids=gate_names)
@pytest.mark.parametrize("operator", ["Gt", "Lt", "SemverEq", "SemverGt", "SemverLt", "Ge", "gt"])
def test_an_operator_is_supported_exactly_when_its_gate_is_on(operator: str, gates: Gates) -> None:
    now = ["Equal", "Exists"]
    now += ["Gt", "Lt"] if gates.enabled(Gate.COMPARISON) else []
    now += ["SemverEq", "SemverGt", "SemverLt"] if gates.enabled(Gate.SEMVER) else []
    supported = ", ".join(f'"{operator}"' for operator in now)
    unsupported = [f'[0].operator: Unsupported value: "{operator}": supported values: {supported}']
    toleration = Toleration("sla", operator, "5")
    assert refused(toleration, gates=gates) == device_refused(toleration, gates=gates)
    assert refused(toleration, gates=gates) == ([] if operator in now else unsupported)


@pytest.mark.parametrize("gates", GATE_SETS, ids=gate_names)
def test_equal_and_exists_are_always_supported(gates: Gates) -> None:
    assert refused(Toleration("a", "Equal", "b"), Toleration("a", "", "b"), Toleration("", "Exists"), gates=gates) == []


INVALID = "Invalid value: "
NUMBERS: list[tuple[str, list[str]]] = [
    ("950", []),
    ("0", []),
    ("-5", []),
    ("9223372036854775807", []),
    ("0950", [f'"0950": {NOT_CANONICAL}']),
    ("+5", [f'"+5": {NOT_CANONICAL}']),
    ("-0", [f'"-0": {NOT_CANONICAL}']),
    ("95.5", [f'"95.5": {NOT_CANONICAL}', '"95.5": strconv.ParseInt: parsing "95.5": invalid syntax']),
    ("1e3", [f'"1e3": {NOT_CANONICAL}', '"1e3": strconv.ParseInt: parsing "1e3": invalid syntax']),
    ("٣", [f'"٣": {NOT_CANONICAL}', '"٣": strconv.ParseInt: parsing "٣": invalid syntax']),
    ("", ['"": must be non-empty', '"": strconv.ParseInt: parsing "": invalid syntax']),
    (
        "9223372036854775808",
        ['"9223372036854775808": strconv.ParseInt: parsing "9223372036854775808": value out of range'],
    ),
]


@pytest.mark.parametrize(("value", "details"), NUMBERS, ids=[value or "empty" for value, _ in NUMBERS])
@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_a_threshold_must_be_an_integer_as_people_write_it(operator: str, value: str, details: list[str]) -> None:
    toleration = Toleration("sla", operator, value)
    assert refused(toleration, gates=COMPARISON) == [f"[0].value: {INVALID}{detail}" for detail in details]
    assert device_refused(toleration, gates=COMPARISON) == [f"[0].value: {INVALID}{detail}" for detail in details]


VERSIONS: list[tuple[str, str]] = [
    ("v1.31", ""),
    ("5.15.0-1034-aws", ""),
    ("1.2.3+build", ""),
    (" 1 ", ""),
    ("containerd://2.1.4", 'Invalid character(s) found in major number "containerd://2"'),
    ("1.31-rc", "Short version cannot contain PreRelease/Build meta data"),
    ("v1.2.x", 'Invalid character(s) found in patch number "x"'),
    ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
    ("", 'strconv.ParseUint: parsing "": invalid syntax'),
]


@pytest.mark.parametrize(("value", "detail"), VERSIONS, ids=[value or "empty" for value, _ in VERSIONS])
@pytest.mark.parametrize("operator", ["SemverEq", "SemverGt", "SemverLt"])
def test_a_version_must_parse(operator: str, value: str, detail: str) -> None:
    toleration = Toleration("cni", operator, value)
    errors = [f'[0].value: {INVALID}"{value}": {detail}'] if detail else []
    assert refused(toleration, gates=SEMVER) == errors
    assert device_refused(toleration, gates=SEMVER) == errors


@pytest.mark.parametrize("gates", [NONE_ON, COMPARISON, SEMVER, WILDCARD], ids=gate_names)
def test_an_expression_is_forbidden_while_its_gate_is_off(gates: Gates) -> None:
    assert refused(Toleration(expression=known.ALWAYS), gates=gates) == [f"[0].expression: {CEL_OFF}"]
    assert refused(Toleration(expression=known.BROKEN), gates=gates) == [f"[0].expression: {CEL_OFF}"]


def test_an_expression_stands_alone_but_for_the_seconds() -> None:
    crowded = Toleration("a", "Equal", "b", "NoExecute", 30, known.ALWAYS)
    errors = [f"[0].{field}: {ALONE}" for field in ("key", "operator", "value", "effect")]
    for judged in (refused, device_refused):
        assert judged(crowded) == errors
        assert judged(crowded, gates=NONE_ON) == [*errors, f"[0].expression: {CEL_OFF}"]
        assert judged(Toleration(expression=known.ALWAYS, toleration_seconds=30)) == []
        assert judged(Toleration(expression=known.ALWAYS, effect="NoExecute")) == [f"[0].effect: {ALONE}"]


def test_an_expression_that_does_not_compile_is_shown_with_its_position() -> None:
    shown = known.PROBLEM
    for judged in (refused, device_refused):
        assert judged(Toleration(expression=known.BROKEN)) == [
            f'[0].expression: Invalid value: "foo.bar": compilation failed: {shown}'
        ]


@pytest.mark.parametrize("letter", ["a", "é"])
def test_an_expression_may_have_as_many_bytes_as_it_may(letter: str) -> None:
    size = len(letter.encode())
    fits, too_long = "'" + letter * (10_238 // size) + "'", "'" + letter * (10_240 // size) + "'"
    assert len(fits.encode()) == 10_240
    assert refused(Toleration(expression=fits))[0].startswith("[0].expression: Invalid value: ")
    assert refused(Toleration(expression=too_long)) == ["[0].expression: Too long: may not be more than 10240 bytes"]


def test_a_costly_expression_is_complained_of_on_the_specification() -> None:
    given_rules = CEL
    (error,) = toleration_errors(
        "spec.tolerations", [Toleration(expression=known.COSTLY_TAINT)], given_rules, ExpressionBudget("spec")
    )
    assert str(error) == "spec: Forbidden: too complex, exceeds cost limit"


WILDCARD_KEYS: list[tuple[str, list[str]]] = [
    ("*", []),
    ("**", []),
    ("*/*", []),
    ("readiness.k8s.io/*", []),
    ("*.example.com/a*b", []),
    ("*" * 63, []),
    ("sla", []),
    ("*" * 64, ["name part must be no more than 63 bytes"]),
    ("*/*/*", label_key_errors("x/x/x")),
    ("example.com/", label_key_errors("example.com/")),
    ("-*", label_key_errors("-x")),
    ("*-", label_key_errors("x-")),
    ("A*.io/x", label_key_errors("Ax.io/x")),
    ("a?*", ["only '*' is a wildcard in a toleration key: \"?\" not allowed"]),
    ("[ab]", ['only \'*\' is a wildcard in a toleration key: "[", "]" not allowed']),
    ("a\\*", ["only '*' is a wildcard in a toleration key: \"\\\\\" not allowed"]),
]


@pytest.mark.parametrize(("key", "details"), WILDCARD_KEYS, ids=[key[:20] for key, _ in WILDCARD_KEYS])
def test_a_wildcard_key_must_be_a_label_name_around_its_wildcards(key: str, details: list[str]) -> None:
    quoted = key.replace("\\", "\\\\")
    errors = [f'[0].key: Invalid value: "{quoted}": {detail}' for detail in details]
    assert refused(Toleration(key, "Exists"), gates=WILDCARD) == errors
    assert device_refused(Toleration(key, "Exists"), gates=WILDCARD) == errors


@pytest.mark.parametrize("key", ["*", "readiness.k8s.io/*", "s*a", "a?", "[ab]"])
def test_a_wildcard_is_a_bad_label_name_while_its_gate_is_off(key: str) -> None:
    for judged in (refused, device_refused):
        assert judged(Toleration(key, "Exists"), gates=NONE_ON) == [f'[0].key: Invalid value: "{key}": {BAD_KEY}']


@pytest.mark.parametrize("gates", GATE_SETS, ids=gate_names)
def test_an_empty_key_means_all_keys_and_wants_exists(gates: Gates) -> None:
    assert refused(Toleration("", "Exists"), gates=gates) == []
    assert refused(Toleration("", "Equal"), gates=gates) == [f'[0].operator: Invalid value: "Equal": {WANTS_EXISTS}']
    assert refused(Toleration(), gates=gates) == [f'[0].operator: Invalid value: "": {WANTS_EXISTS}']


LEGACY: list[tuple[Toleration, list[str]]] = [
    (Toleration("a b", "Exists"), [f'[0].key: Invalid value: "a b": {BAD_KEY}']),
    (Toleration("a", "Equal", "x/y"), [f'[0].operator: Invalid value: "x/y": {BAD_VALUE}']),
    (Toleration("a", "", "x" * 64), [f'[0].operator: Invalid value: "{"x" * 64}": must be no more than 63 bytes']),
    (
        Toleration("a", "Exists", "x"),
        ["[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'"],
    ),
    (Toleration("a", "Exists", "", "Never"), [f'[0].effect: Unsupported value: "Never": {NODE_EFFECTS}']),
    (Toleration("a", "Exists", "", "NoExecute", -5), []),
    (
        Toleration("a", "Exists", "", "NoSchedule", 30),
        ["[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
    ),
    (
        Toleration("a", "Exists", "", "", 0),
        ["[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
    ),
]


@pytest.mark.parametrize(("toleration", "errors"), LEGACY, ids=str)
def test_the_checks_that_kubernetes_always_made_are_made(toleration: Toleration, errors: list[str]) -> None:
    assert refused(toleration) == errors
    assert refused(toleration, gates=NONE_ON) == errors


def test_all_errors_of_all_tolerations_are_reported_at_once_and_in_order() -> None:
    assert refused(
        Toleration("a b", "Gt", "0950", "Never", 30),
        Toleration("fine", "Exists"),
        Toleration("", "SemverGt", "latest"),
        Toleration("k", expression=known.BROKEN),
    ) == [
        f'[0].key: Invalid value: "a b": {BAD_KEY}',
        "[0].effect: Invalid value: \"Never\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        f'[0].value: Invalid value: "0950": {NOT_CANONICAL}',
        f'[0].effect: Unsupported value: "Never": {NODE_EFFECTS}',
        f'[2].operator: Invalid value: "SemverGt": {WANTS_EXISTS}',
        '[2].value: Invalid value: "latest": Invalid character(s) found in major number "latest"',
        f"[3].key: {ALONE}",
        f'[3].expression: Invalid value: "foo.bar": compilation failed: {known.PROBLEM}',
    ]


@given(st.lists(operands.tolerations, max_size=3), operands.gate_sets, st.lists(operands.taints, max_size=3))
def test_what_admission_lets_in_never_fails_to_parse_when_it_is_matched(
    tolerations: list[Toleration], gates: Gates, taints: list[Taint]
) -> None:
    admitted = [toleration for toleration in tolerations if not refused(toleration, gates=gates)]
    asked = Tolerations(admitted, gates)
    for taint in taints:
        assert not any(verdict.log.startswith("failed to parse toleration") for verdict in asked.verdicts(taint))


any_toleration = st.builds(
    Toleration,
    *(st.text(max_size=5) | st.sampled_from(("", "Exists", "Gt", "*", "NoExecute", known.ALWAYS)) for _ in range(4)),
    toleration_seconds=st.none() | st.integers(-1, 1),
    expression=st.text(max_size=3),
)


@given(any_toleration, operands.gate_sets)
def test_any_toleration_is_judged_field_by_field(toleration: Toleration, gates: Gates) -> None:
    names = {"key", "operator", "value", "effect", "tolerationSeconds", "expression"}
    for error in toleration_errors("t", [toleration], gates, ExpressionBudget("spec")):
        assert error.field.removeprefix("t[0].") in names
        assert error.detail
        assert str(error).startswith(f"{error.field}: ")


def tainted(*taints: Taint) -> list[str]:
    return [str(error) for error in taint_errors("spec.taints", taints)]


@pytest.mark.parametrize("value", ["high", "95.5", "0950", "containerd.2", "v1.2.x", ""])
def test_a_taint_need_not_be_a_number_or_a_version(value: str) -> None:
    assert tainted(Taint("sla", value, "NoSchedule")) == []
    assert [*device_taint_errors("spec.taint", Taint("sla", value, "NoSchedule"))] == []


TAINTS: list[tuple[Taint, list[str]]] = [
    (Taint("a", "", "PreferNoSchedule"), []),
    (Taint("a", "", ""), ["spec.taints[0].effect: Required value"]),
    (Taint("a", "", "None"), [f'spec.taints[0].effect: Unsupported value: "None": {NODE_EFFECTS}']),
    (Taint("*", "", "NoSchedule"), [f'spec.taints[0].key: Invalid value: "*": {BAD_KEY}']),
    (Taint("a", "x/y", "NoSchedule"), [f'spec.taints[0].value: Invalid value: "x/y": {BAD_VALUE}']),
    (
        Taint("a", "/" * 64, "NoSchedule"),
        [f'spec.taints[0].value: Invalid value: "{"/" * 64}": must be no more than 63 bytes;{BAD_VALUE}'],
    ),
    (
        Taint("", "x/y", "never"),
        [
            *(f'spec.taints[0].key: Invalid value: "": {detail}' for detail in label_key_errors("")),
            f'spec.taints[0].value: Invalid value: "x/y": {BAD_VALUE}',
            f'spec.taints[0].effect: Unsupported value: "never": {NODE_EFFECTS}',
        ],
    ),
]


@pytest.mark.parametrize(("taint", "errors"), TAINTS, ids=str)
def test_a_node_taint_is_refused_in_kubernetes_words(taint: Taint, errors: list[str]) -> None:
    assert tainted(taint) == errors


def test_node_taints_are_unique_by_key_and_effect() -> None:
    one, same, other = Taint("a", "1", "NoSchedule"), Taint("a", "2", "NoSchedule"), Taint("a", "1", "NoExecute")
    assert tainted(one, other, Taint("b", "1", "NoSchedule")) == []
    assert tainted(one, other, same) == [
        'spec.taints[2]: Duplicate value: {"key":"a","value":"2","effect":"NoSchedule"}: '
        "taints must be unique by key and effect pair"
    ]


DEVICE_TOLERATIONS: list[tuple[Toleration, list[str]]] = [
    (Toleration("a", "", "b"), []),
    (Toleration("a", "Exists", "", "None", 30), []),
    (Toleration("a", "Exists", "", "NoSchedule", 30), []),
    (Toleration("a", "Exists", "x"), ['[0].value: Invalid value: "x": must be empty for operator `Exists`']),
    (Toleration("a", "Equal", "x/y"), [f'[0].value: Invalid value: "x/y": {BAD_VALUE}']),
    (
        Toleration("a", "Exists", "", "PreferNoSchedule"),
        [f'[0].effect: Unsupported value: "PreferNoSchedule": {DEVICE_EFFECTS}'],
    ),
]


@pytest.mark.parametrize(("toleration", "errors"), DEVICE_TOLERATIONS, ids=str)
def test_a_device_toleration_is_refused_in_kubernetes_words(toleration: Toleration, errors: list[str]) -> None:
    assert device_refused(toleration) == errors


def test_a_device_request_has_at_most_sixteen_tolerations() -> None:
    assert device_refused(*[Toleration("a", "Exists")] * 16) == []
    assert device_refused(*[Toleration("a", "Exists")] * 17) == [": Too many: 17: must have at most 16 items"]


DEVICE_TAINTS: list[tuple[Taint, list[str]]] = [
    (Taint("a", "8", "NoExecute"), []),
    (Taint("a", "", "None"), []),
    (Taint("a", "", ""), ["t[0].effect: Required value"]),
    (Taint("a", "", "PreferNoSchedule"), [f't[0].effect: Unsupported value: "PreferNoSchedule": {DEVICE_EFFECTS}']),
    (Taint("a b", "", "NoExecute"), [f't[0].key: Invalid value: "a b": {BAD_KEY}']),
    (Taint("a", "x/y", "NoExecute"), [f't[0].value: Invalid value: "x/y": {BAD_VALUE}']),
]


@pytest.mark.parametrize(("taint", "errors"), DEVICE_TAINTS, ids=str)
def test_a_device_taint_is_refused_in_kubernetes_words(taint: Taint, errors: list[str]) -> None:
    assert [str(error) for error in device_taint_list_errors("t", (taint,))] == errors
    assert [str(error) for error in device_taint_errors("t[0]", taint)] == errors


def test_a_device_has_at_most_sixteen_taints() -> None:
    taint = Taint("a", "", "NoExecute")
    assert [*device_taint_list_errors("t", (taint,) * 16)] == []
    assert [str(error) for error in device_taint_list_errors("t", (taint,) * 17)] == [
        "t: Too many: 17: must have at most 16 items"
    ]
