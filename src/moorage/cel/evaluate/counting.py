"""What one evaluation did cost, counted as cel-go's tracker counts it: the check on what `cost` says beforehand."""

from __future__ import annotations

from typing import Any, NamedTuple

from moorage.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, MapLiteral, Select
from moorage.cel.check.checker import Checked
from moorage.cel.cost import tariff
from moorage.cel.cost.estimate import ACCESS, LIST, MAP
from moorage.cel.errors import EvalError
from moorage.cel.evaluate.evaluator import Evaluator, Trace
from moorage.cel.evaluate.folds import shape
from moorage.cel.evaluate.runtime import accepts

_FREE = frozenset(("_&&_", "_||_", "_?_:_"))
_PRICES: dict[type, int] = {Ident: ACCESS.max, Select: ACCESS.max, ListLiteral: LIST.max, MapLiteral: MAP.max}


class Count(NamedTuple):
    """The outcome of an evaluation and its cost. `failed` says that a part of it failed, whether absorbed or not."""

    value: Any
    cost: int
    failed: bool


def count(checked: Checked, *values: Any) -> Count:
    """Evaluate an expression and count. When it fails, the EvalError is the value."""
    counter = _Counter(checked, values)
    return Count(counter.attempt(checked.expr), counter.cost, counter.failed)


class _Counter(Evaluator):
    """Walks loops step by step, as their macros expand them, because every step has its price."""

    def __init__(self, checked: Checked, values: tuple[Any, ...]) -> None:
        self.values: Trace = {}
        super().__init__(checked, values, self.values)
        self.cost = 0
        self.failed = False

    def eval(self, expr: Expr) -> Any:
        """The value of a node, which is paid for unless it fails."""
        try:
            value = self.loop(expr) if isinstance(expr, Comprehension) else super().eval(expr)
        except EvalError:
            self.failed = True
            raise
        self.values[expr.id] = value
        self.cost += self.price(expr, value)
        return value

    def loop(self, expr: Comprehension) -> Any:
        outer = self.locals
        fold = shape(expr)
        try:
            if fold is None or fold.kind != "let":
                return self.fold(expr)
            self.eval(expr.range)
            return self.let(expr, fold)
        finally:
            self.locals = outer

    def price(self, expr: Expr, value: Any) -> int:
        if isinstance(expr, Call):
            return 0 if expr.function in _FREE else self.price_of_call(expr, value)
        if isinstance(expr, Select) and expr.test_only:
            return 0
        return _PRICES.get(type(expr), 0)

    def price_of_call(self, expr: Call, value: Any) -> int:
        overloads = self.checked.overloads[expr.id]
        args = tuple([self.values.get(operand.id) for operand in self.operands(expr)])
        called = next((one for one in overloads if all(map(accepts, one.args, args))), overloads[0])
        measure = called.measure or tariff.MEASURES.get(called.id)
        return measure(args, value) if measure else tariff.CALL.cost.max
