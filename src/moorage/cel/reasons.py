"""Which part of an expression decided its value, or made it fail, with the values that it read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.cel.ast import Call, Comprehension, Expr, Ident, Literal, Select, children
from moorage.cel.errors import EvalError
from moorage.cel.evaluate.evaluator import Trace
from moorage.cel.program import Program
from moorage.cel.syntax.unparse import literal, unparse

_SHOWN_MAX = 120


def explain(program: Program, *values: Any) -> str:
    """A sentence: "`taint.value == '950'` is false: taint.value is '800'"."""
    trace = program.trace(*values)
    deciding = _deciding(program.checked.expr, trace)
    outcome = trace.get(deciding.id)
    shown = f"failed: {outcome}" if isinstance(outcome, EvalError) else f"is {_short(literal(outcome))}"
    reads = [f"{unparse(read)} is {_short(literal(trace[read.id]))}" for read in _reads(deciding, trace)]
    return f"`{_short(unparse(deciding))}` {shown}" + (f": {', '.join(dict.fromkeys(reads))}" if reads else "")


def _deciding(expr: Expr, trace: Trace) -> Expr:
    """The innermost condition without which the whole would have been different."""
    while isinstance(expr, Call):
        outcome = trace.get(expr.id)
        if expr.function in ("_&&_", "_||_"):
            # The first operand with the outcome of the whole: the false one of &&, the one that failed.
            expr = next((arg for arg in expr.args if _alike(trace.get(arg.id), outcome)), expr.args[0])
        elif expr.function == "_?_:_" and _alike(trace.get(expr.args[0].id), outcome, failed_only=True):
            expr = expr.args[0]
        elif expr.function == "_?_:_":
            expr = expr.args[1 if trace.get(expr.args[0].id) else 2]
        elif isinstance(outcome, EvalError):
            failed = next((child for child in children(expr) if isinstance(trace.get(child.id), EvalError)), None)
            if failed is None or not isinstance(failed, Call):
                return failed if isinstance(failed, Select | Comprehension) else expr
            expr = failed
        else:
            return expr
    return expr


def _alike(one: Any, other: Any, *, failed_only: bool = False) -> bool:
    if isinstance(one, EvalError) or isinstance(other, EvalError):
        return isinstance(one, EvalError) and isinstance(other, EvalError)
    return not failed_only and one is other


def _reads(expr: Expr, trace: Trace) -> Iterator[Expr]:
    """The variables, fields and look-ups below a node that gave a value worth showing; in a loop there are too many."""
    waiting = [] if isinstance(expr, Comprehension) else list(reversed(children(expr)))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Comprehension | Literal):
            continue
        is_read = isinstance(node, Ident | Select) or (isinstance(node, Call) and node.function == "_[_]")
        value = trace.get(node.id)
        if is_read and isinstance(value, str | int | float | bool):
            yield node
        else:
            waiting += reversed(children(node))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"
