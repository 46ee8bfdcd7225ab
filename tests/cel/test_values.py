from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel import types
from moorage.cel.errors import EvalError
from moorage.cel.values import (
    NONE,
    Duration,
    Optional,
    Timestamp,
    UInt,
    compare,
    double_text,
    equal,
    from_key,
    is_zero,
    string_of_double,
    to_key,
    type_of_value,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        (1, UInt(1), True),
        (1, 1.0, True),
        (2**63 - 1, float(2**63), True),
        (True, 1, False),
        (False, 0.0, False),
        ([True], [1], False),
        ([1, 2.0], (UInt(1), 2), True),
        ({"a": [1]}, {"a": [1.0]}, True),
        ({"a": 1}, {"b": 1}, False),
        (NAN, NAN, False),
        ([NAN], [NAN], False),
        (None, None, True),
        (None, 0, False),
        ("1", 1, False),
        (b"a", "a", False),
        (Optional(1), Optional(1.0), True),
        (Optional(None), NONE, False),
        (types.list_of(types.INT), types.list_of(types.STRING), True),
        (Duration(1), Timestamp(1), False),
        (to_key(True), to_key(True), True),
    ],
)
def test_equality_crosses_number_types_and_nothing_else(a: Any, b: Any, want: bool) -> None:
    assert equal(a, b) is want
    assert equal(b, a) is want


@pytest.mark.parametrize("pair", [(1, "a"), (None, None), ([1], [2]), (True, 1), (1.0, NAN), (Duration(1), 1)])
def test_what_has_no_order_is_an_error(pair: tuple[Any, Any]) -> None:
    with pytest.raises(EvalError):
        compare(*pair)


@given(st.lists(st.integers(-3, 3) | st.booleans() | st.sampled_from(["", "a"]), max_size=6))
def test_true_and_one_are_different_keys(keys: list[int | bool | str]) -> None:
    held = {to_key(key): key for key in keys}
    assert len(held) == len({(isinstance(key, bool), key) for key in keys})
    assert all(from_key(key) is value or from_key(key) == value for key, value in held.items())


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1h30m", 5400 * 10**9),
        ("-1.5s", -15 * 10**8),
        ("+3us", 3000),
        ("1µs2ns", 1002),
        (".5m", 30 * 10**9),
        ("1.", None),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("9223372036854775808ns", None),
        ("106751991167d", None),
        ("1 s", None),
        ("s", None),
        ("", None),
        ("9" * 5000 + "s", None),
        ("1s" * 50_000 + "!", None),
        ("9" * 100_000 + "!", None),
        ("a" * 100_000 + "!", None),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, nanos: int | None) -> None:
    if nanos is None:
        with pytest.raises(EvalError, match="type conversion error from 'string' to 'google"):
            Duration.parse(text)
    else:
        assert Duration.parse(text).nanos == nanos


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2009-02-13T23:31:30Z", "2009-02-13T23:31:30Z"),
        ("2009-02-13T23:31:30.1234567891Z", "2009-02-13T23:31:30.123456789Z"),
        ("2009-02-13T23:31:30+02:30", "2009-02-13T21:01:30Z"),
        ("2024-02-29T00:00:00-01:00", "2024-02-29T01:00:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
        ("9999-12-31T23:59:59-00:01", None),
        ("2023-02-29T00:00:00Z", None),
        ("2009-02-13 23:31:30Z", None),
        ("2009-02-13T24:00:00Z", None),
        ("2009-02-13T23:31:30", None),
        ("0000-01-01T00:00:00Z", None),
        ("٢٠٠٩-02-13T23:31:30Z", None),
    ],
)
def test_timestamps_are_read_to_the_nanosecond(text: str, want: str | None) -> None:
    if want is None:
        with pytest.raises(EvalError):
            Timestamp.parse(text)
    else:
        assert str(Timestamp.parse(text)) == want


@given(st.integers(-62135596800 * 10**9, 253402300800 * 10**9 - 1))
def test_a_timestamp_survives_being_written(nanos: int) -> None:
    assert Timestamp.parse(str(Timestamp(nanos))) == Timestamp(nanos)


@given(st.integers(-(10**15), 10**15))
def test_a_duration_survives_being_written_but_for_a_nanosecond(nanos: int) -> None:
    read = Duration.parse(str(Duration(nanos))).nanos
    assert abs(nanos) - 1 <= abs(read) <= abs(nanos)


@pytest.mark.parametrize(
    ("nanos", "text", "read"),
    [
        (1_500_000_000, "1.5s", 1_500_000_000),
        (1, "0.000000001s", 1),
        (1_064_945_119, "1.0649451189999999s", 1_064_945_118),
        (-1_177_130_970, "-1.1771309699999999s", -1_177_130_969),
        (187_940_498_753, "187.94049875299999s", 187_940_498_752),
        (8_388_613_560_151_697, "8388613.560151696s", 8_388_613_560_151_696),
    ],
)
def test_a_duration_is_written_as_a_double_and_read_as_go_reads_it(nanos: int, text: str, read: int) -> None:
    assert str(Duration(nanos)) == text
    assert Duration.parse(text) == Duration(read)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_survives_being_written(value: float) -> None:
    assert float(double_text(value)) == value
    assert float(string_of_double(value)) == value
    assert "e" not in double_text(value)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (0.0, "0"), (-0.0, "-0"), (123.456, "123.456"), (999999.5, "999999.5"), (1e5, "100000"), (1e6, "1e+06"),
        (1234567.0, "1.234567e+06"), (2.0**62, "4.611686018427388e+18"), (1e-4, "0.0001"), (1.5e-5, "1.5e-05"),
        (-4.5e-3, "-0.0045"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (NAN, "NaN"),
    ],
)  # fmt: skip
def test_doubles_print_as_go_prints_them(value: float, want: str) -> None:
    assert string_of_double(value) == want


def test_zero_values() -> None:
    first = Timestamp.parse("0001-01-01T00:00:00Z")
    zeros: tuple[Any, ...] = (None, False, 0, UInt(0), 0.0, "", b"", [], {}, NONE, Duration(0), first)
    assert all(map(is_zero, zeros))
    assert not any(map(is_zero, (True, 1, "a", [0], {"a": 0}, Optional(0), Timestamp(0), types.INT)))


def test_types_of_values() -> None:
    assert type_of_value(True) is types.BOOL
    assert type_of_value(1) is types.INT
    assert type_of_value(UInt(1)) is types.UINT
    assert type_of_value(types.INT) is types.TYPE
    assert type_of_value(object()) is types.DYN
