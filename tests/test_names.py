from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moorage.names import (
    canonical_int64,
    canonical_int64_errors,
    label_key_errors,
    label_value_errors,
    lenient_int64,
    subdomain_errors,
)

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

NAME_HINT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
BAD_NAME, EMPTY_NAME = f"name part {NAME_HINT}", "name part must be non-empty"
LONG_NAME = "name part must be no more than 63 bytes"
THREE_PARTS = f"a valid label key {NAME_HINT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
BAD_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
PLAIN_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

KEYS: list[tuple[str, list[str]]] = [
    ("sla", []),
    ("A-b_c.d", []),
    ("0", []),
    ("node.kubernetes.io/unschedulable", []),
    ("x" * 63, []),
    ("a" * 253 + "/" + "x" * 63, []),
    ("", [EMPTY_NAME, BAD_NAME]),
    ("-bad", [BAD_NAME]),
    ("bad-", [BAD_NAME]),
    ("a b", [BAD_NAME]),
    ("sla\n", [BAD_NAME]),
    ("ex*ample", [BAD_NAME]),
    ("grün", [BAD_NAME]),
    ("x" * 64, [LONG_NAME]),
    ("ü" * 32, [LONG_NAME, BAD_NAME]),
    ("bad/", [EMPTY_NAME, BAD_NAME]),
    ("/bad", ["prefix part must be non-empty"]),
    ("/", ["prefix part must be non-empty", EMPTY_NAME, BAD_NAME]),
    ("Example.com/a", [f"prefix part {BAD_SUBDOMAIN}"]),
    ("a..b/c", [f"prefix part {BAD_SUBDOMAIN}"]),
    ("a" * 254 + "/x", ["prefix part must be no more than 253 bytes"]),
    ("-/-", [f"prefix part {BAD_SUBDOMAIN}", BAD_NAME]),
    ("a/b/c", [THREE_PARTS]),
    ("//", [THREE_PARTS]),
]


@pytest.mark.parametrize(("key", "errors"), KEYS, ids=[key[:20] or "empty" for key, _ in KEYS])
def test_a_label_key_is_refused_in_kubernetes_words(key: str, errors: list[str]) -> None:
    assert label_key_errors(key) == errors


VALUES: list[tuple[str, list[str]]] = [
    ("", []),
    ("950", []),
    ("A.b_c-d", []),
    ("x" * 63, []),
    ("x" * 64, ["must be no more than 63 bytes"]),
    ("-x", [BAD_VALUE]),
    ("x.", [BAD_VALUE]),
    ("a b", [BAD_VALUE]),
    ("x\n", [BAD_VALUE]),
    ("x/y", [BAD_VALUE]),
    ("1.2.3+build", [BAD_VALUE]),
    ("٣", [BAD_VALUE]),
    ("\ud800", [BAD_VALUE]),
    ("é" * 32, ["must be no more than 63 bytes", BAD_VALUE]),
]


@pytest.mark.parametrize(("value", "errors"), VALUES, ids=[ascii(value)[:20] or "empty" for value, _ in VALUES])
def test_a_label_value_is_refused_in_kubernetes_words(value: str, errors: list[str]) -> None:
    assert list(label_value_errors(value)) == errors


SUBDOMAINS: list[tuple[str, list[str]]] = [
    ("n1", []),
    ("ip-10-0-0-1.eu-west-1.compute.internal", []),
    ("a--b.0", []),
    ("a" * 253, []),
    ("", [BAD_SUBDOMAIN]),
    (".a", [BAD_SUBDOMAIN]),
    ("a.", [BAD_SUBDOMAIN]),
    ("a-.b", [BAD_SUBDOMAIN]),
    ("A", [BAD_SUBDOMAIN]),
    ("a_b", [BAD_SUBDOMAIN]),
    ("a\n", [BAD_SUBDOMAIN]),
    ("a" * 254, ["must be no more than 253 bytes"]),
    ("-" * 254, ["must be no more than 253 bytes", BAD_SUBDOMAIN]),
]


@pytest.mark.parametrize(("name", "errors"), SUBDOMAINS, ids=[name[:20] or "empty" for name, _ in SUBDOMAINS])
def test_a_name_is_refused_in_kubernetes_words(name: str, errors: list[str]) -> None:
    assert subdomain_errors(name) == errors


@given(st.text(st.sampled_from("az09-.A_\n"), max_size=9))
def test_a_name_is_valid_exactly_when_the_published_expression_says_so(name: str) -> None:
    assert (not subdomain_errors(name)) == bool(PLAIN_SUBDOMAIN.fullmatch(name))


@given(st.text(st.sampled_from("aZ0-_./ *"), max_size=9))
def test_a_key_is_valid_exactly_when_its_prefix_and_name_are(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    valid = bool(name) and name[0].isalnum() and name[-1].isalnum() and all(c.isalnum() or c in "-_." for c in name)
    if slash:
        valid = valid and bool(PLAIN_SUBDOMAIN.fullmatch(prefix))
    assert (not label_key_errors(key)) == valid


@pytest.mark.parametrize("name", ["a-" * 50_000, "a." * 50_000, "-" * 100_000, "a" * 100_000 + "_"])
def test_a_hostile_name_is_refused_without_trying_every_way_to_split_it(name: str) -> None:
    assert subdomain_errors(name) == ["must be no more than 253 bytes", BAD_SUBDOMAIN]
    assert label_key_errors(f"{name}/x")
    assert label_value_errors(name)


NOT_CANONICAL = "must be a valid decimal integer in canonical form"


def go_syntax(text: str) -> str:
    return f'strconv.ParseInt: parsing "{text}": invalid syntax'


def go_range(text: str) -> str:
    return f'strconv.ParseInt: parsing "{text}": value out of range'


INTEGERS: list[tuple[str, list[str]]] = [
    ("0", []),
    ("950", []),
    ("-5", []),
    (str(INT64_MAX), []),
    (str(INT64_MIN), []),
    ("", ["must be non-empty", go_syntax("")]),
    ("0950", [NOT_CANONICAL]),
    ("+5", [NOT_CANONICAL]),
    ("-0", [NOT_CANONICAL]),
    ("00", [NOT_CANONICAL]),
    ("95.5", [NOT_CANONICAL, go_syntax("95.5")]),
    ("1_000", [NOT_CANONICAL, go_syntax("1_000")]),
    ("1e3", [NOT_CANONICAL, go_syntax("1e3")]),
    ("0x10", [NOT_CANONICAL, go_syntax("0x10")]),
    (" 5", [NOT_CANONICAL, go_syntax(" 5")]),
    ("5\n", [NOT_CANONICAL, go_syntax("5\\n")]),
    ("--5", [NOT_CANONICAL, go_syntax("--5")]),
    ("٣", [NOT_CANONICAL, go_syntax("٣")]),
    ("５", [NOT_CANONICAL, go_syntax("５")]),
    ("high", [NOT_CANONICAL, go_syntax("high")]),
    (str(INT64_MAX + 1), [go_range(str(INT64_MAX + 1))]),
    (str(INT64_MIN - 1), [go_range(str(INT64_MIN - 1))]),
    ("9" * 5000, [go_range("9" * 5000)]),
    ("0" * 5000 + "5", [NOT_CANONICAL]),
]


@pytest.mark.parametrize(("text", "errors"), INTEGERS, ids=[ascii(text)[:20] for text, _ in INTEGERS])
def test_a_threshold_is_refused_in_kubernetes_words(text: str, errors: list[str]) -> None:
    assert canonical_int64_errors(text) == errors
    assert (canonical_int64(text) is not None) == (not errors)


@given(st.integers(INT64_MIN, INT64_MAX))
@example(INT64_MIN)
@example(INT64_MAX)
def test_every_int64_reads_back(number: int) -> None:
    assert canonical_int64(str(number)) == lenient_int64(str(number)) == number


@given(st.integers(INT64_MAX + 1) | st.integers(max_value=INT64_MIN - 1))
def test_nothing_outside_of_int64_is_a_number(number: int) -> None:
    assert canonical_int64(str(number)) is None
    assert lenient_int64(str(number)) is None


digits_and_lookalikes = st.text(st.sampled_from("0159+-_ .e\n\u0663\uff15"), max_size=5)


@given(digits_and_lookalikes | st.text())
def test_only_the_way_a_number_prints_is_canonical(text: str) -> None:
    try:
        is_how_it_prints = str(int(text)) == text
    except ValueError:
        is_how_it_prints = False
    assert (canonical_int64(text) is not None) == is_how_it_prints


@given(digits_and_lookalikes | st.text())
def test_node_affinity_reads_a_sign_and_leading_zeros_and_nothing_else(text: str) -> None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits and set(digits) <= set("0123456789"):
        number = int(text)
        assert lenient_int64(text) == (number if -(2**63) <= number < 2**63 else None)
    else:
        assert lenient_int64(text) is None


def test_node_affinity_reads_any_number_of_leading_zeros() -> None:
    assert lenient_int64("0" * 5000 + "5") == 5
    assert lenient_int64("-" + "0" * 5000 + str(INT64_MAX)) == -INT64_MAX
