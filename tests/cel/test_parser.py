from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, Message, Select
from moorage.cel.env import KUBERNETES, Env
from moorage.cel.errors import CompileError, Source
from moorage.cel.syntax.parser import parse
from moorage.cel.syntax.unparse import unparse
from moorage.cel.values import UInt

MACROS = Env(KUBERNETES).macros


def read(text: str) -> Expr:
    return parse(Source(text), MACROS)


def problems(text: str, *, optional_syntax: bool = True) -> list[str]:
    with pytest.raises(CompileError) as caught:
        parse(Source(text), MACROS, optional_syntax=optional_syntax)
    return [line for line in str(caught.value).splitlines() if line.startswith("ERROR")]


def grouped(expr: Expr) -> str:
    """All parentheses written out, to show what belongs together."""
    match expr:
        case Call(function="_[_]"):
            return unparse(expr)
        case Call(target=None, args=[a, b]):
            return f"({grouped(a)} {expr.function.strip('_@')} {grouped(b)})"
        case Call(function="_?_:_", args=[a, b, c]):
            return f"({grouped(a)} ? {grouped(b)} : {grouped(c)})"
        case Call(target=None, args=[a]):
            return f"({expr.function[0]}{grouped(a)})"
        case _:
            return unparse(expr)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a || b && c == d + e", "(a || (b && (c == (d + e))))"),
        ("a < b == c in d", "(((a < b) == c) in d)"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("(a ? b : c) ? d : e", "((a ? b : c) ? d : e)"),
        ("a && b && c && d", "((a && b) && (c && d))"),
        ("a || b || c", "((a || b) || c)"),
        ("!a.b && -c[0] < d", "((!a.b) && ((-c[0]) < d))"),
        ("!!a", "a"),
        ("!!!a", "(!a)"),
        ("--a", "a"),
        ("a - -1", "(a - -1)"),
        ("a -1", "(a - 1)"),
        ("-(1)", "(-1)"),
        ("---1", "(-1)"),
    ],
)
def test_operators_bind_as_the_grammar_says(text: str, want: str) -> None:
    assert grouped(read(text)) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("-9223372036854775808", -(2**63)),
        ("0x7fffffffffffffff", 2**63 - 1),
        ("18446744073709551615u", UInt(2**64 - 1)),
        ("000000000000000000000000000001", 1),
        ("-1.5e-3", -0.0015),
        (".5", 0.5),
        ("null", None),
        (r"'\a\b\f\n\r\t\v\\\'\"\`\?'", "\a\b\f\n\r\t\v\\'\"`?"),
        (r"'\x41\101\u00e9\U0001F431'", "AAé🐱"),
        (r"r'\x41\n'", r"\x41\n"),
        (r"b'\x41\101\377é'", b"AA\xff\xc3\xa9"),
        (r"br'\x41'", rb"\x41"),
        ("'''a\r\nb\rc'''", "a\nb\nc"),
        ('"""a"b"""', 'a"b'),
    ],
)
def test_literals_have_their_values(text: str, want: object) -> None:
    expr = read(text)
    assert isinstance(expr, Literal)
    assert expr.value == want
    assert type(expr.value) is type(want)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("9223372036854775808", "ERROR: <input>:1:1: invalid int literal"),
        ("1 + 18446744073709551616u", "ERROR: <input>:1:5: invalid uint literal"),
        ("1e400", "ERROR: <input>:1:1: invalid double literal"),
        (r"'\ud800'", "ERROR: <input>:1:1: invalid unicode code point"),
        (r"b'\u0041'", "ERROR: <input>:1:1: unable to unescape string"),
        ("x + while", "ERROR: <input>:1:5: reserved identifier: while"),
        (".as(1)", "ERROR: <input>:1:1: reserved identifier: as"),
        ("has(a)", "ERROR: <input>:1:5: invalid argument to has() macro"),
        ("a.all(1, true)", "ERROR: <input>:1:7: argument must be a simple name"),
        ("a.map(b.c, true)", "ERROR: <input>:1:8: argument is not an identifier"),
        ("a.exists(x, x, true)", "ERROR: <input>:1:13: duplicate variable name: x"),
        ("a.all(__result__, true)", "ERROR: <input>:1:7: iteration variable overwrites accumulator variable"),
        ("a.optMap(1, 2)", "ERROR: <input>:1:10: optMap() variable name must be a simple identifier"),
        ("", "ERROR: <input>:1:1: Syntax error: mismatched input '<EOF>' expecting an expression"),
        ("taint.key ==", "ERROR: <input>:1:13: Syntax error: mismatched input '<EOF>' expecting an expression"),
        ("node.labels['cpu'", "ERROR: <input>:1:18: Syntax error: mismatched input '<EOF>' expecting ']'"),
        ("a b", "ERROR: <input>:1:3: Syntax error: extraneous input 'b' expecting <EOF>"),
        ("a ? b ? c : d : e", "ERROR: <input>:1:7: Syntax error: mismatched input '?' expecting ':'"),
        ("{'a'}", "ERROR: <input>:1:5: Syntax error: mismatched input '}' expecting ':'"),
        ("f(1,)", "ERROR: <input>:1:5: Syntax error: mismatched input ')' expecting an expression"),
        ("-!a", "ERROR: <input>:1:2: Syntax error: mismatched input '!' expecting an expression"),
        ("a.in", "ERROR: <input>:1:3: Syntax error: mismatched input 'in' expecting a field name"),
        (".1a", "ERROR: <input>:1:3: Syntax error: extraneous input 'a' expecting <EOF>"),
        ("a\n  + (b", "ERROR: <input>:2:7: Syntax error: mismatched input '<EOF>' expecting ')'"),
        ("A{1: 2}", "ERROR: <input>:1:3: Syntax error: mismatched input '1' expecting a field name"),
        ("(a){b: 1}", "ERROR: <input>:1:4: Syntax error: extraneous input '{' expecting <EOF>"),
    ],
)
def test_errors_name_the_place_and_the_reason(text: str, want: str) -> None:
    assert problems(text)[0] == want


def test_all_errors_are_reported_in_the_order_of_their_places() -> None:
    assert problems("has(a) + 9223372036854775808 + b.all(1, true) + while") == [
        "ERROR: <input>:1:5: invalid argument to has() macro",
        "ERROR: <input>:1:10: invalid int literal",
        "ERROR: <input>:1:38: argument must be a simple name",
        "ERROR: <input>:1:49: reserved identifier: while",
    ]


def test_optional_syntax_needs_the_library() -> None:
    assert problems("[?a, {?b: c[?d]}, e.?f]", optional_syntax=False) == [
        "ERROR: <input>:1:2: unsupported syntax '?'",
        "ERROR: <input>:1:7: unsupported syntax '?'",
        "ERROR: <input>:1:12: unsupported syntax '[?'",
        "ERROR: <input>:1:20: unsupported syntax '.?'",
    ]


def test_macros_keep_the_call_that_was_written() -> None:
    expr = read("a.exists(x, x > 1)")
    assert isinstance(expr, Comprehension)
    assert expr.macro is not None
    assert unparse(expr.macro) == "a.exists(x, x > 1)"
    assert expr.offset == 8


def test_empty_brackets_and_trailing_commas() -> None:
    for text in ("[]", "[,]", "{}", "{,}", "f()", "A{}", "a.f()"):
        read(text)
    expr = read("[1, ?b, ]")
    assert isinstance(expr, ListLiteral)
    assert (len(expr.elements), expr.optional) == (2, frozenset((1,)))


def test_messages_and_quoted_fields() -> None:
    expr = read("a.B{c: 1, ?`d-e`: 2}")
    assert isinstance(expr, Message)
    assert (expr.name, [(e.key, e.optional) for e in expr.entries]) == ("a.B", [("c", False), ("d-e", True)])
    assert unparse(read("a.`b-c`.d")) == "a.`b-c`.d"


def test_positions_are_those_of_cel_go() -> None:
    expr = read("ab.cd[0].ef(1) == -2")
    assert isinstance(expr, Call)
    equal, call, number = expr.offset, expr.args[0], expr.args[1]
    assert isinstance(call, Call)
    assert isinstance(call.target, Call)
    index = call.target
    select = index.args[0]
    assert isinstance(select, Select)
    assert isinstance(select.operand, Ident)
    assert [equal, call.offset, index.offset, select.offset, select.operand.offset, number.offset] == [
        15, 11, 5, 2, 0, 18,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "(" * 250 + "true" + ")" * 250,
        "+".join(["1"] * 300),
        "a" + ".b" * 300,
        "a" + "[0]" * 300,
        "true ? 1 : " * 300 + "2",
        "[" * 5000,
        "[1]" + ".map(x, [x]" * 100 + ".map(x, x)" + ")" * 100,
    ],
)
def test_nesting_is_limited(text: str) -> None:
    assert "ERROR: <input>:-1:0: expression recursion limit exceeded: 250" in problems(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 249 + "true" + ")" * 249,
        "+".join(["1"] * 249),
        "&&".join(["a"] * 3000),
        "!" * 5001 + "a",
        "a" + ".b" * 248,
    ],
)
def test_what_is_within_the_limit_is_read(text: str) -> None:
    read(text)


def test_a_long_text_is_refused() -> None:
    want = "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"
    assert problems("1" + " " * 100_000) == [want]


def test_macros_that_copy_their_receiver_cannot_double_it_forever() -> None:
    chain = "".join(f".optMap(v{index}, v{index})" for index in range(40))
    assert "macro expansion limit exceeded: 20000 nodes" in problems(f"optional.none(){chain}")[0]


WORDS = (
    "a", "b.c", "1", "2u", "1.5", "'x'", "b'y'", "true", "null", "(", ")", "[", "]", "{", "}", ",", ":", "?", ".", "+",
    "-", "!", "&&", "||", "==", "in", ".all(x, x)", ".map(y, y)", "has(a.b)", "@", "f(", ".?d", "[?", "while", "A{",
)  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=30))
def test_any_tokens_give_a_tree_or_errors_with_their_places(words: list[str]) -> None:
    text = " ".join(words)
    try:
        assert read(text).offset < len(text)
    except CompileError as error:
        issues = error.issues
        assert issues == sorted(issues, key=lambda issue: issue.offset)
        assert all(-1 <= issue.offset <= len(text) for issue in issues)
