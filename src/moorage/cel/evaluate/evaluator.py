"""The evaluator that absorbs errors: it walks the tree when native code met one, and can note what every node gave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from moorage.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, MapLiteral, Message, Select
from moorage.cel.check.checker import Checked
from moorage.cel.errors import EvalError
from moorage.cel.evaluate.folds import Fold, shape
from moorage.cel.evaluate.runtime import (
    ANY_TYPE,
    boolean,
    dispatch,
    elements,
    has,
    make_list,
    make_map,
    merge,
    optional_select,
    pairs,
    select,
)
from moorage.cel.types import TypeKind
from moorage.cel.values import Optional
from moorage.pace import with_rests

Trace = dict[int, Any]
"""By node id, the value that the node gave last, or the EvalError."""


class Evaluator:
    """One evaluation of a checked expression."""

    def __init__(
        self,
        checked: Checked,
        values: tuple[Any, ...],
        trace: Trace | None = None,
        constants: Mapping[int, Any] | None = None,
    ) -> None:
        """`constants` are the values of lists and maps that need not be made anew, by node id."""
        self.checked = checked
        self.constants = constants or {}
        self.fields = checked.env.fields
        self.variables = dict(zip(checked.env.variables, values, strict=False))
        self.locals: dict[str, Any] = {}
        self.trace = trace

    def eval(self, expr: Expr) -> Any:
        """The value of a node; EvalError when it has none."""
        if self.trace is None:
            return _EVALS[type(expr)](self, expr)
        try:
            value = _EVALS[type(expr)](self, expr)
        except EvalError as error:
            self.trace[expr.id] = error
            raise
        self.trace[expr.id] = value
        return value

    def fail(self, expr: Expr) -> None:
        """Raise the error that a lenient check has left at a node."""
        if expr.id in self.checked.failures:
            raise EvalError(self.checked.failures[expr.id])

    def literal(self, expr: Literal) -> Any:
        """A constant."""
        self.fail(expr)
        return expr.value

    def ident(self, expr: Ident) -> Any:
        """A variable or type."""
        self.fail(expr)
        name = self.checked.names.get(expr.id)
        if name is not None:
            return self.named(name)
        value = self.locals[expr.name]
        if isinstance(value, EvalError):
            raise value
        return value

    def named(self, name: str) -> Any:
        """What a declared name stands for."""
        if name in self.variables:
            return self.variables[name]
        if name in self.checked.env.variables:
            raise EvalError(f"no such attribute(s): {name}")
        return self.checked.env.type_names[name]

    def select(self, expr: Select) -> Any:
        """A field, or whether there is one."""
        name = self.checked.names.get(expr.id)
        if name is not None:
            return self.named(name)
        operand = self.eval(expr.operand)
        self.fail(expr)
        fields = self.fields_of(expr.operand)
        return has(operand, expr.field, fields) if expr.test_only else select(operand, expr.field, fields)

    def fields_of(self, operand: Expr) -> Any:
        """The fields that an operand can have: those of its type when it is a declared object."""
        kind = self.checked.types[operand.id]
        return {kind.name: self.fields[kind.name]} if kind.kind is TypeKind.OBJECT else self.fields

    def call(self, expr: Call) -> Any:
        """A call: some operators do not evaluate all of their operands."""
        special = _LAZY.get(expr.function)
        if special is not None:
            return special(self, expr)
        args = tuple([self.eval(arg) for arg in self.operands(expr)])
        self.fail(expr)
        function = ANY_TYPE.get(expr.function)
        if function is not None:
            return function(*args)
        return dispatch(self.checked.overloads[expr.id], args)

    def operands(self, expr: Call) -> list[Expr]:
        """The receiver, when there is one, and the arguments."""
        return [expr.target, *expr.args] if expr.target is not None else expr.args

    def logical(self, expr: Call) -> bool:
        """&& and ||: an operand that decides absorbs the error of the other."""
        return self.decided(expr.args, expr.function == "_||_")

    def decided(self, conditions: Iterable[Expr], deciding: bool) -> bool:
        """Whether some condition decides; when none does, the first error of them counts."""
        failure: EvalError | None = None
        for condition in conditions:
            try:
                if boolean(self.eval(condition)) is deciding:
                    return deciding
            except EvalError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not deciding

    def conditional(self, expr: Call) -> Any:
        """The branch that the condition chooses."""
        test, then, otherwise = expr.args
        return self.eval(then if boolean(self.eval(test)) else otherwise)

    def not_strictly_false(self, expr: Call) -> bool:
        """`@not_strictly_false`: true also for an error."""
        try:
            return self.eval(expr.args[0]) is not False
        except EvalError:
            return True

    def optional_or(self, expr: Call) -> Any:
        """`or` and `orValue`: the argument is evaluated only when the receiver holds nothing."""
        if expr.target is None or len(expr.args) != 1:
            raise EvalError("no such overload")
        receiver = self.eval(expr.target)
        self.fail(expr)
        if not isinstance(receiver, Optional):
            raise EvalError("no such overload")
        if not receiver.present:
            return self.eval(expr.args[0])
        return receiver if expr.function == "or" else receiver.value

    def optional_select(self, expr: Call) -> Optional:
        """`operand.?field`."""
        operand, field = expr.args
        assert isinstance(field, Literal)
        value = self.eval(operand)
        self.fail(expr)
        return optional_select(value, field.value, self.fields_of(operand))

    def list_literal(self, expr: ListLiteral) -> list[Any]:
        """A list."""
        if expr.id in self.constants:
            return cast(list[Any], self.constants[expr.id])
        return make_list((self.eval(node), index in expr.optional) for index, node in enumerate(expr.elements))

    def map_literal(self, expr: MapLiteral) -> dict[Any, Any]:
        """A map."""
        if expr.id in self.constants:
            return cast(dict[Any, Any], self.constants[expr.id])
        return make_map((self.eval(entry.key), self.eval(entry.value), entry.optional) for entry in expr.entries)

    def message(self, expr: Message) -> Any:
        """Object literals cannot be evaluated: objects only come from variables."""
        self.fail(expr)
        raise EvalError(f"unknown type: '{expr.name}'")

    def comprehension(self, expr: Comprehension) -> Any:
        """A loop."""
        outer = self.locals
        fold = shape(expr)
        try:
            if fold is None:
                return self.fold(expr)
            return _FOLDS[fold.kind](self, expr, fold)
        finally:
            self.locals = outer

    def steps(self, expr: Comprehension) -> Iterable[None]:
        """Bind the iteration variables to one element after the other."""
        container = self.eval(expr.range)
        self.fail(expr.range)
        self.locals = dict(self.locals)
        if expr.var2 is None:
            for element in with_rests(elements(container)):
                self.locals[expr.var] = element
                yield
        else:
            for key, value in with_rests(pairs(container)):
                self.locals[expr.var], self.locals[expr.var2] = key, value
                yield

    def fold(self, expr: Comprehension) -> Any:
        """Any comprehension, step by step. The accumulator may hold an error, which a later step can absorb."""
        accu = self.attempt(expr.init)
        for _ in self.steps(expr):
            self.locals[expr.accu] = accu
            if self.attempt(expr.condition) is False:
                break
            accu = self.attempt(expr.step)
        self.locals = {**self.locals, expr.accu: accu}
        return self.eval(expr.result)

    def attempt(self, expr: Expr) -> Any:
        """The value of a node or its error."""
        try:
            return self.eval(expr)
        except EvalError as error:
            return error

    def let(self, expr: Comprehension, fold: Fold) -> Any:
        """The body with a name bound."""
        bound = self.attempt(expr.init)
        self.locals = {**self.locals, expr.accu: bound}
        return self.eval(fold.body)

    def quantify(self, expr: Comprehension, fold: Fold) -> bool:
        """`all` and `exists`: an element that decides absorbs the errors of the others."""
        return self.decided((fold.body for _ in self.steps(expr)), fold.kind == "exists")

    def exactly_one(self, expr: Comprehension, fold: Fold) -> bool:
        """`exists_one`, which goes through all elements."""
        return [boolean(self.eval(fold.body)) for _ in self.steps(expr)].count(True) == 1

    def passes(self, fold: Fold) -> bool:
        """Whether the element is one to collect."""
        return fold.test is None or boolean(self.eval(fold.test))

    def collect(self, expr: Comprehension, fold: Fold) -> list[Any]:
        """`map`, `filter` and `transformList`."""
        return [self.eval(fold.body) for _ in self.steps(expr) if self.passes(fold)]

    def insert(self, expr: Comprehension, fold: Fold) -> dict[Any, Any]:
        """`transformMap`."""
        assert fold.key is not None
        key = fold.key
        steps = (None for _ in self.steps(expr) if self.passes(fold))
        return make_map((self.eval(key), self.eval(fold.body), False) for _ in steps)

    def merge(self, expr: Comprehension, fold: Fold) -> dict[Any, Any]:
        """`transformMapEntry`."""
        return merge(self.collect(expr, fold))


_LAZY: dict[str, Callable[[Evaluator, Call], Any]] = {
    "_&&_": Evaluator.logical,
    "_||_": Evaluator.logical,
    "_?_:_": Evaluator.conditional,
    "@not_strictly_false": Evaluator.not_strictly_false,
    "or": Evaluator.optional_or,
    "orValue": Evaluator.optional_or,
    "_?._": Evaluator.optional_select,
}

_FOLDS: dict[str, Callable[[Evaluator, Comprehension, Fold], Any]] = {
    "let": Evaluator.let,
    "all": Evaluator.quantify,
    "exists": Evaluator.quantify,
    "one": Evaluator.exactly_one,
    "list": Evaluator.collect,
    "insert": Evaluator.insert,
    "merge": Evaluator.merge,
}

_EVALS: dict[type, Callable[[Evaluator, Any], Any]] = {
    Literal: Evaluator.literal,
    Ident: Evaluator.ident,
    Select: Evaluator.select,
    Call: Evaluator.call,
    ListLiteral: Evaluator.list_literal,
    MapLiteral: Evaluator.map_literal,
    Message: Evaluator.message,
    Comprehension: Evaluator.comprehension,
}
