"""What a comprehension does, recognised from its parts, so that it can run as a native loop."""

from __future__ import annotations

from typing import NamedTuple

from moorage.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, MapLiteral


class Fold(NamedTuple):
    """One of the shapes that macros expand to.

    `all`, `exists` and `one` test `body`; `list` collects it; `insert` collects it under `key`; `merge` collects the
    maps that it gives; `let` evaluates it with the accumulator bound. All but the first three take only the elements
    that pass `test`, when there is one.
    """

    kind: str
    body: Expr
    test: Expr | None = None
    key: Expr | None = None


def shape(fold: Comprehension) -> Fold | None:
    """The shape of a comprehension; None when it is of another one and has to be folded step by step."""
    if isinstance(fold.range, ListLiteral) and not fold.range.elements and _is(fold.condition, False):
        return Fold("let", fold.result)
    if not isinstance(fold.step, Call):
        return None
    if _is_accu(fold, fold.result):
        return _quantifier(fold, fold.step) or _collection(fold, fold.step)
    return _exactly_one(fold, fold.step)


def _quantifier(fold: Comprehension, step: Call) -> Fold | None:
    for kind, function, start in (("all", "_&&_", True), ("exists", "_||_", False)):
        if step.function == function and _is(fold.init, start) and _is_accu(fold, step.args[0]) and _stops(fold):
            return Fold(kind, step.args[1])
    return None


def _stops(fold: Comprehension) -> bool:
    return isinstance(fold.condition, Call) and fold.condition.function == "@not_strictly_false"


def _exactly_one(fold: Comprehension, step: Call) -> Fold | None:
    result = fold.result
    counts = isinstance(result, Call) and result.function == "_==_" and _is_accu(fold, result.args[0])
    if counts and _is(fold.init, 0) and step.function == "_?_:_" and _is(fold.condition, True):
        return Fold("one", step.args[0])
    return None


def _collection(fold: Comprehension, step: Call) -> Fold | None:
    test: Expr | None = None
    if not _is(fold.condition, True):
        return None
    if step.function == "_?_:_" and _is_accu(fold, step.args[2]) and isinstance(step.args[1], Call):
        test, step = step.args[0], step.args[1]
    if not step.args or not _is_accu(fold, step.args[0]):
        return None
    if isinstance(fold.init, ListLiteral) and not fold.init.elements and step.function == "_+_":
        added = step.args[1]
        return Fold("list", added.elements[0], test) if isinstance(added, ListLiteral) and added.elements else None
    if isinstance(fold.init, MapLiteral) and not fold.init.entries and step.function == "cel.@mapInsert":
        entry = len(step.args) == 2
        return Fold("merge", step.args[1], test) if entry else Fold("insert", step.args[2], test, step.args[1])
    return None


def _is_accu(fold: Comprehension, expr: Expr) -> bool:
    return isinstance(expr, Ident) and expr.name == fold.accu


def _is(expr: Expr, value: bool | int) -> bool:
    return isinstance(expr, Literal) and type(expr.value) is type(value) and expr.value == value
