from __future__ import annotations

import pytest

from moorage.cel.errors import CompileError, Issue, Source


@pytest.mark.parametrize(
    ("text", "offset", "want"),
    [
        ("a + b", 4, "ERROR: <input>:1:5: bad\n | a + b\n | ....^"),
        ("a\n+\tb c", 4, "ERROR: <input>:2:3: bad\n | + b c\n | ..^"),
        ("'é' + ü", 6, "ERROR: <input>:1:7: bad\n | 'é' + ü\n | .．....＾"),
        ("a", 1, "ERROR: <input>:1:2: bad\n | a\n | .^"),
        ("a\n", 2, "ERROR: <input>:2:1: bad\n | \n | ^"),
        ("", 0, "ERROR: <input>:1:1: bad"),
        ("a", -1, "ERROR: <input>:-1:0: bad"),
        ("x" * 20_000, 3, "ERROR: <input>:1:4: bad"),
    ],
)
def test_an_issue_shows_the_line_and_a_caret(text: str, offset: int, want: str) -> None:
    assert Issue(offset, "bad").show(Source(text)) == want


def test_no_more_than_a_hundred_are_shown() -> None:
    lines = str(CompileError(Source("a"), [Issue(0, str(number)) for number in range(130)])).splitlines()
    assert sum(line.startswith("ERROR") for line in lines) == 100
    assert lines[-1] == "30 more errors were truncated"


def test_of_errors_in_a_long_line_only_the_first_are_shown_with_it() -> None:
    text = str(CompileError(Source("a" * 10_000), [Issue(number, "bad") for number in range(130)]))
    assert len(text) < 30_000
    assert text.endswith("129 more errors were truncated")


def test_a_byte_that_is_not_utf_8_is_read_as_go_reads_it() -> None:
    assert Source(b"'\xff'".decode("utf-8", "surrogateescape")).text.startswith("'\ufffd")
