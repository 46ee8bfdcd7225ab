"""Kubernetes' functions with regular expressions: `find` and `findAll`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.cel.ast import Call, Expr, Literal
from moorage.cel.errors import EvalError
from moorage.cel.ext import costs
from moorage.cel.ext.declare import Costing, function, method
from moorage.cel.library import Bind, CallCost, Library, Operand, Overload, Size
from moorage.cel.stdlib.patterns import PatternError, pattern
from moorage.cel.types import INT, STRING, Type, list_of


def _compiled(regex: str) -> Any:
    try:
        return pattern(regex)
    except PatternError as error:
        raise EvalError(f"Illegal regex: {error}") from None


def _first(compiled: Any, text: str) -> str:
    match = compiled.search(text)
    return match.group() if match else ""


def _all(compiled: Any, text: str, limit: int = -1) -> list[str]:
    """All matches that do not overlap, or the first `limit` of them unless it is negative."""
    matches: list[str] = []
    if limit == 0:
        return matches
    end = -1
    for match in compiled.finditer(text):
        # Go leaves out an empty match right behind another match.
        if match.start() == match.end() == end:
            continue
        end = match.end()
        matches.append(match.group())
        if len(matches) == limit:
            break
    return matches


def _bound(search: Callable[..., Any]) -> Bind:
    """With a constant pattern, compile it once for all calls."""

    def bind(constants: dict[int, Any]) -> Callable[..., Any] | None:
        if set(constants) != {1}:
            return None
        compiled = _compiled(constants[1])
        return lambda text, *limit: search(compiled, text, *limit)

    return bind


def _check(call: Call, _: dict[int, Type]) -> tuple[Expr, str] | None:
    """A pattern that is written out must be one."""
    regex = call.args[0]
    if isinstance(regex, Literal):
        try:
            pattern(regex.value)
        except PatternError:
            return regex, f"invalid {call.function} argument"
    return None


def _find_estimate(operands: list[Operand]) -> CallCost:
    return CallCost(costs.matching(operands[0].size, operands[1].size), costs.up_to_first(operands))


def _find_all_estimate(operands: list[Operand]) -> CallCost:
    text, regex = operands[0].size, operands[1].size
    # As many matches as characters, and a match is no longer than the text.
    return CallCost(costs.matching(text, regex), Size(0, costs.pieces(text)), Size(0, text.max))


def _method(name: str, args: tuple[Type, ...], result: Type, search: Callable[..., Any], cost: Costing) -> Overload:
    def impl(text: str, regex: str, *limit: int) -> Any:
        return search(_compiled(regex), text, *limit)

    return method(name, args, result, impl, cost, _bound(search), _check)


_FIND, _FIND_ALL = Costing(_find_estimate, costs.matched), Costing(_find_all_estimate, costs.matched)
_TEXTS = list_of(STRING)

LIBRARY = Library(
    "kubernetes.regex",
    (
        function("find", _method("string_find_string", (STRING, STRING), STRING, _first, _FIND)),
        function(
            "findAll",
            _method("string_find_all_string", (STRING, STRING), _TEXTS, _all, _FIND_ALL),
            _method("string_find_all_string_int", (STRING, STRING, INT), _TEXTS, _all, _FIND_ALL),
        ),
    ),
)
