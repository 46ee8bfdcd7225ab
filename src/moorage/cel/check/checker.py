"""The type checker: what every node of a syntax tree is, or why it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.cel import types
from moorage.cel.ast import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Message,
    Select,
)
from moorage.cel.check.declarations import Declarations
from moorage.cel.check.unify import Bindings, assignable, has_variables, most_general, settle, show, substitute
from moorage.cel.errors import CompileError, EvalError, Issue, Source
from moorage.cel.library import Overload
from moorage.cel.types import BOOL, DYN, ERROR, INT, Type, TypeKind
from moorage.cel.values import type_of_value

_GROUND = frozenset(
    (
        TypeKind.BOOL,
        TypeKind.INT,
        TypeKind.UINT,
        TypeKind.DOUBLE,
        TypeKind.STRING,
        TypeKind.BYTES,
        TypeKind.DURATION,
        TypeKind.TIMESTAMP,
        TypeKind.OBJECT,
    )
)
_ANY_TYPES = {"_==_": BOOL, "_!=_": BOOL, "_?_:_": DYN}
_LOGICAL = ("_&&_", "_||_")
_VALIDATED = frozenset(("duration", "timestamp", "matches"))


class Checked:
    """A syntax tree with what the checker found out about it.

    A call of a namespaced function (`semver.compare(…)`) has been rewritten: the namespace is in `function`, and there
    is no target. Iteration variables are not in `names`. `failures` is empty unless the checks were asked to be
    lenient: it holds the nodes that fail when they are evaluated.
    """

    __slots__ = ("env", "expr", "failures", "names", "overloads", "source", "types")

    def __init__(self, env: Declarations, source: Source, expr: Expr) -> None:
        self.env = env
        self.source = source
        self.expr = expr
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[Overload, ...]] = {}
        self.names: dict[int, str] = {}
        self.failures: dict[int, str] = {}

    @property
    def type(self) -> Type:
        """The type of the whole expression."""
        return self.types[self.expr.id]


def check(env: Declarations, source: Source, expr: Expr, *, lenient: bool = False) -> Checked:
    """Check an expression. When lenient, what is wrong becomes an error of evaluation, as if nothing were checked."""
    checker = _Checker(env, source, expr, lenient)
    checker.check(expr)
    if checker.issues:
        raise CompileError(source, checker.issues)
    checked = checker.checked
    if checker.variables:
        settled: dict[int, Type] = {}
        types = checked.types
        checked.types = {node: settle(checker.bindings, kind, settled) for node, kind in types.items()}
        checker.types = checked.types
    if not lenient:
        checker.validate()
        if checker.issues:
            raise CompileError(source, checker.issues)
    return checked


class _Checker:
    def __init__(self, env: Declarations, source: Source, expr: Expr, lenient: bool) -> None:
        self.env = env
        self.checked = Checked(env, source, expr)
        self.types = self.checked.types
        self.issues: list[Issue] = []
        self.lenient = lenient
        self.locals: dict[str, Type] = {}
        self.bindings: Bindings = {}
        self.variables = 0
        self.validated: list[Call] = []
        self.aggregates: list[ListLiteral | MapLiteral] = []

    def check(self, expr: Expr) -> Type:
        """Find the type of a node and of everything below it."""
        kind = _CHECKS[type(expr)](self, expr)
        self.types[expr.id] = kind
        return kind

    def error(self, expr: Expr | MapEntry, message: str) -> Type:
        """Note an error; the type lets the check go on without errors that follow from it."""
        if self.lenient:
            self.checked.failures[expr.id] = message
            return DYN
        self.issues.append(Issue(expr.offset, message))
        return ERROR

    def mismatch(self, expr: Expr, expected: Type, actual: Type) -> Type:
        """Note a type that is not the expected one."""
        return self.error(expr, f"expected type '{show(expected)}' but found '{show(actual)}'")

    def undeclared(self, expr: Expr, name: str) -> Type:
        """Note a name that nobody declared."""
        return self.error(expr, f"undeclared reference to '{name}' (in container '{self.env.container}')")

    def known(self, kind: Type) -> Type:
        """The type with what has been found out about its variables."""
        return substitute(self.bindings, kind) if self.variables else kind

    def new_variable(self) -> Type:
        """A type variable that nothing is known about."""
        self.variables += 1
        return types.param(f"_var{self.variables - 1}")

    def assign(self, actual: Type, expected: Type) -> bool:
        """Whether the one may stand for the other. What that says about variables is kept only when it may."""
        if actual is expected:
            return True
        bindings = self.bindings.copy()
        if not assignable(bindings, actual, expected):
            return False
        self.bindings = bindings
        return True

    def literal(self, expr: Literal) -> Type:
        """The type of a constant."""
        return type_of_value(expr.value)

    def ident(self, expr: Ident) -> Type:
        """The type of a variable, or of a type's name."""
        local = self.locals.get(expr.name)
        if local is not None:
            return local
        resolved = self.env.resolve(expr.name)
        if resolved is None:
            return self.undeclared(expr, expr.name)
        self.checked.names[expr.id], kind = resolved
        return kind

    def select(self, expr: Select) -> Type:
        """The type of a field, or of a name with dots in it."""
        name = None if expr.test_only else self.qualified_name(expr)
        if name is not None:
            resolved = self.env.resolve(name)
            if resolved is not None:
                self.checked.names[expr.id], kind = resolved
                return kind
        kind = self.field(expr, expr.operand, expr.field)
        return BOOL if expr.test_only else kind

    def qualified_name(self, expr: Expr) -> str | None:
        """`a.b.c` as one name, unless `a` is an iteration variable."""
        parts: list[str] = []
        while isinstance(expr, Select):
            if expr.test_only:
                return None
            parts.append(expr.field)
            expr = expr.operand
        if not isinstance(expr, Ident) or expr.name in self.locals:
            return None
        parts.append(expr.name)
        return ".".join(reversed(parts))

    def field(self, expr: Expr, operand: Expr, field: str, *, optional: bool = False) -> Type:
        """The type of a field of the operand, or of the value inside an optional operand."""
        target = self.known(self.check(operand))
        if _is_optional(target):
            target = target.params[0]
            optional = True
        result = self.field_of(expr, target, field)
        return types.optional_of(result) if optional else result

    def field_of(self, expr: Expr, target: Type, field: str) -> Type:
        """The type of a field of a type."""
        if target.kind is TypeKind.MAP:
            return target.params[1]
        if target.kind is TypeKind.OBJECT:
            kind = self.env.objects[target.name].get(field)
            return kind if kind is not None else self.error(expr, f"undefined field '{field}'")
        if target.kind is TypeKind.PARAM:
            self.assign(DYN, target)
        elif target.kind is not TypeKind.DYN and target.kind is not TypeKind.ERROR:
            self.error(expr, f"type '{show(target)}' does not support field selection")
        return DYN

    def call(self, expr: Call) -> Type:
        """The type that a call gives."""
        name = expr.function
        if name == "_?._":
            return self.optional_select(expr)
        arg_types = [self.check(arg) for arg in expr.args]
        if name in _LOGICAL:
            return self.logical(expr, arg_types)
        if expr.target is None:
            return self.resolve(expr, name, arg_types, method=False)
        prefix = self.qualified_name(expr.target)
        if prefix is not None and self.env.function(f"{prefix}.{name}") is not None:
            expr.function, expr.target = f"{prefix}.{name}", None
            return self.resolve(expr, expr.function, arg_types, method=False)
        return self.resolve(expr, name, [self.check(expr.target), *arg_types], method=True)

    def logical(self, expr: Call, arg_types: list[Type]) -> Type:
        """The type of && and ||, which say of each operand what is wrong with it."""
        wrong = [
            self.mismatch(arg, BOOL, kind)
            for arg, kind in zip(expr.args, arg_types, strict=True)
            if kind is not BOOL and not self.assign(kind, BOOL)
        ]
        self.checked.overloads[expr.id] = self.env.functions[expr.function]
        return ERROR if wrong and not self.lenient else BOOL

    def resolve(self, expr: Call, name: str, arg_types: list[Type], *, method: bool) -> Type:
        """Find the overloads that a call may mean; where there are several, their common result type or dyn."""
        full_name = self.env.function(name)
        if full_name is None:
            return self.undeclared(expr, name)
        expr.function = full_name
        matching: list[Overload] = []
        result: Type | None = None
        ground = all(kind.kind in _GROUND for kind in arg_types)
        closed = ground or not any(map(has_variables, arg_types))
        for overload, generic in self.env.candidates(full_name, len(arg_types), method=method):
            if not generic and ground:
                kind = overload.result if overload.args == tuple(arg_types) else None
            else:
                kind = self.instance(overload, arg_types, generic=generic, closed=closed)
            if kind is not None:
                matching.append(overload)
                result = kind if result is None or result == kind else DYN
        if result is None:
            return self.no_overload(expr, arg_types, method=method)
        self.checked.overloads[expr.id] = tuple(matching)
        if full_name in _VALIDATED or matching[0].check is not None:
            self.validated.append(expr)
        return result

    def instance(self, overload: Overload, arg_types: list[Type], *, generic: bool, closed: bool) -> Type | None:
        """The result type of an overload for arguments of these types; None when it does not take them."""
        args, result = overload.args, overload.result
        if generic and closed:
            # No variable of the expression takes part, so the parameters can be their own variables.
            local: Bindings = {}
            if not all(map(assignable, [local] * len(args), arg_types, args)):
                return None
            resolved = substitute(local, result)
            if not has_variables(resolved):
                return resolved
        bindings = self.bindings.copy()
        if generic:
            fresh: Bindings = {}
            args = tuple([self.freshen(fresh, arg) for arg in args])
            result = self.freshen(fresh, result)
        for kind, expected in zip(arg_types, args, strict=True):
            if not assignable(bindings, kind, expected):
                return None
        self.bindings = bindings
        return substitute(bindings, result) if generic else result

    def freshen(self, fresh: Bindings, kind: Type) -> Type:
        """The type with a variable of this call's own for each type parameter."""
        if kind.kind is TypeKind.PARAM:
            if kind.name not in fresh:
                fresh[kind.name] = self.new_variable()
            return fresh[kind.name]
        if not kind.params:
            return kind
        return Type(kind.kind, kind.name, tuple([self.freshen(fresh, param) for param in kind.params]))

    def no_overload(self, expr: Call, arg_types: list[Type], *, method: bool) -> Type:
        """Note that nothing of this name takes these arguments."""
        if self.lenient and expr.function in _ANY_TYPES:
            self.checked.overloads[expr.id] = self.env.functions[expr.function]
            return _ANY_TYPES[expr.function]
        shown = [show(settle(self.bindings, kind, {})) for kind in arg_types]
        signature = f"{shown[0]}.({', '.join(shown[1:])})" if method else f"({', '.join(shown)})"
        return self.error(expr, f"found no matching overload for '{expr.function}' applied to '{signature}'")

    def optional_select(self, expr: Call) -> Type:
        """The type of `operand.?field`."""
        operand, field = expr.args
        assert isinstance(field, Literal)  # the parser makes it
        self.types[field.id] = types.STRING
        self.checked.overloads[expr.id] = self.env.functions["_?._"]
        return self.known(self.field(expr, operand, field.value, optional=True))

    def element(self, expr: Expr, *, optional: bool) -> Type:
        """The type of an element of a literal; one with a `?` is what the optional holds."""
        kind = self.check(expr)
        if not optional:
            return kind
        if _is_optional(kind):
            return kind.params[0]
        if kind.kind is not TypeKind.DYN:
            self.mismatch(expr, types.optional_of(kind), kind)
        return kind

    def join(self, expr: Expr, previous: Type | None, current: Type) -> Type:
        """The type of elements so far together with the next one."""
        if previous is None or previous is current:
            return current
        if self.assign(previous, current):
            return most_general(previous, current)
        if self.lenient or not self.env.homogeneous_literals:
            return DYN
        return self.mismatch(expr, previous, current)

    def list_literal(self, expr: ListLiteral) -> Type:
        """The type of a list literal."""
        self.aggregates.append(expr)
        joined: Type | None = None
        for index, element in enumerate(expr.elements):
            joined = self.join(element, joined, self.element(element, optional=index in expr.optional))
        return types.list_of(joined or self.new_variable())

    def map_literal(self, expr: MapLiteral) -> Type:
        """The type of a map literal."""
        self.aggregates.append(expr)
        keys: Type | None = None
        values: Type | None = None
        for entry in expr.entries:
            keys = self.join(entry.key, keys, self.check(entry.key))
            values = self.join(entry.value, values, self.element(entry.value, optional=entry.optional))
        if keys is not None and keys.params:
            # No map can have such a key; and types that hold another one twice would grow without bound.
            keys = DYN
        return types.map_of(keys or self.new_variable(), values or self.new_variable())

    def message(self, expr: Message) -> Type:
        """The type of a message literal: it must be a declared object, with its fields."""
        declared = self.env.resolve_type(expr.name)
        if declared is None:
            return self.undeclared(expr, expr.name)
        if declared.kind is not TypeKind.OBJECT:
            return self.error(expr, f"'{declared}' is not a message type")
        fields = self.env.objects[declared.name]
        for entry in expr.entries:
            actual = self.element(entry.value, optional=entry.optional)
            if entry.key not in fields:
                self.error(entry, f"undefined field '{entry.key}'")
            elif not self.assign(fields[entry.key], actual):
                expected = show(fields[entry.key])
                message = f"expected type of field '{entry.key}' is '{expected}' but provided type is '{show(actual)}'"
                self.error(entry, message)
        return declared

    def comprehension(self, expr: Comprehension) -> Type:
        """The type of a fold's result."""
        range_ = self.known(self.check(expr.range))
        accu = self.check(expr.init)
        first, second = self.iteration(expr, range_)
        outer = self.locals
        self.locals = {**outer, expr.accu: accu}
        with_accu = self.locals
        self.locals = {**with_accu, expr.var: first}
        if expr.var2 is not None:
            self.locals[expr.var2] = second
        self.expect(expr.condition, BOOL)
        self.expect(expr.step, accu)
        self.locals = with_accu
        result = self.check(expr.result)
        self.locals = outer
        return self.known(result)

    def iteration(self, expr: Comprehension, range_: Type) -> tuple[Type, Type]:
        """The types of the iteration variables; the second counts only when there are two."""
        if range_.kind is TypeKind.LIST:
            element = range_.params[0]
            return (INT, element) if expr.var2 is not None else (element, element)
        if range_.kind is TypeKind.MAP:
            return range_.params[0], range_.params[1]
        if range_.kind in (TypeKind.DYN, TypeKind.ERROR, TypeKind.PARAM):
            self.assign(DYN, range_)
            return DYN, DYN
        reason = f"expression of type '{show(range_)}' cannot be range of a comprehension"
        wrong = self.error(expr.range, f"{reason} (must be list, map, or dynamic)")
        return wrong, wrong

    def expect(self, expr: Expr, expected: Type) -> None:
        """Check a node that must have a certain type."""
        actual = self.check(expr)
        if not self.assign(expected, actual):
            self.mismatch(expr, expected, actual)

    def validate(self) -> None:
        """Look at literals again, now that all types are known."""
        for call in self.validated:
            check = self.checked.overloads[call.id][0].check
            wrong = check(call, self.types) if check is not None else None
            if wrong is not None:
                self.error(*wrong)
            elif self.env.validate_literals and call.function in _VALIDATED:
                self.validate_argument(call)
        if self.env.homogeneous_literals:
            for aggregate in self.aggregates:
                self.validate_aggregate(aggregate)

    def validate_argument(self, call: Call) -> None:
        """A literal that is to be a duration, a timestamp or a regular expression must be one."""
        argument = call.args[0] if call.args else None
        if not isinstance(argument, Literal):
            return
        pattern = call.function == "matches"
        overload = self.checked.overloads[call.id][0]
        try:
            overload.impl(*(("", argument.value) if pattern else (argument.value,)))
        except EvalError:
            self.error(argument, f"invalid {call.function} argument")

    def validate_aggregate(self, aggregate: ListLiteral | MapLiteral) -> None:
        """Elements must be of one type exactly: a dyn among them does not pass for it."""
        if isinstance(aggregate, ListLiteral):
            columns = [[(node, index in aggregate.optional) for index, node in enumerate(aggregate.elements)]]
        else:
            columns = [
                [(entry.key, False) for entry in aggregate.entries],
                [(entry.value, entry.optional) for entry in aggregate.entries],
            ]
        for column in columns:
            first: Type | None = None
            for node, optional in column:
                kind = self.types[node.id]
                kind = kind.params[0] if optional and kind.params else kind
                first = first or kind
                if kind != first:
                    self.mismatch(node, first, kind)
                    if isinstance(aggregate, ListLiteral):
                        break


def _is_optional(kind: Type) -> bool:
    return kind.kind is TypeKind.OPAQUE and kind.name == "optional_type"


_CHECKS: dict[type, Callable[[_Checker, Any], Type]] = {
    Literal: _Checker.literal,
    Ident: _Checker.ident,
    Select: _Checker.select,
    Call: _Checker.call,
    ListLiteral: _Checker.list_literal,
    MapLiteral: _Checker.map_literal,
    Message: _Checker.message,
    Comprehension: _Checker.comprehension,
}
