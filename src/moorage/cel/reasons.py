"""Which part of an expression decided its value, or made it fail, with the values that it read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.cel.ast import Call, Comprehension, Expr, Ident, Literal, Select, children
from moorage.cel.errors import CompileError, EvalError, Source
from moorage.cel.evaluate.evaluator import Trace
from moorage.cel.program import Program
from moorage.cel.syntax.lexer import Token, tokens
from moorage.cel.syntax.parser import parse
from moorage.cel.syntax.unparse import literal, unparse

_SHOWN_MAX = 120
_BEFORE, _AFTER = 8, 24
"""How many tokens a part may have before its first position and after its last one: names, brackets, arguments."""


def explain(program: Program, *values: Any) -> str:
    """A sentence: "`taint.value == '950'` is false: taint.value is '800'"."""
    trace = program.trace(*values)
    deciding = _deciding(program.checked.expr, trace)
    outcome = trace.get(deciding.id)
    shown = f"failed: {outcome}" if isinstance(outcome, EvalError) else f"is {_short(literal(outcome))}"
    reads = [f"{unparse(read)} is {_short(literal(trace[read.id]))}" for read in _reads(deciding, trace)]
    return f"`{_short(unparse(deciding))}` {shown}" + (f": {', '.join(dict.fromkeys(reads))}" if reads else "")


def deciding_part(program: Program, *values: Any) -> tuple[int, int]:
    """Where the part that decided, or failed, begins and ends in the source."""
    source = program.checked.source
    deciding = _deciding(program.checked.expr, program.trace(*values))
    text, lexed = unparse(deciding), tokens(source)[0][:-1]
    offsets = list(_offsets(deciding))
    first = max(at for at, token in enumerate(lexed) if token.offset <= min(offsets))
    last = max(at for at, token in enumerate(lexed) if token.offset <= max(offsets))
    for end in range(last, min(last + _AFTER, len(lexed))):
        for start in range(first, max(first - _BEFORE, -1), -1):
            begin, stop = lexed[start].offset, _end(lexed[end])
            if _text_of(program, source.text[begin:stop]) == text:
                return begin, stop
    return 0, len(source.text)


def _offsets(expr: Expr) -> Iterator[int]:
    waiting = [expr.macro if isinstance(expr, Comprehension) and expr.macro else expr]
    while waiting:
        node = waiting.pop()
        yield node.offset
        waiting += children(node)


def _end(token: Token) -> int:
    return token.offset + len(token.text)


def _text_of(program: Program, text: str) -> str:
    """A part of a source in the form in which parts are compared; empty when it is no expression by itself."""
    env = program.checked.env
    try:
        return unparse(parse(Source(text), env.macros, optional_syntax="_?._" in env.functions))
    except CompileError:
        return ""


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
