"""Differential fuzzing: our engine and Google's, given the same expressions and inputs, must agree.

Left out because engines may differ there, and do:

| expressions                              | why                                                                  |
|------------------------------------------|----------------------------------------------------------------------|
| `{…}.map(…)` and `.filter(…)`            | the order of a map's keys is not defined                             |
| `[]` and `{}` as literals                | what `-x` makes of an element nothing is known of: ours is cel-go's  |
| `''.split('')`                           | the empty list in Go, a list of one empty string in C++              |
| `.substring(start, end)`                 | theirs refuses an end that is the length of the string               |
| the wording of errors                    | each engine has its own                                              |
"""

from __future__ import annotations

from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]
from cel_expr_python.ext import ext_optional, ext_strings  # type: ignore[import-untyped]
from hypothesis import event, given, settings
from hypothesis import strategies as st

from moorage.cel import types
from moorage.cel.env import Env
from moorage.cel.errors import EvalError
from moorage.cel.ext import strings
from moorage.cel.stdlib.optionals import OPTIONALS
from moorage.cel.values import UInt
from tests.cel.expressions import LITERALS, STANDARD, TEXT, Grammar, expressions

VARIABLES = {
    "b": ("bool", types.BOOL, cel.Type.BOOL),
    "i": ("int", types.INT, cel.Type.INT),
    "s": ("str", types.STRING, cel.Type.STRING),
    "ii": ("ints", types.list_of(types.INT), cel.Type.List(cel.Type.INT)),
    "ss": ("strs", types.list_of(types.STRING), cel.Type.List(cel.Type.STRING)),
    "m": ("map", types.map_of(types.STRING, types.STRING), cel.Type.Map(cel.Type.STRING, cel.Type.STRING)),
}
OURS = Env((strings.LIBRARY, OPTIONALS), {name: ours for name, (_, ours, _) in VARIABLES.items()})
THEIRS = cel.NewEnv(
    variables={name: theirs for name, (_, _, theirs) in VARIABLES.items()},
    extensions=[ext_strings.ExtStrings(), ext_optional.ExtOptional()],
)

EXTENSIONS: dict[str, tuple[str, ...]] = {
    "bool": (
        "<opt>.hasValue()",
        "(<opt> == <opt>)",
        "(<dbl> == <dbl>)",
        "(<dbl> <= <dbl>)",
        "(<uint> > <uint>)",
        "(dyn(<dbl>) == dyn(<int>))",
        "(dyn(<uint>) != dyn(<int>))",
        "(dyn(<str>) == dyn(<ints>))",
        "(dyn(<dbl>) in dyn(<ints>))",
        "(dyn(<ints>) == dyn([<dbl>]))",
        "(bytes(<str>) < b'ab')",
        "dyn(<bool>)",
    ),
    "int": ("<str>.indexOf(<str>)", "<str>.lastIndexOf(<str>)", "int(<dbl>)", "int(<uint>)", "bytes(<str>).size()"),
    "dbl": (
        "(<dbl> + <dbl>)",
        "(<dbl> - <dbl>)",
        "(<dbl> * <dbl>)",
        "(<dbl> / <dbl>)",
        "-(<dbl>)",
        "double(<int>)",
        "double(<uint>)",
    ),
    "uint": ("(<uint> + <uint>)", "(<uint> - <uint>)", "(<uint> / <uint>)", "(<uint> % <uint>)", "uint(<int>)"),
    "str": (
        "<str>.charAt(<int>)",
        "<str>.lowerAscii()",
        "<str>.upperAscii()",
        "<str>.replace(<str>, <str>)",
        "<str>.substring(<int>)",
        "<str>.trim()",
        "<strs>.join(<str>)",
        "<opt>.orValue(<str>)",
        "<opt>.value()",
    ),
    "strs": ("<str>.split('/')", "<str>.split('a', <int>)"),
    "opt": ("<map>[?<str>]", "<strs>[?<int>]", "optional.of(<str>)", "<opt>.or(<opt>)", "<map>.?a"),
}


def _templates() -> dict[str, tuple[str, ...]]:
    unordered = ("<map>.map(", "<map>.filter(")
    standard = {
        kind: tuple(template for template in of if not template.startswith(unordered)) for kind, of in STANDARD.items()
    }
    return {kind: (*standard.get(kind, ()), *EXTENSIONS.get(kind, ())) for kind in {**STANDARD, **EXTENSIONS}}


def _leaves() -> dict[str, st.SearchStrategy[str]]:
    names = {kind: st.just(name) for name, (kind, _, _) in VARIABLES.items()}
    return {
        **{kind: name | LITERALS[kind] for kind, name in names.items()},
        "opt": st.just("optional.none()"),
        "dbl": st.sampled_from(("0.0", "-1.5", "1.0", "2.0", "1e300", "9223372036854775808.0")),
        "uint": st.sampled_from(("0u", "1u", "7u", "18446744073709551615u")),
    }


GRAMMAR = Grammar(_leaves(), _templates())
TEXTS = st.text(TEXT, max_size=6)
INPUTS = st.fixed_dictionaries(
    {
        "b": st.booleans(),
        "i": st.integers(-3, 9) | st.sampled_from((2**63 - 1, -(2**63))),
        "s": TEXTS,
        "ii": st.lists(st.integers(-3, 3), max_size=4),
        "ss": st.lists(TEXTS, max_size=4),
        "m": st.dictionaries(st.sampled_from(("a", "b", "", "a/b")), TEXTS, max_size=4),
    }
)
ERROR = "an error"


def ours(text: str, inputs: dict[str, Any]) -> Any:
    try:
        return OURS.compile(text).evaluate(*(inputs[name] for name in VARIABLES))
    except EvalError:
        return ERROR


def theirs(text: str, inputs: dict[str, Any]) -> Any:
    program = THEIRS.compile(text)
    try:
        value = program.eval(data=inputs)
    except RuntimeError:
        return ERROR
    return ERROR if value.type() == cel.Type.ERROR else value.plain_value()


def shown(value: Any) -> str:
    """A text that tells True from 1 and -0.0 from 0.0, takes NaN for itself, and leaves the order of keys open."""
    if isinstance(value, UInt):
        return str(int(value))
    return repr(sorted(value.items()) if isinstance(value, dict) else value)


@settings(max_examples=500, deadline=None)
@given(
    text=st.sampled_from(("bool", "int", "str", "dbl", "uint", "ints", "strs", "map")).flatmap(
        lambda kind: expressions(GRAMMAR, kind)
    ),
    inputs=INPUTS,
)
def test_agrees_with_googles_engine(text: str, inputs: dict[str, Any]) -> None:
    want = theirs(text, inputs)
    event("error" if want is ERROR else type(want).__name__)
    got = ours(text, inputs)
    assert shown(got) == shown(want)
