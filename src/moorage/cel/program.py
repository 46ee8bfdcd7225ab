"""A compiled expression, ready to be evaluated many times."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

from moorage.cel.ast import Call, Comprehension, children
from moorage.cel.check.checker import Checked
from moorage.cel.check.reads import reads
from moorage.cel.codegen.generator import NotNativeError, generate
from moorage.cel.cost import estimate
from moorage.cel.errors import EvalError
from moorage.cel.evaluate.constants import ConstantParts
from moorage.cel.evaluate.evaluator import Evaluator, Trace
from moorage.cel.evaluate.folds import shape
from moorage.cel.inputs import inputs
from moorage.cel.library import Cost
from moorage.cel.stdlib.operators import no_such_key
from moorage.cel.types import Type
from moorage.pace import resting, set_rest

T = TypeVar("T")
_NODE_BYTES = 400
_LEAST_BYTES = 4096


class _Walked:
    """An expression that is walked node by node, where there is no native code or it has raised something.

    It does not know its program, so that a program that nobody uses any more is freed at once.
    """

    def __init__(self, checked: Checked) -> None:
        self._checked = checked

    def evaluate(self, *values: Any) -> Any:
        """The value of the expression, or EvalError."""
        constants = self.constants.values
        return on_enough_stack(lambda: Evaluator(self._checked, values, constants=constants).eval(self._checked.expr))

    def recover(self, error: Exception, *values: Any) -> Any:
        """Decide what an exception of the native code means: an error of evaluation, unless something absorbs it."""
        if not self._absorbs:
            if isinstance(error, EvalError):
                raise error
            if isinstance(error, KeyError):
                raise no_such_key(error.args[0]) from None
        return self.evaluate(*values)

    @cached_property
    def _absorbs(self) -> bool:
        """Whether `&&`, `||` or a loop can absorb the error of a part."""
        waiting = [self._checked.expr]
        while waiting:
            expr = waiting.pop()
            if isinstance(expr, Call) and expr.function in ("_&&_", "_||_"):
                return True
            if isinstance(expr, Comprehension) and shape(expr) is None:
                return True
            waiting += children(expr)
        return False

    @cached_property
    def constants(self) -> ConstantParts:
        """The parts that are the same at every evaluation."""
        return on_enough_stack(lambda: ConstantParts(self._checked))


class Program:
    """A checked expression and the function that evaluates it.

    `evaluate` takes the values of the environment's variables, in the order of their declaration, and returns the value
    of the expression or raises EvalError. It is a plain function: fetch it once, call it often, from any thread.
    """

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.type: Type = checked.type
        self._walked = _Walked(checked)
        self.evaluate: Callable[..., Any] = self._compiled()
        self._reads: dict[tuple[str, ...], frozenset[str] | None] = {}

    def __call__(self, **values: Any) -> Any:
        """Evaluate with plain Python data by name: a dict is an object of the declared type, a datetime a timestamp."""
        return self.evaluate(*inputs(self.checked.env, values))

    def _compiled(self) -> Callable[..., Any]:
        if self.checked.failures:
            return self._walked.evaluate
        try:
            return generate(self.checked, self._walked.recover)
        except NotNativeError:
            return self._walked.evaluate

    def trace(self, *values: Any) -> Trace:
        """What every sub-expression that was evaluated gave, by node id: its value (in a loop, the last) or error."""
        trace: Trace = {}

        def run() -> None:
            with suppress(EvalError):  # the trace has it
                Evaluator(self.checked, values, trace).eval(self.checked.expr)

        on_enough_stack(run)
        return trace

    @property
    def size(self) -> int:
        """About how many bytes it takes in memory: twenty to two hundred times as many as its text has."""
        return _LEAST_BYTES + _NODE_BYTES * len(self.checked.types)

    def reads(self, path: tuple[str, ...]) -> frozenset[str] | None:
        """The keys of the map at a path of which an evaluation may read the values; None when it may read all."""
        if path not in self._reads:
            self._reads[path] = reads(self.checked, path)
        return self._reads[path]

    @property
    def constants(self) -> ConstantParts:
        """The parts that are the same at every evaluation, and why one of them can never be evaluated."""
        return self._walked.constants

    @cached_property
    def cost(self) -> Cost:
        """The least and the most that an evaluation can cost, given the sizes that the environment declares."""
        return on_enough_stack(lambda: estimate.estimate(self.checked, self.checked.env.sizes))


def on_enough_stack(function: Callable[[], T]) -> T:
    """Call a function; when the caller has used up the stack, call it again on a thread's fresh one."""
    try:
        return function()
    except RecursionError:
        pass
    outcome: list[T] = []
    failure: list[BaseException] = []
    rest = resting()

    def run() -> None:
        set_rest(rest)
        try:
            outcome.append(function())
        except BaseException as error:  # noqa: BLE001 - it is raised again where the result is awaited
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
