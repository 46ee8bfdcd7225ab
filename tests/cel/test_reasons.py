"""Which part of an expression decided, and where it stands in the source."""

from __future__ import annotations

import pytest

from moorage.api.node import Taint
from moorage.match.expressions import TaintExpression

TAINT = Taint("b", "x", "NoSchedule")


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("taint.key == 'b'", "taint.key == 'b'"),
        ("taint.key == 'a' || taint.key == 'b'", "taint.key == 'b'"),
        ("taint.key == 'b' && int(taint.value) > 950", "int(taint.value)"),
        ("  (  taint.key.matches('^b.*')   &&   taint.value  ==  \"1\")", 'taint.value  ==  "1"'),
        ("taint.key == 'b' && !(taint.value in ['x', 'y'])", "!(taint.value in ['x', 'y'])"),
        ("has(taint.timeAdded) && taint.key == 'b'", "has(taint.timeAdded)"),
        ("taint.key == 'b' && ['a', 'c'].exists(each, each == taint.value)",
         "['a', 'c'].exists(each, each == taint.value)"),
        ("taint.key == 'a' ? true : taint.value.startsWith('y')", "taint.value.startsWith('y')"),
        ("taint.key == 'b' // a comment\n && taint.value.size() > 3", "taint.value.size() > 3"),
    ],
)  # fmt: skip
def test_the_part_that_decided_is_a_part_of_the_source(source: str, part: str) -> None:
    begin, end = TaintExpression(source).part_for(TAINT)
    assert source[begin:end] == part
