"""Random expressions that type-check, as text. A grammar says for each kind of expression how one can be written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from hypothesis import strategies as st

_HOLE = re.compile(r"<(\w+)((?: \w+:\w+)*)>")

Scope = tuple[tuple[str, str], ...]
"""Iteration variables and their kinds, the innermost last."""


class Grammar(NamedTuple):
    """By kind: leaves, and templates with holes. `<bool x:int>` is a hole for a bool that may mention an int `x`."""

    leaves: Mapping[str, st.SearchStrategy[str]]
    templates: Mapping[str, tuple[str, ...]]


@st.composite
def expressions(draw: st.DrawFn, grammar: Grammar, kind: str, depth: int = 4, scope: Scope = ()) -> str:
    visible = [name for name, held in dict(scope).items() if held == kind]
    templates = grammar.templates.get(kind, ()) if depth else ()
    if not templates or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(visible) | grammar.leaves[kind] if visible else grammar.leaves[kind])

    def fill(hole: re.Match[str]) -> str:
        inner = tuple((name, of) for name, _, of in (variable.partition(":") for variable in hole[2].split()))
        return draw(expressions(grammar, hole[1], depth - 1, (*scope, *inner)))

    return _HOLE.sub(fill, draw(st.sampled_from(templates)))


def quoted(alphabet: str, max_size: int = 6) -> st.SearchStrategy[str]:
    return st.text(alphabet, max_size=max_size).map(lambda text: json.dumps(text, ensure_ascii=False))


TEXT = "ab/-.é😀 A1"
"""Characters of one, two and four bytes, separators, both cases, a digit."""

STANDARD: dict[str, tuple[str, ...]] = {
    "bool": (
        "!<bool>",
        "(<bool> && <bool>)",
        "(<bool> || <bool>)",
        "(<bool> ? <bool> : <bool>)",
        "(<int> == <int>)",
        "(<int> != <int>)",
        "(<int> < <int>)",
        "(<int> >= <int>)",
        "(<str> == <str>)",
        "(<str> != <str>)",
        "(<str> < <str>)",
        "(<str> >= <str>)",
        "(<ints> == <ints>)",
        "(<strs> != <strs>)",
        "(<map> == <map>)",
        "(<int> in <ints>)",
        "(<str> in <strs>)",
        "(<str> in <map>)",
        "<str>.startsWith(<str>)",
        "<str>.endsWith(<str>)",
        "<str>.contains(<str>)",
        "<str>.matches('[a-z]+/?')",
        "<ints>.all(x, <bool x:int>)",
        "<ints>.exists(y, <bool y:int>)",
        "<strs>.exists(x, <bool x:str>)",
        "<strs>.exists_one(y, <bool y:str>)",
        "<map>.all(x, <bool x:str>)",
        "has(<map>.a)",
        "(type(<str>) == string)",
    ),
    "int": (
        "(<int> + <int>)",
        "(<int> - <int>)",
        "(<int> * <int>)",
        "(<int> / <int>)",
        "(<int> % <int>)",
        "-(<int>)",
        "<str>.size()",
        "size(<ints>)",
        "<strs>.size()",
        "<map>.size()",
        "<ints>[<int>]",
        "int(<str>)",
        "(<bool> ? <int> : <int>)",
    ),
    "str": (
        "(<str> + <str>)",
        "<strs>[<int>]",
        "<map>[<str>]",
        "<map>.a",
        "string(<int>)",
        "string(<bool>)",
        "string(bytes(<str>))",
        "(<bool> ? <str> : <str>)",
    ),
    "ints": (
        "[<int>, <int>]",
        "(<ints> + <ints>)",
        "<ints>.map(x, <int x:int>)",
        "<strs>.map(y, <int y:str>)",
        "<ints>.filter(x, <bool x:int>)",
        "<ints>.map(x, <bool x:int>, <int x:int>)",
        "(<bool> ? <ints> : <ints>)",
    ),
    "strs": (
        "[<str>]",
        "[<str>, <str>, <str>]",
        "(<strs> + <strs>)",
        "<strs>.map(x, <str x:str>)",
        "<map>.map(x, <str x:str>)",
        "<strs>.filter(y, <bool y:str>)",
        "<map>.filter(x, <bool x:str>)",
        "(<bool> ? <strs> : <strs>)",
    ),
    "map": (
        "{<str>: <str>}",
        "{<str>: <str>, 'a': <str>}",
        "(<bool> ? <map> : <map>)",
    ),
}
"""Templates of the standard library over booleans, integers, strings, lists of both, and maps of strings."""

LITERALS: dict[str, st.SearchStrategy[str]] = {
    "bool": st.sampled_from(("true", "false")),
    "int": st.sampled_from(("0", "1", "2", "-1", "7", "9223372036854775807")),
    "str": quoted(TEXT) | st.sampled_from(("'a'", "'1'", "''")),
    "ints": st.sampled_from(("[1]", "[3, 1, 2]")),
    "strs": st.sampled_from(("['a']", "['b', 'a', '']")),
    "map": st.sampled_from(("{'a': 'b'}", "{'a': 'a', 'b': ''}")),
}
