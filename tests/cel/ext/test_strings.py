from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel.ext.strings import LATEST, LIBRARY
from moorage.cel.library import UNBOUNDED, Cost, Size
from moorage.cel.values import Duration, Timestamp, UInt, to_key
from tests.cel.libraries import call, error, estimate, exactly, measure, number, up_to

NAN, INF = float("nan"), float("inf")
texts = st.text(alphabet="ab,©α😀\n", max_size=12)


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("string_char_at_int", ("tacocat", 3), "o"),
        ("string_char_at_int", ("tacocat", 7), ""),
        ("string_char_at_int", ("©αT", 1), "α"),
        ("string_index_of_string", ("tacocat", ""), 0),
        ("string_index_of_string", ("ta©o©αT", "©"), 2),
        ("string_index_of_string", ("tacocat", "none"), -1),
        ("string_index_of_string_int", ("tacocat", "a", 3), 5),
        ("string_index_of_string_int", ("tacocat", "", 3), 3),
        ("string_index_of_string_int", ("tacocat", "a", 30), -1),
        ("string_last_index_of_string", ("tacocat", "at"), 5),
        ("string_last_index_of_string", ("tacocat", ""), 7),
        ("string_last_index_of_string", ("", "@@"), -1),
        ("string_last_index_of_string_int", ("bananananana", "nana", 7), 6),
        ("string_last_index_of_string_int", ("ta©o©αT", "©", 3), 2),
        ("string_last_index_of_string_int", ("tacocat", "a", 30), -1),
        ("string_last_index_of_string_int", ("tacocat", "", 3), 3),
        ("string_lower_ascii", ("TacoCÆt Xii",), "tacocÆt xii"),
        ("string_lower_ascii", ("ABC",), "abc"),
        ("string_upper_ascii", ("tacoCαt",), "TACOCαT"),
        ("string_upper_ascii", ("straße",), "STRAßE"),
        ("string_replace_string_string", ("hello hello", "", "_"), "_h_e_l_l_o_ _h_e_l_l_o_"),
        ("string_replace_string_string_int", ("hello hello", "he", "we", 1), "wello hello"),
        ("string_replace_string_string_int", ("hello hello", "he", "we", 0), "hello hello"),
        ("string_replace_string_string_int", ("hello hello", "he", "we", -1), "wello wello"),
        ("string_replace_string_string_int", ("abc", "", "_", 2), "_a_bc"),
        ("string_split_string", ("hello world", " "), ["hello", "world"]),
        ("string_split_string", ("", ","), [""]),
        ("string_split_string", ("", ""), []),
        ("string_split_string", ("a©b", ""), ["a", "©", "b"]),
        ("string_split_string_int", ("a b c", " ", 0), []),
        ("string_split_string_int", ("a b c", " ", 1), ["a b c"]),
        ("string_split_string_int", ("a b c", " ", 2), ["a", "b c"]),
        ("string_split_string_int", ("a b c", " ", -1), ["a", "b", "c"]),
        ("string_split_string_int", ("abc", "", 2), ["a", "bc"]),
        ("string_split_string_int", ("abc", "", 9), ["a", "b", "c"]),
        ("string_substring_int", ("tacocat", 4), "cat"),
        ("string_substring_int", ("tacocat", 7), ""),
        ("string_substring_int_int", ("ta©o©αT", 2, 6), "©o©α"),
        ("string_trim", (" \f\n\r\t\vtext  ",), "text"),
        ("string_trim", ("\u0085\u00a0\u1680text\u3000",), "text"),
        ("string_trim", ("\u180etext\u200b\ufeff",), "\u180etext\u200b\ufeff"),
        ("string_trim", ("\x1ctext\x1f",), "\x1ctext\x1f"),
        ("list_join", (["x", "y"],), "xy"),
        ("list_join_string", (["x", "y"], "-"), "x-y"),
        ("list_join_string", ([], "-"), ""),
        ("strings_quote", ('two\a\n "quotes" \\ 😀',), '"two\\a\\n \\"quotes\\" \\\\ 😀"'),
    ],
)
def test_functions(name: str, args: tuple[object, ...], want: object) -> None:
    assert call(LIBRARY, name, *args) == want


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("string_char_at_int", ("tacocat", 8), "index out of range: 8"),
        ("string_char_at_int", ("tacocat", -1), "index out of range: -1"),
        ("string_index_of_string_int", ("tacocat", "a", -1), "index out of range: -1"),
        ("string_last_index_of_string_int", ("tacocat", "a", -1), "index out of range: -1"),
        ("string_substring_int", ("tacocat", 40), "index out of range: 40"),
        ("string_substring_int", ("tacocat", -1), "index out of range: -1"),
        ("string_substring_int_int", ("tacocat", 1, 50), "index out of range: 50"),
        ("string_substring_int_int", ("tacocat", 49, 50), "index out of range: 49"),
        ("string_substring_int_int", ("tacocat", -2, -1), "index out of range: -2"),
        ("string_substring_int_int", ("tacocat", 4, 3), "invalid substring range. start: 4, end: 3"),
        ("list_join", (["a", 1],), "join: invalid input: 1"),
    ],
)
def test_errors(name: str, args: tuple[object, ...], message: str) -> None:
    assert error(LIBRARY, name, *args) == message


def test_only_the_latest_version_reverses_strings() -> None:
    assert call(LATEST, "string_reverse", "Ta©oCαt") == "tαCo©aT"
    assert not any(function.name == "reverse" for function in LIBRARY.functions)


@pytest.mark.parametrize(
    ("template", "args", "want"),
    [
        ("no substitution", [], "no substitution"),
        ("%% and also %%", [], "% and also %"),
        ("%%%s%%", ["text"], "%text%"),
        ("%d %s, %d", [1, "A", UInt(2)], "1 A, 2"),
        ("%.3f", [1.2345], "1.234"),
        ("%f", [1234567.5], "1,234,567.500000"),
        ("%.0f", [2.5], "2"),
        ("%f", [-0.0], "0.000000"),
        ("%f %f %f", [NAN, INF, "-Infinity"], "NaN ∞ -∞"),
        ("%e", [2.71828], "2.718280\u202f×\u202f10⁰⁰"),
        ("%.6e", [1052.032911275], "1.052033\u202f×\u202f10⁰³"),
        ("%.18e", [-1e-5], " -1.000000\u202f×\u202f10⁻⁰⁵"),
        ("%b %b %b", [5, -5, True], "101 -101 1"),
        ("%o %o", [11, UInt(65535)], "13 177777"),
        ("%x %X %x", [30, UInt(6000), -30], "1e 1770 -1e"),
        ("%x %X", ["Hello ©", b"\x00byte"], "48656c6c6f20c2a9 0062797465"),
        ("%s %s %s", [True, None, b"xyz"], "true null xyz"),
        ("%s %s", [2e-9, 2.71], "2e-09 2.71"),
        ("%s %s %s", [NAN, INF, -INF], "NaN +Inf -Inf"),
        ("%s", [Duration.parse("1h45m47s")], "6347s"),
        ("%s", [Timestamp.parse("2023-02-03T23:31:20+00:00")], "2023-02-03T23:31:20Z"),
        ("%s", [["a\n", 3.14, None, [9], INF]], '["a\\n", 3.140000, null, [9], "+Inf"]'),
        (
            "%s",
            [{"k2": Duration.parse("2h"), "k1": b"xyz", to_key(True): 1, 6: 2.5}],
            '{"k1":b"xyz", "k2":duration("7200s"), 6:2.500000, true:1}',
        ),
    ],
)
def test_format_writes_numbers_for_readers_and_lists_as_literals(template: str, args: list[object], want: str) -> None:
    assert call(LIBRARY, "string_format", template, args) == want


@pytest.mark.parametrize(
    ("template", "args", "want"),
    [
        ("%f %f", [2, 1234567.5], "2.000000 1234567.500000"),
        ("%e %e", [2.71828, UInt(3)], "2.718280e+00 3.000000e+00"),
        ("%d %d %d", [NAN, INF, 2.5], "NaN Infinity 2.5"),
        ("%f %e", [-INF, -INF], "-Infinity -Infinity"),
        ("%s", [["a", 6, 4.2, 1e21, Duration.parse("422s")]], "[a, 6, 4.2, 1000000000000000000000, 422s]"),
        ("%s", [{"s": "x", 6: None, to_key(True): 42}], "{6: null, s: x, true: 42}"),
    ],
)
def test_format_of_the_specification(template: str, args: list[object], want: str) -> None:
    assert call(LATEST, "string_format", template, args) == want


CLAUSE = "could not parse formatting clause: "


@pytest.mark.parametrize(
    ("template", "args", "message"),
    [
        ("%a", [1], CLAUSE + 'unrecognized formatting clause "a"'),
        ("%E", [0.5], CLAUSE + 'unrecognized formatting clause "E"'),
        ("%d %d %d", [0, 1], "index 2 out of range"),
        ("100%", [1], "unexpected end of string"),
        ("%.3", [1.0], CLAUSE + "error while parsing precision: could not find end of precision specifier"),
        (
            "%.101f",
            [1.0],
            CLAUSE + "error while parsing precision: precision 101 exceeds maximum allowed precision 100",
        ),
        (
            "%b",
            ["abc"],
            "error during formatting: only integers and bools can be formatted as binary, was given string",
        ),
        ("%d", [0.5], "error during formatting: decimal clause can only be used on integers, was given double"),
        ("%o", ["a"], "error during formatting: octal clause can only be used on integers, was given string"),
        ("%e", [None], "error during formatting: scientific clause can only be used on doubles, was given null_type"),
        ("%f", ["x"], "error during formatting: fixed-point clause can only be used on doubles, was given string"),
        (
            "%x",
            [0.5],
            "error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given "
            "double",
        ),
        ("%s", [b"\xff"], "error during formatting: invalid UTF-8 in bytes, cannot convert to string"),
        ("%s", [{1.5: 1}], "error during formatting: no formatting function for map key of type double"),
    ],
)
def test_format_errors(template: str, args: list[object], message: str) -> None:
    assert error(LIBRARY, "string_format", template, args) == message


@given(st.lists(st.text(alphabet="ab©", max_size=4), min_size=1), st.sampled_from([",", "--", "\n"]))
def test_split_undoes_join(parts: list[str], separator: str) -> None:
    assert call(LIBRARY, "string_split_string", call(LIBRARY, "list_join_string", parts, separator), separator) == parts


@given(texts, texts, st.integers(-1, 5))
def test_join_undoes_split(text: str, separator: str, limit: int) -> None:
    parts = call(LIBRARY, "string_split_string_int", text, separator, limit)
    assert limit == 0 or separator.join(parts) == text
    assert limit < 1 or len(parts) <= limit


@given(texts, texts)
def test_index_of_finds_what_it_says(text: str, part: str) -> None:
    first, last = (call(LIBRARY, f"string_{which}index_of_string", text, part) for which in ("", "last_"))
    assert (first >= 0) == (last >= 0) == (part in text)
    if first >= 0:
        assert text[first:].startswith(part)
        assert text[last:].startswith(part)
        assert first <= last


@given(texts)
def test_case_changes_only_ascii(text: str) -> None:
    lower, upper = call(LIBRARY, "string_lower_ascii", text), call(LIBRARY, "string_upper_ascii", text)
    assert call(LIBRARY, "string_lower_ascii", upper) == lower
    assert len(lower) == len(upper) == len(text)


@pytest.mark.parametrize(
    ("name", "operands", "cost", "size"),
    [
        ("string_char_at_int", (up_to(317), number(0)), Cost(1, 1), Size(0, 1)),
        ("string_index_of_string", (up_to(317), exactly(1)), Cost(0, 32), None),
        ("string_lower_ascii", (up_to(317),), Cost(0, 32), Size(0, 317)),
        ("string_substring_int", (exactly(25), number(2)), Cost(3, 3), Size(25, 25)),
        ("string_replace_string_string", (up_to(317), exactly(4), exactly(1)), Cost(0, 64), Size(0, 317)),
        ("string_replace_string_string", (exactly(10), exactly(0), exactly(2)), Cost(2, 2), Size(32, 32)),
        ("string_replace_string_string", (exactly(10), exactly(3), exactly(5)), Cost(2, 2), Size(10, 20)),
        ("string_replace_string_string", (exactly(10), exactly(3), exactly(0)), Cost(2, 2), Size(0, 10)),
        ("string_split_string", (up_to(317), exactly(1)), Cost(0, 64), Size(0, 317)),
        ("string_split_string", (exactly(0), exactly(1)), Cost(0, 0), Size(0, 1)),
        ("string_split_string_int", (up_to(317), exactly(1), number(3)), Cost(0, 64), Size(0, 3)),
        ("string_split_string_int", (up_to(317), exactly(1), number(-1)), Cost(0, 64), Size(0, 317)),
        ("list_join", (exactly(3, element=Size(1, 5)),), Cost(1, 3), Size(3, 15)),
        ("list_join_string", (exactly(3, element=Size(1, 5)), exactly(2)), Cost(2, 4), Size(7, 19)),
        ("strings_quote", (exactly(10),), Cost(1, 1), Size(12, 22)),
        ("string_format", (exactly(25), exactly(2)), Cost(3, 3), None),
    ],
)
def test_estimates(name: str, operands: tuple[object, ...], cost: Cost, size: Size | None) -> None:
    estimated = estimate(LIBRARY, name, *operands)  # type: ignore[arg-type]
    assert (estimated.cost, estimated.size) == (cost, size)


def test_pieces_are_no_longer_than_the_text() -> None:
    assert estimate(LIBRARY, "string_split_string", up_to(63), exactly(1)).element == Size(0, 63)


def test_an_unknown_text_has_an_unbounded_cost() -> None:
    assert estimate(LIBRARY, "string_lower_ascii", up_to(UNBOUNDED)).cost.max == 1844674407370955264


@given(texts, texts, texts)
def test_estimates_bound_what_happens(text: str, old: str, new: str) -> None:
    operands = [exactly(len(part)) for part in (text, old, new)]
    for name, count in [
        ("string_replace_string_string", 3),
        ("string_split_string", 2),
        ("string_index_of_string", 2),
        ("string_trim", 1),
        ("strings_quote", 1),
    ]:
        args = (text, old, new)[:count]
        estimated = estimate(LIBRARY, name, *operands[:count])
        assert measure(LIBRARY, name, *args) <= estimated.cost.max
        result = call(LIBRARY, name, *args)
        assert estimated.size is None or len(result) <= estimated.size.max


@given(st.lists(texts, max_size=5), texts)
def test_estimate_of_join_bounds_what_happens(parts: list[str], separator: str) -> None:
    longest = max(map(len, parts), default=0)
    operands = (exactly(len(parts), element=Size(0, longest)), exactly(len(separator)))
    estimated = estimate(LIBRARY, "list_join_string", *operands)
    assert measure(LIBRARY, "list_join_string", parts, separator) <= estimated.cost.max
    assert estimated.size is not None
    assert len(call(LIBRARY, "list_join_string", parts, separator)) <= estimated.size.max
