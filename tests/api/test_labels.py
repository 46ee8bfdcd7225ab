from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api import labels
from moorage.api.labels import Requirement, SelectorError
from moorage.api.meta import Data, LabelSelector, LabelSelectorRequirement

WEB = {"app": "web", "tier": "front", "replicas": "5", "in": "x"}

MATCHES: list[tuple[str, bool]] = [
    ("", True), ("  ", True), ("app=web", True), ("app==web", True), ("app = web", True), ("app=log", False),
    ("x=", False), ("x!=", True),
    ("app!=web", False), ("app!=log", True), ("x!=y", True), ("app", True), ("x", False), ("!app", False), ("!x", True),
    ("app in (web,log)", True), ("app in (log)", False), ("x in (y)", False), ("x in ()", False),
    ("app in (,web)", True),
    ("app notin (web)", False), ("app notin (log)", True), ("x notin (y)", True), ("app=web,tier=front", True),
    ("app=web,tier=back", False), ("app=web, tier , !x,replicas>4", True), ("replicas>5", False), ("replicas<6", True),
    ("replicas<5", False), ("x>0", False), ("app>0", False), ("in in (x,in)", True), ("in", True), ("notin", False),
    ("tier=in", False), ("app\n=\tweb", True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "want"), MATCHES)
def test_matches(text: str, want: bool) -> None:
    assert labels.parse(text).matches(WEB) is want


NAME_HINT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_HINT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
REQUIREMENT = "unable to parse requirement: "

ERRORS: list[tuple[str, str]] = [
    (",", "found ',', expected: !, identifier, or 'end of string'"),
    ("=a", "found '=', expected: !, identifier, or 'end of string'"),
    ("a,", "found '', expected: identifier after ','"),
    ("a,,b", "found ',', expected: identifier after ','"),
    ("a=b=c", "found '=', expected: ',' or 'end of string'"),
    ("!a=b", "found '=', expected: ',' or 'end of string'"),
    ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    ("!", REQUIREMENT + "found '', expected: identifier"),
    ("!!a", REQUIREMENT + "found '!', expected: identifier"),
    ("a b", REQUIREMENT + "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ("a(b)", REQUIREMENT + "found '(', expected: in, notin, =, ==, !=, gt, lt"),
    ("a=(b)", REQUIREMENT + "found '(', expected: identifier"),
    ("a in b", REQUIREMENT + "found 'b' expected: '('"),
    ("a in (", REQUIREMENT + "found '', expected: ',', ')' or identifier"),
    ("a in (=", REQUIREMENT + "found '=', expected: ',', ')' or identifier"),
    ("a in (b", REQUIREMENT + "found '', expected: ',' or ')'"),
    ("a in (b c)", REQUIREMENT + "found 'c', expected: ',' or ')'"),
    ("a in (b,", REQUIREMENT + "found '', expected: ',', or identifier"),
    ("a>b", REQUIREMENT + "values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"),
    ("a>", REQUIREMENT + "values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators, the value must be an integer"),
    ("a>-1", REQUIREMENT + f'values[0][a]: Invalid value: "-1": {VALUE_HINT}'),
    ("-a", REQUIREMENT + f'<nil>: Invalid value: "-a": {NAME_HINT}'),
    ("a/b/c=d", REQUIREMENT + '<nil>: Invalid value: "a/b/c": a valid label key '
     f"{NAME_HINT.removeprefix('name part ')} with an optional DNS subdomain prefix and '/' "
     "(e.g. 'example.com/MyName')"),
    ("a=-b", REQUIREMENT + f'values[0][a]: Invalid value: "-b": {VALUE_HINT}'),
    ("a in (-b,c/d)", REQUIREMENT + f'[values[0][a]: Invalid value: "-b": {VALUE_HINT}, '
     f'values[1][a]: Invalid value: "c/d": {VALUE_HINT}]'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        labels.parse(text)
    assert str(caught.value) == message


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(LabelSelectorRequirement(key, operator, values),))


STRUCTS: list[tuple[LabelSelector | None, str, bool]] = [
    (None, "", False),
    (LabelSelector(), "", True),
    (LabelSelector({"tier": "front", "app": "web"}), "app=web,tier=front", True),
    (LabelSelector({"app": "log"}), "app=log", False),
    (expression("app", "In", "web", "log"), "app in (log,web)", True),
    (expression("app", "NotIn", "web"), "app notin (web)", False),
    (expression("app", "Exists"), "app", True),
    (expression("app", "DoesNotExist"), "!app", False),
]


@pytest.mark.parametrize(("struct", "text", "want"), STRUCTS)
def test_selectors_of_objects(struct: LabelSelector | None, text: str, want: bool) -> None:
    selector = labels.from_struct(struct)
    assert selector.matches(WEB) is want
    assert str(selector) == text


STRUCT_ERRORS = [
    (expression("a", "Gt", "1"), '"Gt" is not a valid label selector operator'),
    (expression("a", "In"), "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
    (expression("a", "Exists", "b"),
     'values: Invalid value: ["b"]: values set must be empty for exists and does not exist'),
    (LabelSelector({"-a": "b"}), f'key: Invalid value: "-a": {NAME_HINT}'),
]  # fmt: skip


@pytest.mark.parametrize(("struct", "message"), STRUCT_ERRORS)
def test_errors_of_objects(struct: LabelSelector, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        labels.from_struct(struct)
    assert str(caught.value) == message


def test_many_requirements() -> None:
    selector = labels.parse("c!=2,a=1,b in (1,2)")
    assert selector.requirements == (
        Requirement("a", "=", ("1",)), Requirement("b", "in", ("1", "2")), Requirement("c", "!=", ("2",)),
    )  # fmt: skip
    assert selector.matches({"a": "1", "b": "2"})
    assert not selector.matches({"a": "1", "b": "2", "c": "2"})


keys, values = st.sampled_from(("a", "b", "in", "x.io/c")), st.sampled_from(("", "1", "2", "10", "v", "notin"))
value_sets = st.sets(values, min_size=1).map(lambda each: tuple(sorted(each)))
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(("=", "==", "!=")), st.tuples(values)),
    st.builds(Requirement, keys, st.sampled_from(("in", "notin")), value_sets),
    st.builds(Requirement, keys, st.sampled_from((">", "<")), st.tuples(st.integers(0, 20).map(str))),
    st.builds(Requirement, keys, st.sampled_from(("exists", "!")), st.just(())),
)  # fmt: skip


def naive(requirement: Requirement, own: dict[str, str]) -> bool:
    key, operator, values = requirement
    if key not in own:
        return operator in ("!=", "notin", "!")
    value = own[key]
    if operator in (">", "<"):
        if not value.isdigit():
            return False
        return int(value) > int(values[0]) if operator == ">" else int(value) < int(values[0])
    return {"=": value in values, "==": value in values, "in": value in values, "!=": value not in values,
            "notin": value not in values, "exists": True, "!": False}[operator]  # fmt: skip


@given(st.lists(requirements, max_size=4), st.dictionaries(keys, values))
def test_a_selector_means_what_its_requirements_say(conditions: list[Requirement], own: dict[str, str]) -> None:
    selector = labels.parse(",".join(map(str, conditions)))
    assert selector.requirements == tuple(sorted(conditions, key=lambda condition: condition.key))
    assert selector.matches(own) == all(naive(condition, own) for condition in conditions)
    assert labels.parse(str(selector)).requirements == selector.requirements


expressions = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, "values": values if "In" in operator else []},
    keys, st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")), st.lists(values, min_size=1),
)  # fmt: skip


@given(st.dictionaries(keys, values), st.lists(expressions, max_size=3), st.dictionaries(keys, values))
def test_a_selector_of_json_means_the_same_as_one_of_a_struct(
    match_labels: dict[str, str], match_expressions: list[Data], own: dict[str, str]
) -> None:
    data = {"matchLabels": match_labels, "matchExpressions": match_expressions}
    struct = msgspec.convert(data, LabelSelector)
    assert labels.selects(data, own) == labels.picks(struct, own) == labels.from_struct(struct).matches(own)
    assert labels.selector_of(struct).requirements == labels.from_struct(struct).requirements


def test_equal_selectors_are_compiled_once() -> None:
    first, second = LabelSelector({"a": "1"}), LabelSelector({"a": "1"})
    assert labels.selector_of(first) is labels.selector_of(second)
    assert labels.selector_of(None) is labels.NOTHING


@given(st.text(st.sampled_from("ab=!(),<> \tin-/\x00é"), max_size=12) | st.text(max_size=8))
def test_any_text_is_a_selector_or_an_error(text: Any) -> None:
    with suppress(SelectorError):
        assert labels.parse(text).matches({}) in (True, False)


KEYS, VALUES = st.sampled_from("abc"), st.sampled_from(("x", "y", "5", ""))
ONE_VALUE, SOME_VALUES = st.tuples(VALUES), st.lists(VALUES, min_size=1, max_size=3, unique=True).map(tuple)
REQUIREMENTS = st.lists(
    st.builds(Requirement, KEYS, st.sampled_from(("=", "==", "!=")), ONE_VALUE)
    | st.builds(Requirement, KEYS, st.sampled_from(("in", "notin")), SOME_VALUES)
    | st.builds(Requirement, KEYS, st.sampled_from(("exists", "!")))
    | st.builds(Requirement, KEYS, st.sampled_from((">", "<")), st.just(("4",))),
    max_size=6,
)


@given(REQUIREMENTS, st.dictionaries(KEYS, VALUES))
def test_many_requirements_mean_what_each_of_them_means(requirements: list[Requirement], held: dict[str, str]) -> None:
    absent = [Requirement(f"absent-{number}", "!") for number in range(20)]
    each = [labels.LabelMatcher([requirement]).matches(held) for requirement in requirements]
    assert labels.LabelMatcher([*requirements, *absent]).matches(held) is all(each)


class CountingLabels(dict[str, str]):
    """Counts how often it is asked for a label."""

    asked = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.asked += 1
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked += 1
        return super().__contains__(key)


def test_of_many_requirements_only_those_about_its_labels_are_compared_with_an_object() -> None:
    absent = tuple(LabelSelectorRequirement(f"k-{number}", "DoesNotExist") for number in range(10_000))
    matcher = labels.selector_of(LabelSelector(match_expressions=absent))
    held = CountingLabels(app="web", tier="front")
    assert matcher.matches(held)
    assert held.asked < 10
    assert not matcher.matches({"app": "web", "k-9999": ""})


def test_a_large_selector_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[LabelSelector] = []
    compile_ = labels.from_struct

    def counting(selector: LabelSelector | None, *, trusted: bool) -> labels.LabelMatcher:
        assert selector is not None
        compiled.append(selector)
        return compile_(selector, trusted=trusted)

    monkeypatch.setattr(labels, "from_struct", counting)
    absent = tuple(LabelSelectorRequirement(f"once-{number}", "DoesNotExist") for number in range(1_000))
    selector = LabelSelector(match_expressions=absent)
    assert labels.selector_of(selector) is labels.selector_of(selector)
    assert len(compiled) == 1
