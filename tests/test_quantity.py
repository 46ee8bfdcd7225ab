from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.quantity import Format, Quantity, QuantityError

SI, BINARY, EXPONENT = Format.DECIMAL_SI, Format.BINARY_SI, Format.DECIMAL_EXPONENT
MAX = 2**63 - 1
WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_NUMBER = "unable to parse numeric part of quantity"
WRONG_SUFFIX = "unable to parse quantity's suffix"
TOO_LONG = "quantities of more than 1000 digits are not supported"

PARSED = [
    ("0", "0", SI, "0"),
    ("00", "0", SI, "0"),
    ("0Ki", "0", BINARY, "0"),
    ("0e0", "0", EXPONENT, "0"),
    ("-0m", "0", SI, "0"),
    ("16", "16", SI, "16"),
    ("110", "110", SI, "110"),
    ("100m", "0.1", SI, "100m"),
    ("0.1", "0.1", SI, "100m"),
    ("0.100", "0.1", SI, "100m"),
    (".5", "0.5", SI, "500m"),
    ("1000m", "1", SI, "1"),
    ("1000", "1000", SI, "1k"),
    ("1200", "1200", SI, "1200"),
    ("10000", "10000", SI, "10k"),
    ("2.5P", "2500000000000000", SI, "2500T"),
    ("12E", "12000000000000000000", SI, "12E"),
    ("64Gi", str(64 * 2**30), BINARY, "64Gi"),
    ("1.5Gi", str(3 * 2**29), BINARY, "1536Mi"),
    ("2048Ki", str(2**21), BINARY, "2Mi"),
    ("1023Ki", str(1023 * 2**10), BINARY, "1023Ki"),
    ("4Pi", str(2**52), BINARY, "4Pi"),
    ("100.035Ki", "102435.84", BINARY, "102435840m"),
    ("0.5Ki", "512", BINARY, "512"),
    ("1e3", "1000", EXPONENT, "1e3"),
    ("1E3", "1000", EXPONENT, "1E3"),
    ("1e2", "100", EXPONENT, "100"),
    ("1e4", "10000", EXPONENT, "10e3"),
    ("1.3E+6", "1300000", EXPONENT, "1300e3"),
    ("0.5e-2", "0.005", EXPONENT, "5e-3"),
    ("25e21", "25" + "0" * 21, EXPONENT, "25e21"),
    ("-1.5", "-1.5", SI, "-1500m"),
    ("-2Ki", "-2048", BINARY, "-2Ki"),
    # Written so, Kubernetes prints them unchanged.
    ("+1", "1", SI, "+1"),
    ("007", "7", SI, "007"),
    ("1.", "1", SI, "1."),
    ("1.500", "1.5", SI, "1.500"),
    ("1e+3", "1000", EXPONENT, "1e+3"),
    # Finer than a billionth: up, away from zero.
    ("3.001n", "0.000000004", SI, "4n"),
    ("-3.001n", "-0.000000004", SI, "-4n"),
    ("0.00000012345", "0.000000124", SI, "124n"),
    ("1.1E-9", "0.000000002", EXPONENT, "2e-9"),
    ("1e-1000000", "0.000000001", EXPONENT, "1e-9"),
    ("0.000000000001Ki", "0.000000002", SI, "2n"),
    # Only a binary suffix is capped.
    ("9Ei", str(MAX), BINARY, str(MAX)),
    ("-9Ei", str(-MAX), BINARY, str(-MAX)),
    ("9223372036854775807Ki", str(MAX), BINARY, str(MAX)),
    ("9223372036854775808", str(MAX + 1), SI, str(MAX + 1)),
    ("1000E", "1" + "0" * 21, SI, "1000E"),
    ("1.0000000000000000001E", "1000000000000000000.1", SI, "1000000000000000000100m"),
    # Kubernetes takes a missing number for zero, unless the suffix is so large that it looks twice.
    ("+", "0", SI, "0"),
    (".", "0", SI, "0"),
    ("m", "0", SI, "0"),
    ("Mi", "0", BINARY, "0"),
    ("0e1000000", "0", EXPONENT, "0"),
]


@pytest.mark.parametrize(("text", "number", "format_", "printed"), PARSED, ids=[row[0] for row in PARSED])
def test_a_quantity_is_read_and_printed_as_kubernetes_does(
    text: str, number: str, format_: Format, printed: str
) -> None:
    quantity = Quantity.parse(text)
    assert Fraction(quantity.nano, 10**9) == Fraction(number)
    assert quantity.format is format_
    assert str(quantity) == printed
    assert Quantity.parse(printed) == quantity


REFUSED = {
    "": WRONG_FORMAT,
    " 1": WRONG_FORMAT,
    "1 ": WRONG_FORMAT,
    "1\n": WRONG_FORMAT,
    "aoeu": WRONG_FORMAT,
    "1.1.M": WRONG_FORMAT,
    "1,3G": WRONG_FORMAT,
    "1_000": WRONG_FORMAT,
    "١": WRONG_FORMAT,
    "0x10": WRONG_FORMAT,
    "--1": WRONG_SUFFIX,
    "1+1": WRONG_SUFFIX,
    "200K": WRONG_SUFFIX,
    "10Mm": WRONG_SUFFIX,
    "0.1mi": WRONG_SUFFIX,
    ".5i": WRONG_SUFFIX,
    "e": WRONG_SUFFIX,
    "1e": WRONG_SUFFIX,
    "-3.01e-": WRONG_SUFFIX,
    "1e9223372036854775808": WRONG_SUFFIX,
    "1e99999999999999999999": WRONG_SUFFIX,
    "Pi": WRONG_NUMBER,
    "e-10": WRONG_NUMBER,
    "1e1000000": TOO_LONG,
    "1e1000": TOO_LONG,
    "1" * 1001: TOO_LONG,
    "0." + "0" * 1000 + "1": TOO_LONG,
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_quantity_is_refused_in_the_words_of_kubernetes(text: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        Quantity.parse(text)
    assert str(refusal.value) == REFUSED[text]


def test_the_longest_quantity_has_a_thousand_digits() -> None:
    assert Quantity.parse("1e999") == Quantity.of(10**999)
    assert Quantity.parse("9" * 1000).value() == 10**1000 - 1


@pytest.mark.parametrize(
    "text",
    [
        "1" * 10**6 + "x",
        "1" * 10**6,
        "0" * 10**6 + "1",
        "0." + "0" * 10**6 + "1Ki",
        "1e" + "0" * 10**6 + "3",
        "1e-" + "9" * 18,
        "1e" + "9" * 18,
        "1" + "E" * 10**6,
        "+" * 10**6,
    ],
    ids=lambda text: f"{text[:5]}…{text[-3:]}",
)
def test_a_hostile_quantity_makes_no_huge_numbers(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return
    assert abs(quantity.nano) < 10**1100
    assert len(str(quantity + quantity)) < 1100
    assert quantity.value() < 10**1100
    assert quantity.as_approximate_float() <= 1000


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("64Gi", "64Gi"),
        (" 64Gi\n", "64Gi"),
        (4, "4"),
        (1000, "1k"),
        (-3, "-3"),
        (MAX + 1, str(MAX + 1)),
        (0.1, "100m"),
        (2.0, "2"),
        (1e3, "1k"),
        (1e21, "1e+21"),
        (2.5e21, "2500e18"),
        (1e-7, "100e-9"),
        (-0.0, "0"),
        (-1.25, "-1250m"),
    ],
)
def test_strings_and_numbers_of_a_manifest_are_quantities(value: str | float, printed: str) -> None:
    assert str(Quantity.of(value)) == printed


@pytest.mark.parametrize("value", [True, math.nan, math.inf, -math.inf, 10**1000, 1 << 10**6, "1\x1c"], ids=type)
def test_other_values_of_a_manifest_are_refused(value: str | float) -> None:
    with pytest.raises(QuantityError):
        Quantity.of(value)


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("0", 0, 0),
        ("1500m", 2, 1500),
        ("1n", 1, 1),
        ("-1n", -1, -1),
        ("-1500m", -2, -1500),
        ("1.5Gi", 3 * 2**29, 3 * 2**29 * 1000),
        ("1e30", 10**30, 10**33),
    ],
)
def test_whole_values_round_away_from_zero(text: str, value: int, milli: int) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.value(), quantity.milli_value()) == (value, milli)


# Kubernetes' own limits: at most 18 digits, less with a binary suffix, and no fraction, not even 000m.
@pytest.mark.parametrize(
    ("text", "integer"),
    [
        ("50", 50),
        ("50k", 50000),
        ("-1E", -(10**18)),
        ("0e1000000", 0),
        ("999999999999999999", 10**18 - 1),
        ("99999Gi", 99999 * 2**30),
        ("99Ti", 99 * 2**40),
        ("9.0k", 9000),
        ("10E", None),
        ("1e19", None),
        ("1000m", None),
        ("9.0", None),
        ("0.0000000000", None),
        ("1000000000000000000", None),
        ("100000Gi", None),
        ("100Ti", None),
        ("1Pi", None),
        ("0.5Ki", None),
    ],
)
def test_only_what_kubernetes_holds_as_int64_is_an_integer(text: str, integer: int | None) -> None:
    quantity = Quantity.parse(text)
    assert quantity.as_int64() == integer
    assert quantity.is_integer() is (integer is not None)
    if integer is not None:
        assert quantity.as_integer() == integer
    else:
        with pytest.raises(QuantityError, match=r"^cannot convert value to integer$"):
            quantity.as_integer()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0.0),
        ("50.703k", 50703.0),
        ("0.1", 0.1),
        ("-1500m", -1.5),
        ("1Pi", 2.0**50),
        ("100.035Ki", 102435840000000 * 1e-9),
        ("1e300", 1e300),
        ("1e400", math.inf),
        ("-1e400", -math.inf),
        ("9" * 400, math.inf),
        ("-" + "9" * 400, -math.inf),
    ],
)
def test_the_approximate_float_is_rounded_as_in_kubernetes(text: str, number: float) -> None:
    assert Quantity.parse(text).as_approximate_float() == number


@pytest.mark.parametrize(
    ("left", "right", "total", "difference"),
    [
        ("1Gi", "512Mi", "1536Mi", "512Mi"),
        ("100m", "1", "1100m", "-900m"),
        ("1", "1Ki", "1025", "-1023"),
        ("1Ki", "1", "1025", "1023"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1Gi", "0", "1Gi", "1Gi"),
        ("0", "1e3", "1e3", "-1e3"),
        ("+1", "0", "1", "1"),
        ("9223372036854775807", "1", "9223372036854775808", "9223372036854775806"),
        ("7Ei", "7Ei", "14Ei", "0"),
    ],
)
def test_sums_take_the_format_of_the_first_that_is_not_zero(left: str, right: str, total: str, difference: str) -> None:
    assert str(Quantity.parse(left) + Quantity.parse(right)) == total
    assert str(Quantity.parse(left) - Quantity.parse(right)) == difference


def test_a_sum_past_the_largest_suffix_keeps_its_size() -> None:
    large = sum([Quantity.parse("7Ei")] * 1023, start=Quantity.parse("7Ei"))
    assert str(large) == "7168Ei"


@pytest.mark.parametrize(
    ("left", "right", "integer"),
    [
        ("50k", "20", 50020),
        ("0", "50k", 50000),
        ("50k", "0", 50000),
        ("0m", "50k", 50000),
        ("50k", "0m", 50000),
        ("500m", "500m", None),
        ("5E", "5E", None),
        ("50k", "1Pi", None),
        ("9300000000000000", "-1000000000000000m", None),
    ],
)
def test_a_sum_is_an_integer_while_int64_holds_it(left: str, right: str, integer: int | None) -> None:
    assert (Quantity.parse(left) + Quantity.parse(right)).as_int64() == integer


def test_a_whole_number_can_be_added_in_a_format_of_its_own() -> None:
    assert str(Quantity.parse("0") + Quantity.integer(5000, EXPONENT)) == "5e3"
    assert Quantity.integer(MAX).as_int64() == MAX
    assert not Quantity.integer(MAX + 1).is_integer()


def test_equal_numbers_are_one_key_however_written() -> None:
    assert {Quantity.parse(text) for text in ("1", "1000m", "1e0", "1.0")} == {Quantity.parse("1")}
    assert repr(Quantity.parse("0.5")) == "Quantity.parse('500m')"


SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
SCALES = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
digits = st.text("0123456789", min_size=1, max_size=25)
suffixes = st.one_of(st.sampled_from(SUFFIXES), st.integers(-40, 40).map(lambda exponent: f"e{exponent}"))
numbers = st.tuples(
    st.sampled_from(["", "+", "-"]), digits, st.one_of(st.just(""), digits.map(lambda text: f".{text}"))
)
texts = st.tuples(numbers, suffixes).map(lambda parts: "".join(parts[0]) + parts[1])
quantities = texts.map(Quantity.parse)


def exact(text: str) -> Fraction:
    """What a text means before any rounding."""
    number = text.rstrip("eEinumkKMGTP") if "e" not in text else text.partition("e")[0]
    suffix = text.removeprefix(number)
    if suffix.endswith("i"):
        return Fraction(number) * (1024 << 10 * "KMGTPE".index(suffix[0]))
    power = int(suffix[1:]) if suffix.startswith("e") else SCALES.get(suffix, 0)
    return Fraction(f"{number}e{power}")


def rounded(text: str) -> Fraction:
    """The same, up to the next billionth and capped."""
    number = exact(text)
    size = Fraction(math.ceil(abs(number) * 10**9), 10**9)
    if text.endswith("i"):
        size = min(size, Fraction(MAX))
    return size if number >= 0 else -size


@given(texts)
def test_the_number_is_exact(text: str) -> None:
    assert Fraction(Quantity.parse(text).nano, 10**9) == rounded(text)


@given(texts)
def test_printing_loses_nothing_and_settles_at_once(text: str) -> None:
    quantity = Quantity.parse(text)
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(quantities, quantities)
def test_sums_print_and_read_back(left: Quantity, right: Quantity) -> None:
    for result in (left + right, left - right):
        text = str(result)
        if text.endswith("i") and abs(result.value()) > MAX:
            continue  # reading caps what adding does not
        assert Quantity.parse(text) == result
        assert str(Quantity.parse(text)) == text


@given(texts, texts)
def test_order_is_that_of_the_numbers(left: str, right: str) -> None:
    one, two, a, b = Quantity.parse(left), Quantity.parse(right), rounded(left), rounded(right)
    assert (one < two, one == two, one > two) == (a < b, a == b, a > b)
    assert one.compare(two) == (a > b) - (a < b)
    assert one.sign() == (a > 0) - (a < 0)


@given(quantities, quantities, quantities)
def test_addition_is_that_of_numbers(one: Quantity, two: Quantity, three: Quantity) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert one + two - two == one
    assert one - two == -(two - one)
    assert (one + two).nano == one.nano + two.nano


@given(quantities)
def test_an_integer_is_the_number(quantity: Quantity) -> None:
    if quantity.is_integer():
        assert quantity.as_integer() * 10**9 == quantity.nano


@given(quantities)
def test_the_approximate_float_is_near(quantity: Quantity) -> None:
    assert quantity.as_approximate_float() == pytest.approx(float(Fraction(quantity.nano, 10**9)), rel=1e-14)


@given(st.one_of(st.text(), st.text("+-.0123456789eEinumkKMGTP"), st.from_regex(r"[+-]?[0-9.]+[eE][-+]?[0-9]+")))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return
    assert str(Quantity.parse(str(quantity))) == str(quantity)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_float_of_a_manifest_reads_exactly(value: float) -> None:
    size = Fraction(math.ceil(abs(Fraction(repr(value))) * 10**9), 10**9)
    assert Fraction(Quantity.of(value).nano, 10**9) == (size if value >= 0 else -size)
