"""Recipes: which values are copied, and when a write cannot be learnt from."""

from __future__ import annotations

import pytest

from moorage.apiserver.base.recipes import (
    CopiedFields,
    Recipes,
    ValueCheck,
    arrangement,
    is_address,
    is_container_id,
    is_hex,
    is_host,
    is_label,
    is_name,
    is_prefix,
    is_time,
    is_uid,
    recipe_of,
)

FIELDS = CopiedFields({"at": is_time, "ip": is_address, "id": is_container_id, "name": is_name, "uid": is_uid})


@pytest.mark.parametrize(
    "field",
    [
        b'"at":"2026-02-30T00:00:00Z"',
        b'"at":"2026-01-01T00:00:00+00:00"',
        b'"ip":"10.0.0.256"',
        b'"ip":"010.0.0.1"',
        b'"ip":"fd00::1"',
        b'"id":"f:phase"',
        b'"name":"Web"',
        b'"name":"a..b"',
        b'"name":"%b"' % (b"a" * 254),
        b'"uid":"f:message"',
    ],
)
def test_a_value_that_is_not_valid_is_not_copied(field: bytes) -> None:
    assert FIELDS.split(b"{%b}" % field) is None


@pytest.mark.parametrize(
    "field", [b'"ip":""', b'"ip":"\\u0031"', b'"ip":1', b'"other":"10.0.0.1"', b'"ip":"10.0.0.1\\n"']
)
def test_what_is_not_a_plain_text_of_a_copied_field_stays_where_it_is(field: bytes) -> None:
    assert FIELDS.split(b"{%b}" % field) == ((b"{%b}" % field,), [], [])


def test_a_recipe_puts_each_value_where_it_was() -> None:
    recipe = recipe_of(b'{"b":"y","a":"x","k:{\\"c\\":\\"x\\"}":{}}', (b'{"c":{}}',), [b"x", b"y"])
    assert recipe is not None
    assert recipe.text([b"1", b"2"]) == b'{"b":"2","a":"1","k:{\\"c\\":\\"1\\"}":{}}'


@pytest.mark.parametrize("rest", [b'{"message":"x"}', b'{"k:{\\"ip\\":\\"x\\"}":{}}'])
def test_a_write_is_not_learnt_from_when_one_of_its_values_is_also_elsewhere_in_it(rest: bytes) -> None:
    assert recipe_of(b'{"a":"x","message":"x"}', (rest,), [b"x"]) is None


def test_writes_are_alike_when_the_same_values_are_equal_and_their_order_is_the_same() -> None:
    assert arrangement([b"1", b"2", b"1"], [b"1", b"2"]) == arrangement([b"5", b"7", b"5"], [b"5", b"7"])
    assert arrangement([b"1", b"2", b"1"], []) != arrangement([b"1", b"2", b"2"], [])
    assert arrangement([b"1", b"2"], [b"1", b"2"]) != arrangement([b"2", b"1"], [b"2", b"1"])


def test_the_second_write_of_a_sort_is_learnt_from_and_few_are_remembered() -> None:
    recipes = Recipes()
    for _ in range(2):
        assert recipes.get("sort") is None
        recipes.learn("sort", (b'{"a":"x"}',), (b"{}",), [b"x"])
    found = recipes.get("sort")
    assert found is not None
    assert found[0].text([b"y"]) == b'{"a":"y"}'
    for number in range(5000):
        recipes.learn(number, (), (), [b"x"])
    assert len(recipes) < 2000


def test_a_write_of_very_many_values_is_not_learnt_from() -> None:
    recipes = Recipes()
    for _ in range(2):
        recipes.learn("sort", (b'{"a":"x"}',), (b"{}",), [b"x"] * 1000)
    assert recipes.get("sort") is None


@pytest.mark.parametrize("check", [is_address, is_container_id, is_hex, is_host, is_label, is_name, is_prefix, is_uid])
def test_no_value_takes_longer_than_it_is_long(check: ValueCheck) -> None:
    # With the square of its length this would take an hour.
    for digit in (b"1", b"a", b"1.", b"-"):
        assert not check(digit * 1_000_000 + b"!")
