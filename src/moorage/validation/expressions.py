"""Checks of CEL expressions at admission: each must be short, compile, and be cheap, and all of a pod together too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moorage.api.meta import Object
from moorage.api.placementrules import terms_of, tolerations_of
from moorage.match.expressions import MAX_BYTES, MAX_COST, Expression, NodeExpression, TaintExpression
from moorage.validation.field import FieldError, forbidden, invalid, too_long

MAX_EXPRESSIONS = 100
MAX_REFUSED = 10
"""How many expressions of a specification are refused one by one: the others are not compiled then."""
MAX_TOTAL_COST = 10_000_000
"""What the estimated costs of all expressions of a pod, of a pod template or of another specification may add up to."""

Compile = Callable[[str], Expression]
Sources = list[tuple[Compile, str]]


class ExpressionBudget:
    """The expressions of one specification, and what they may cost together.

    What all of them do is reported at `path`, once. When there are too many, none is even compiled.
    """

    def __init__(self, path: str, sources: Sources | None = None) -> None:
        """`sources` are all expressions of the specification; none when an update leaves them as they are."""
        self.path = path
        self._sources = sources or []
        self.has_too_many = len(self._sources) > MAX_EXPRESSIONS
        self._refused = 0
        self._compiled: dict[tuple[Compile, str], Expression] = {}

    def check(self, path: str, source: str, compile_expression: Compile) -> Iterator[FieldError]:
        """What is wrong with one of the expressions."""
        if self.has_too_many or self._refused >= MAX_REFUSED:
            return
        if _is_long(source):
            yield too_long(path, MAX_BYTES)
            return
        compiled = self._compile(compile_expression, source)
        if compiled.problem:
            self._refused += 1
            yield invalid(path, source, compiled.refusal)
        elif compiled.cost > MAX_COST:
            yield forbidden(self.path, "too complex, exceeds cost limit")

    def _compile(self, compile_expression: Compile, source: str) -> Expression:
        """Once for all questions: the programs of all expressions together may not fit into the cache."""
        key = compile_expression, source
        if key not in self._compiled:
            self._compiled[key] = compile_expression(source)
        return self._compiled[key]

    def errors(self) -> Iterator[FieldError]:
        """What is wrong with all of them together."""
        if self.has_too_many:
            yield forbidden(
                self.path, f"{len(self._sources)} expressions, which is more than the limit of {MAX_EXPRESSIONS}"
            )
            return
        if self._refused >= MAX_REFUSED:
            yield forbidden(self.path, f"{self._refused} expressions are invalid, and no further ones were checked")
            return
        compiled = [self._compile(*each) for each in self._sources if not _is_long(each[1])]
        # One that costs too much is refused for that.
        total = sum(expression.cost for expression in compiled if expression.cost <= MAX_COST)
        if total > MAX_TOTAL_COST:
            detail = f"the costs of all expressions add up to {total}, which is more than the limit of {MAX_TOTAL_COST}"
            yield forbidden(self.path, detail)


def expressions_of(item: Object) -> Sources:
    """Every expression of an object's specification: of tolerations and of node selector terms."""
    sources: Sources = [
        (TaintExpression, toleration.expression)
        for path, tolerations in tolerations_of(item)
        if not path.startswith("status.")
        for toleration in tolerations
        if toleration.expression
    ]
    sources += ((NodeExpression, source) for _, term in terms_of(item) for source in term.match_cel_expressions)
    return sources


def _is_long(source: str) -> bool:
    return len(source.encode("utf-8", "surrogatepass")) > MAX_BYTES
