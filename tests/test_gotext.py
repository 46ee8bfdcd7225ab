from __future__ import annotations

import ast
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.gotext import SPACE, quote

QUOTED = [
    ("", '""'),
    ("v1.2.3", '"v1.2.3"'),
    ("a b", '"a b"'),
    ('say "hi"', '"say \\"hi\\""'),
    ("it's", '"it\'s"'),
    ("C:\\dir", '"C:\\\\dir"'),
    ("\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
    ("\x00\x1b\x7f", '"\\x00\\x1b\\x7f"'),
    ("٣ ５ grün 🚢", '"٣ ５ grün 🚢"'),
    ("\x80\x85", '"\\u0080\\u0085"'),
    ("\xa0", '"\\u00a0"'),
    ("\xad", '"\\u00ad"'),
    ("a\u200bb", '"a\\u200bb"'),
    ("\u2028", '"\\u2028"'),
    ("\ufeff", '"\\ufeff"'),
    ("%2\udcc3", '"%2\\xc3"'),
    ("\U000e0001", '"\\U000e0001"'),
]


@pytest.mark.parametrize(("text", "quoted"), QUOTED, ids=[ascii(text) for text, _ in QUOTED])
def test_a_value_is_quoted_as_go_quotes_it(text: str, quoted: str) -> None:
    assert quote(text) == quoted


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_quoted_value_is_on_one_line_and_reads_back(text: str) -> None:
    quoted = quote(text)
    assert quoted.isprintable()
    assert ast.literal_eval(quoted) == text


@given(st.text())
def test_every_text_can_be_quoted_even_half_a_surrogate_pair(text: str) -> None:
    assert quote(text).isprintable()


def test_space_is_what_unicode_calls_white_space() -> None:
    white = {chr(point) for point in range(sys.maxunicode + 1) if chr(point).isspace()}
    assert white - set(SPACE) == set("\x1c\x1d\x1e\x1f")
    assert set(SPACE) <= white
    assert all(unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cc") for char in SPACE)
