"""Checks of CEL expressions at admission: they must be short, compile, and be cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moorage.match.expressions import MAX_BYTES, MAX_COST, NodeExpression, TaintExpression
from moorage.validation.field import FieldError, forbidden, invalid, too_long

Compile = Callable[[str], TaintExpression | NodeExpression]


def expression_errors(path: str, source: str, compile_expression: Compile, spec_path: str) -> Iterator[FieldError]:
    """What is wrong with an expression. A cost past the limit is reported at `spec_path`, once for all expressions."""
    if len(source.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        yield too_long(path, MAX_BYTES)
        return
    compiled = compile_expression(source)
    if compiled.problem:
        yield invalid(path, source, f"compilation failed: {compiled.problem}")
    elif compiled.cost > MAX_COST:
        yield forbidden(spec_path, "too complex, exceeds cost limit")
