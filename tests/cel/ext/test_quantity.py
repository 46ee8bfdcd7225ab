from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel.ext.quantity import LIBRARY
from moorage.cel.library import Cost
from moorage.cel.values import equal, type_of_value
from moorage.quantity import Quantity
from tests.cel.libraries import call, error, estimate, up_to

quantities = st.builds(
    lambda number, suffix: Quantity.parse(f"{number}{suffix}"),
    st.integers(-10_000, 10_000),
    st.sampled_from(["", "m", "k", "M", "Gi", "Ki", "e3"]),
)


def parse(text: str) -> Any:
    return call(LIBRARY, "string_to_quantity", text)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("1.3G", True),
        ("1.3Gi", True),
        ("10000k", True),
        ("1,3G", False),
        ("200K", False),
        ("Three", False),
        ("", False),
    ],
)
def test_is_quantity(text: str, valid: bool) -> None:
    assert call(LIBRARY, "is_quantity_string", text) is valid
    if valid:
        assert type_of_value(parse(text)).name == "kubernetes.Quantity"
    else:
        assert error(LIBRARY, "string_to_quantity", text)


@pytest.mark.parametrize(
    ("a", "b", "order"), [("200M", "0.2G", 0), ("50M", "50Mi", -1), ("50Mi", "50M", 1), ("-1", "1m", -1)]
)
def test_comparison(a: str, b: str, order: int) -> None:
    left, right = parse(a), parse(b)
    assert call(LIBRARY, "quantity_compare_to", left, right) == order
    assert call(LIBRARY, "quantity_is_less_than", left, right) is (order < 0)
    assert call(LIBRARY, "quantity_is_greater_than", left, right) is (order > 0)
    assert equal(left, right) is (order == 0)


def test_conversions() -> None:
    assert call(LIBRARY, "quantity_get_int", parse("50k")) == 50000
    assert call(LIBRARY, "quantity_is_integer", parse("50k")) is True
    assert call(LIBRARY, "quantity_is_integer", parse("1.5")) is False
    assert call(LIBRARY, "quantity_get_float", parse("50.703k")) == 50703.0
    assert call(LIBRARY, "quantity_sign", parse("-50k")) == -1
    huge = parse("9999999999999999999999999999999999999G")
    assert error(LIBRARY, "quantity_get_int", huge) == "cannot convert value to integer"


def test_arithmetic_with_quantities_and_integers() -> None:
    assert call(LIBRARY, "quantity_add", parse("50k"), parse("20k")) == parse("70k")
    assert call(LIBRARY, "quantity_add_int", parse("50k"), 20) == parse("50020")
    assert call(LIBRARY, "quantity_sub", parse("50k"), parse("20k")) == parse("30k")
    assert call(LIBRARY, "quantity_sub_int", parse("50k"), 20000) == parse("30k")


@given(quantities, quantities)
def test_subtracting_what_was_added_gives_the_same_back(a: Quantity, b: Quantity) -> None:
    assert call(LIBRARY, "quantity_sub", call(LIBRARY, "quantity_add", a, b), b) == a


def test_costs() -> None:
    assert estimate(LIBRARY, "string_to_quantity", up_to(63)).cost == Cost(0, 7)
