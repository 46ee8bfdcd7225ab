from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel.errors import Source
from moorage.cel.syntax.lexer import END, tokens


def kinds(text: str) -> list[str]:
    return [token.kind for token in tokens(Source(text))[0]]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a.b", ["ident", ".", "ident"]),
        ("1.5e3 .5 1e2 1.e", ["float", "float", "float", "int", ".", "ident"]),
        ("1u 0xFFu 0x1f 0x", ["uint", "uint", "int", "int", "ident"]),
        ("in inner true truest null", ["in", "ident", "true", "ident", "null"]),
        ("a // comment && b\n|| c", ["ident", "||", "ident"]),
        ("'' \"\" '''''' r'\\' b'x' br\"\"\"y\"\"\"", ["string"] * 6),
        ("'''a'b''c'''", ["string"]),
        ("`a.b-c/d e`", ["quoted"]),
        ("<=<>=> ==!=!", ["<=", "<", ">=", ">", "==", "!=", "!"]),
    ],
)
def test_text_is_cut_into_tokens(text: str, want: list[str]) -> None:
    assert kinds(text) == [*want, END]


@pytest.mark.parametrize(
    ("text", "offset", "shown"),
    [
        ("a @ b", 2, "@"),
        ("a & b", 2, "& "),
        ("'open", 0, "'open"),
        ("'a\nb'", 0, "'a\\n"),
        ("'a\\q'", 0, "'a\\\\q"),
        ("'\\u12'", 0, "'\\\\u12'"),
        ("é", 0, "é"),
    ],
)
def test_what_is_no_token_is_reported_where_it_starts(text: str, offset: int, shown: str) -> None:
    issue = tokens(Source(text))[1][0]
    assert issue == (offset, f"Syntax error: token recognition error at: '{shown}'")


@given(st.text(alphabet=st.characters(max_codepoint=0x2FF) | st.sampled_from("'\"\\`/bru0x.&|")))
def test_any_text_is_read_to_its_end(text: str) -> None:
    lexed, issues = tokens(Source(text))
    assert lexed[-1].kind == END
    offsets = [token.offset for token in lexed]
    assert offsets == sorted(offsets)
    assert all(0 <= issue.offset < len(text) for issue in issues)
