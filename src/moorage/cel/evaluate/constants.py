"""The parts of an expression that are the same at every evaluation, found as cel-go does when it builds a program."""

from __future__ import annotations

from typing import Any

from moorage.cel.ast import Call, Expr, ListLiteral, Literal, MapLiteral, children
from moorage.cel.check.checker import Checked
from moorage.cel.errors import EvalError
from moorage.cel.evaluate.evaluator import Evaluator

_CONVERSIONS = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"))


class ConstantParts:
    """The values of lists, maps and conversions that are made of nothing but constants, by node id."""

    def __init__(self, checked: Checked) -> None:
        self.values: dict[int, Any] = {}
        self.problem = ""
        """Why a conversion, or a function that prepares for a constant argument, fails at every evaluation."""
        self._checked = checked
        for expr in reversed(_nodes(checked.expr)):
            try:
                self._visit(expr)
            except EvalError as error:
                # A map in which a key is repeated is an error value to cel-go, and only an evaluation meets it.
                if isinstance(expr, Call):
                    self.problem = self.problem or str(error)

    def _visit(self, expr: Expr) -> None:
        match expr:
            case Literal():
                pass
            case ListLiteral(elements=elements) if not expr.optional and all(map(self._is_constant, elements)):
                self._evaluate(expr)
            case MapLiteral(entries=entries):
                parts = [part for entry in entries for part in (entry.key, entry.value)]
                if all(map(self._is_constant, parts)) and not any(entry.optional for entry in entries):
                    self._evaluate(expr)
            case Call(function=function, args=[argument]) if function in _CONVERSIONS and expr.target is None:
                if self._is_constant(argument):
                    self._evaluate(expr)
            case Call():
                self._prepare(expr)

    def _is_constant(self, expr: Expr) -> bool:
        return isinstance(expr, Literal) or expr.id in self.values

    def _evaluate(self, expr: Expr) -> None:
        self.values[expr.id] = Evaluator(self._checked, (), constants=self.values).eval(expr)

    def _prepare(self, expr: Call) -> None:
        """Let a function say that it cannot do with what is written as one of its further arguments."""
        operands = [expr.target, *expr.args] if expr.target is not None else expr.args
        written = {index: arg.value for index, arg in enumerate(operands) if index and isinstance(arg, Literal)}
        for overload in self._checked.overloads.get(expr.id, ()) if written else ():
            if overload.bind is not None:
                overload.bind(written)


def _nodes(expr: Expr) -> list[Expr]:
    """All nodes, each before those it is made of."""
    found = [expr]
    for node in found:
        found += children(node)
    return found
