"""Semantic versions: `semver`, `isSemver`, comparison, and `semver.compare` of a version with a constraint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.bounded import remember_short
from moorage.cel.cost.sizes import TRAVERSAL, add_sizes, scale, scaled
from moorage.cel.errors import EvalError
from moorage.cel.ext import costs
from moorage.cel.ext.declare import Costing, function, method, plain
from moorage.cel.library import CallCost, Library, Operand
from moorage.cel.types import BOOL, INT, STRING, opaque
from moorage.cel.values import INT_MAX, register
from moorage.gotext import SPACE
from moorage.semver import Constraint, Version, VersionError, parse, parse_constraint, parse_tolerant

SEMVER_TYPE = opaque("kubernetes.Semver")

_strict = remember_short(4096)(parse)


def _semver(text: str, normalize: bool = False) -> Version:
    try:
        return _parse(text, normalize)
    except VersionError as error:
        raise EvalError(str(error)) from None


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _parse(text, normalize)
    except VersionError:
        return False
    return True


def _parse(text: str, normalize: bool) -> Version:
    # Normalizing allows all that a tolerant reader allows except spaces around, which the strict reader refuses.
    if normalize and text.strip(SPACE) == text:
        return parse_tolerant(text)
    return _strict(text)


def _compare(a: Version, b: Version) -> int:
    return (a > b) - (a < b)


def _number(of: Callable[[Version], int]) -> Callable[[Version], int]:
    def number(version: Version) -> int:
        if of(version) > INT_MAX:
            raise EvalError("integer overflow")
        return of(version)

    return number


def _satisfies(text: str, constraint: str) -> bool:
    return _test(_constraint(constraint), text)


def _constraint(text: str) -> Constraint:
    try:
        return parse_constraint(text)
    except VersionError as error:
        raise EvalError(str(error)) from None


def _test(constraint: Constraint, text: str) -> bool:
    try:
        return constraint(parse_tolerant(text))
    except VersionError as error:
        raise EvalError(str(error)) from None


def _bind(constants: dict[int, Any]) -> Callable[[str], bool] | None:
    """Read a constant constraint once for all calls."""
    if set(constants) != {1}:
        return None
    constraint = _constraint(constants[1])
    return lambda text: _test(constraint, text)


def _estimate(operands: list[Operand]) -> CallCost:
    return CallCost(scale(add_sizes(operands[0].size, operands[1].size), TRAVERSAL))


def _measure(args: tuple[Any, ...], _: Any) -> int:
    return scaled(len(args[0]) + len(args[1]), TRAVERSAL)


register(Version, SEMVER_TYPE)

_PARSING = costs.traversal()
_ONE, _TWO = (SEMVER_TYPE,), (SEMVER_TYPE, SEMVER_TYPE)

LIBRARY = Library(
    "kubernetes.semver",
    (
        function(
            "semver",
            plain("string_to_semver", (STRING,), SEMVER_TYPE, _semver, _PARSING),
            plain("string_bool_to_semver", (STRING, BOOL), SEMVER_TYPE, _semver, _PARSING),
        ),
        function(
            "isSemver",
            plain("is_semver_string", (STRING,), BOOL, _is_semver, _PARSING),
            plain("is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver, _PARSING),
        ),
        function("isGreaterThan", method("semver_is_greater_than", _TWO, BOOL, lambda a, b: a > b)),
        function("isLessThan", method("semver_is_less_than", _TWO, BOOL, lambda a, b: a < b)),
        function("compareTo", method("semver_compare_to", _TWO, INT, _compare)),
        function("major", method("semver_major", _ONE, INT, _number(lambda version: version.major))),
        function("minor", method("semver_minor", _ONE, INT, _number(lambda version: version.minor))),
        function("patch", method("semver_patch", _ONE, INT, _number(lambda version: version.patch))),
        function(
            "semver.compare",
            plain("semver_compare", (STRING, STRING), BOOL, _satisfies, Costing(_estimate, _measure), _bind),
        ),
    ),
)
