"""A checked expression as a Python function, built from syntax nodes and never from source text.

Types that are known become native operations. They follow the rules of CEL only as long as nothing goes wrong: whatever
is raised, the caller evaluates again with the evaluator that absorbs errors.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from itertools import count
from types import CodeType, FunctionType
from typing import Any, cast

from moorage.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, MapLiteral, Message, Select
from moorage.cel.check.checker import Checked
from moorage.cel.codegen import native, pyast
from moorage.cel.codegen.pyast import LOAD, STORE, attribute, call, constant, name
from moorage.cel.errors import EvalError
from moorage.cel.evaluate import runtime
from moorage.cel.evaluate.folds import Fold, shape
from moorage.cel.library import Overload
from moorage.cel.types import BOOL, Type, TypeKind
from moorage.pace import with_rests

Recover = Callable[..., Any]
"""Called with the exception and the variables' values when native code has raised something."""

_UNSURE = frozenset((TypeKind.DYN, TypeKind.NULL, TypeKind.PARAM, TypeKind.ERROR))
_FOLDABLE = frozenset(
    (
        TypeKind.BOOL,
        TypeKind.INT,
        TypeKind.UINT,
        TypeKind.DOUBLE,
        TypeKind.TIMESTAMP,
        TypeKind.DURATION,
        TypeKind.OPAQUE,
    )
)
_NATIVE_CONSTANTS = frozenset((type(None), bool, int, float, str, bytes))
_REMEMBERED = 1024
_DIRECT_KEYS = frozenset((TypeKind.STRING, TypeKind.INT, TypeKind.UINT))


class NotNativeError(Exception):
    """No native code can be made of the expression: it has to be walked."""


def generate(checked: Checked, recover: Recover) -> Callable[..., Any]:
    """The function that evaluates an expression, with the variables of its environment as parameters."""
    generator = Generator(checked)
    body = generator.emit(checked.expr)
    params = generator.params
    handler = pyast.ExceptHandler(
        name("Exception"), "error", [pyast.Return(call(name("recover"), name("error"), *map(name, params)))]
    )
    evaluate = pyast.function("evaluate", params, [pyast.Try([pyast.Return(body)], [handler], [], [])])
    try:
        module = compile(
            ast.Module([*generator.functions, evaluate], []), checked.source.name, "exec", dont_inherit=True
        )
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        raise NotNativeError from error
    scope = generator.globals
    scope["recover"] = recover
    for code in module.co_consts:
        if isinstance(code, CodeType):
            # Each has only what it names, all of which was made before it: a function that is in its own globals would
            # live on when nobody uses it any more.
            scope[code.co_name] = FunctionType(code, {key: scope[key] for key in _names(code) if key in scope})
    return cast("Callable[..., Any]", scope["evaluate"])


def _names(code: CodeType) -> set[str]:
    """What a function and those inside it read of their globals."""
    inner = (_names(each) for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*inner)


def sure(kind: Type) -> bool:
    """Whether the checked type is that of every value at run time: no dyn, null or type parameter in it."""
    return kind.kind not in _UNSURE and all(map(sure, kind.params))


class Generator:
    """Makes Python expressions of nodes, and keeps what they refer to as globals."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.types = checked.types
        self.globals: dict[str, Any] = {}
        self.params = [f"p{index}" for index in range(len(checked.env.variables))]
        self.variables = dict(zip(checked.env.variables, self.params, strict=True))
        self.locals: dict[str, str] = {}
        self.new = count().__next__
        self.held: dict[int, str] = {}
        self.folded: dict[int, Any] = {}
        self.functions: list[ast.stmt] = []
        self.used: set[str] = set()
        self.loops = 0

    def emit(self, expr: Expr) -> ast.expr:
        """The Python expression for a node."""
        return _EMITS[type(expr)](self, expr)

    def types_of(self, operands: list[Expr]) -> list[Type]:
        """The types of nodes."""
        return [self.types[operand.id] for operand in operands]

    def hold(self, value: Any) -> ast.expr:
        """A value that generated code reads as a global."""
        key = self.held.get(id(value))
        if key is None:
            key = f"c{self.new()}"
            self.held[id(value)] = key
            self.globals[key] = value
        return name(key)

    def value(self, value: Any) -> ast.expr:
        """A constant."""
        return constant(value) if type(value) in _NATIVE_CONSTANTS else self.hold(value)

    def literal(self, expr: Literal) -> ast.expr:
        """A constant."""
        return self.value(expr.value)

    def ident(self, expr: Ident) -> ast.expr:
        """A variable or type."""
        full = self.checked.names.get(expr.id)
        return self.variable(self.locals[expr.name]) if full is None else self.named(full)

    def variable(self, text: str) -> ast.expr:
        """A Python variable that is read."""
        self.used.add(text)
        return name(text)

    def named(self, full: str) -> ast.expr:
        """What a declared name stands for."""
        if full in self.variables:
            return self.variable(self.variables[full])
        return self.hold(self.checked.env.type_names[full])

    def select(self, expr: Select) -> ast.expr:
        """A field, or whether there is one."""
        full = self.checked.names.get(expr.id)
        if full is not None:
            return self.named(full)
        kind = self.types[expr.operand.id]
        operand = self.emit(expr.operand)
        if kind.kind is TypeKind.OBJECT:
            field = self.checked.env.fields[kind.name][expr.field]
            held = attribute(operand, field.attribute)
            if expr.test_only:
                return pyast.compare(held, ast.IsNot(), constant(None))
            return call(self.hold(runtime.present), held, constant(expr.field)) if field.optional else held
        if kind.kind is TypeKind.MAP:
            if expr.test_only:
                return pyast.compare(constant(expr.field), ast.In(), operand)
            return pyast.Subscript(operand, constant(expr.field), LOAD)
        function = runtime.has if expr.test_only else runtime.select
        return call(self.hold(function), operand, constant(expr.field), self.hold(self.checked.env.fields))

    def condition(self, expr: Expr) -> ast.expr:
        """A node that must give a bool."""
        emitted = self.emit(expr)
        return emitted if self.types[expr.id] is BOOL else call(self.hold(runtime.boolean), emitted)

    def call(self, expr: Call) -> ast.expr:
        """A call."""
        special = _SPECIAL.get(expr.function)
        if special is not None:
            return special(self, expr)
        is_constant, value = self.constant(expr)
        if is_constant:
            return self.value(value)
        operands = [expr.target, *expr.args] if expr.target is not None else expr.args
        overloads = self.checked.overloads[expr.id]
        if len(overloads) != 1 or not all(map(sure, self.types_of(operands))):
            return call(self.hold(runtime.dispatcher(expr.function, overloads)), *map(self.emit, operands))
        overload = overloads[0]
        shortcut = native.SHORTCUTS.get(overload.id)
        if shortcut is not None:
            emitted = shortcut(self, operands)
            if emitted is not None:
                return emitted
        return self.invoke(overload, operands)

    def invoke(self, overload: Overload, operands: list[Expr]) -> ast.expr:
        """A call of an implementation, prepared for those arguments that are constants."""
        if overload.bind is not None:
            constants = {index: self.constant(operand) for index, operand in enumerate(operands)}
            known = {index: value for index, (is_constant, value) in constants.items() if is_constant}
            try:
                bound = overload.bind(known) if known else None
            except EvalError:
                bound = None
            if bound is not None:
                others = [operand for index, operand in enumerate(operands) if index not in known]
                if all(map(self.is_read, others)):
                    bound = lru_cache(maxsize=_REMEMBERED)(bound)
                return call(self.hold(bound), *map(self.emit, others))
        return call(self.hold(overload.impl), *map(self.emit, operands))

    def is_read(self, expr: Expr) -> bool:
        """Whether a node only reads text out of a variable: the same few values come again and again."""
        if self.types[expr.id].kind is not TypeKind.STRING:
            return False
        while isinstance(expr, Select) or (isinstance(expr, Call) and expr.function == "_[_]"):
            expr = expr.operand if isinstance(expr, Select) else expr.args[0]
        return isinstance(expr, Ident)

    def constant(self, expr: Expr) -> tuple[bool, Any]:
        """Whether the value of a node is known now, and the value. Only what stays small is computed ahead."""
        if isinstance(expr, Literal):
            return True, expr.value
        if not isinstance(expr, Call) or self.types[expr.id].kind not in _FOLDABLE:
            return False, None
        if expr.id not in self.folded:
            self.folded[expr.id] = self.fold(expr)
        return cast(tuple[bool, Any], self.folded[expr.id])

    def fold(self, expr: Call) -> tuple[bool, Any]:
        """The value of a call all of whose operands are constants, unless it is an error."""
        overloads = self.checked.overloads[expr.id]
        if expr.function in _SPECIAL or len(overloads) != 1:
            return False, None
        operands = [expr.target, *expr.args] if expr.target is not None else expr.args
        args: list[Any] = []
        for operand in operands:
            is_constant, value = self.constant(operand)
            if not is_constant or not sure(self.types[operand.id]):
                return False, None
            args.append(value)
        try:
            return True, overloads[0].impl(*args)
        except EvalError:
            return False, None

    def logical(self, expr: Call) -> ast.expr:
        """A chain of && or of ||, which the parser has balanced into a tree."""
        terms: list[ast.expr] = []
        waiting: list[Expr] = [expr]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Call) and node.function == expr.function:
                waiting += reversed(node.args)
            else:
                terms.append(self.condition(node))
        return pyast.BoolOp(ast.And() if expr.function == "_&&_" else ast.Or(), terms)

    def conditional(self, expr: Call) -> ast.expr:
        """`?:`."""
        test, then, otherwise = expr.args
        return pyast.IfExp(self.condition(test), self.emit(then), self.emit(otherwise))

    def optional_or(self, expr: Call) -> ast.expr:
        """`or` and `orValue`: a default that is not a constant is evaluated only when it is needed."""
        overloads = self.checked.overloads[expr.id]
        target, default = expr.target, expr.args[0]
        if target is None or not sure(self.types[target.id]) or len(overloads) != 1:
            raise NotNativeError
        shortcut = native.lookup_with_default(self, target, default)
        if expr.function == "orValue" and shortcut is not None:
            return shortcut
        if isinstance(default, Literal):
            return call(self.hold(overloads[0].impl), self.emit(target), self.emit(default))
        variable = f"v{self.new()}"
        held = attribute(name(variable), "value") if expr.function == "orValue" else name(variable)
        body = pyast.IfExp(attribute(name(variable), "present"), held, self.emit(default))
        return call(pyast.Lambda(pyast.parameters([variable]), body), self.emit(target))

    def optional_select(self, expr: Call) -> ast.expr:
        """`operand.?field`."""
        operand, field = expr.args
        fields = self.hold(self.checked.env.fields)
        return call(self.hold(runtime.optional_select), self.emit(operand), self.emit(field), fields)

    def list_literal(self, expr: ListLiteral) -> ast.expr:
        """A list."""
        items = [self.emit(element) for element in expr.elements]
        if not expr.optional:
            return pyast.List(items, LOAD)
        marked = [pyast.Tuple([item, constant(index in expr.optional)], LOAD) for index, item in enumerate(items)]
        return call(self.hold(runtime.make_list), pyast.List(cast(list[ast.expr], marked), LOAD))

    def map_literal(self, expr: MapLiteral) -> ast.expr:
        """A map. Distinct strings as keys need no check."""
        keys = [entry.key.value for entry in expr.entries if isinstance(entry.key, Literal)]
        optional = any(entry.optional for entry in expr.entries)
        plain = len(keys) == len(expr.entries) == len(set(keys)) and all(isinstance(key, str) for key in keys)
        if plain and not optional:
            emitted = [self.emit(entry.value) for entry in expr.entries]
            return pyast.Dict([constant(key) for key in keys], emitted)
        entries: list[ast.expr] = [
            pyast.Tuple([self.emit(entry.key), self.emit(entry.value), constant(entry.optional)], LOAD)
            for entry in expr.entries
        ]
        return call(self.hold(runtime.make_map), pyast.List(entries, LOAD))

    def message(self, _: Message) -> ast.expr:
        """Object literals have no native code: objects only come from variables."""
        raise NotNativeError

    def comprehension(self, expr: Comprehension) -> ast.expr:
        """A loop, or a name bound to a value."""
        fold = shape(expr)
        if fold is None:
            raise NotNativeError
        outer = self.locals
        emitted = self.let(expr, fold) if fold.kind == "let" else self.loop(expr, fold)
        # A function around the loop must not capture its variables.
        self.used -= {*self.locals.values()} - {*outer.values()}
        self.locals = outer
        return emitted

    def let(self, expr: Comprehension, fold: Fold) -> ast.expr:
        """The body with a name bound, as a function of that name."""
        bound = self.emit(expr.init)
        variable = self.declare(expr.accu)
        return call(pyast.Lambda(pyast.parameters([variable]), self.emit(fold.body)), bound)

    def declare(self, variable: str) -> str:
        """A Python variable of its own for an iteration variable, so that nothing is ever shadowed."""
        unique = f"v{self.new()}"
        self.locals = {**self.locals, variable: unique}
        return unique

    def loop(self, expr: Comprehension, fold: Fold) -> ast.expr:
        """A loop of Python's own."""
        kind = self.types[expr.range.id]
        source = self.emit(expr.range)
        direct = kind.kind is TypeKind.LIST or (kind.kind is TypeKind.MAP and kind.params[0].kind in _DIRECT_KEYS)
        bound = [self.declare(variable) for variable in (expr.var, expr.var2) if variable is not None]
        target: ast.expr
        if expr.var2 is None:
            target = pyast.Name(bound[0], STORE)
            source = source if direct else call(self.hold(runtime.elements), source)
        else:
            target = pyast.Tuple([pyast.Name(variable, STORE) for variable in bound], STORE)
            items = direct and kind.kind is TypeKind.MAP
            source = call(attribute(source, "items")) if items else call(self.hold(runtime.pairs), source)
        self.loops += 1
        loops = self.loops
        if fold.kind in ("all", "exists"):
            return self.quantifier(fold, bound, target, source)
        tests = [self.condition(fold.test)] if fold.test is not None else []
        loop = ast.comprehension(target, source, tests, 0)
        emitted = _LOOPS[fold.kind](self, fold, loop)
        loop.iter = self.paced(source, loops)
        return emitted

    def paced(self, source: ast.expr, loops: int) -> ast.expr:
        """What a loop goes through, with rests when there are more loops inside: a single one is short."""
        return call(self.hold(with_rests), source) if self.loops > loops else source

    def quantifier(self, fold: Fold, bound: list[str], target: ast.expr, source: ast.expr) -> ast.expr:
        """`all` and `exists` as functions with a loop, which is more than twice as fast as a generator."""
        outer, self.used, loops = self.used, set(), self.loops
        test = self.condition(fold.body)
        captured = sorted(self.used.difference(bound))
        self.used = outer.union(captured)
        exists = fold.kind == "exists"
        stop = pyast.If(test if exists else pyast.UnaryOp(ast.Not(), test), [pyast.Return(constant(exists))], [])
        body = [pyast.For(target, name("range"), [stop], []), pyast.Return(constant(not exists))]
        function = f"f{self.new()}"
        self.functions.append(pyast.function(function, ["range", *captured], [*body]))
        return call(name(function), self.paced(source, loops), *map(name, captured))

    def loop_one(self, fold: Fold, loop: ast.comprehension) -> ast.expr:
        """`exists_one`."""
        loop.ifs.append(self.condition(fold.body))
        counted = call(self.hold(sum), pyast.GeneratorExp(constant(1), [loop]))
        return pyast.compare(counted, ast.Eq(), constant(1))

    def loop_list(self, fold: Fold, loop: ast.comprehension) -> ast.expr:
        """`map`, `filter` and `transformList`."""
        return pyast.ListComp(self.emit(fold.body), [loop])

    def loop_insert(self, fold: Fold, loop: ast.comprehension) -> ast.expr:
        """`transformMap`."""
        assert fold.key is not None
        key, body = self.emit(fold.key), self.emit(fold.body)
        if self.types[fold.key.id].kind in _DIRECT_KEYS:
            return pyast.DictComp(key, body, [loop])
        entry = pyast.Tuple([key, body, constant(False)], LOAD)
        return call(self.hold(runtime.make_map), pyast.ListComp(entry, [loop]))

    def loop_merge(self, fold: Fold, loop: ast.comprehension) -> ast.expr:
        """`transformMapEntry`."""
        return call(self.hold(runtime.merge), self.loop_list(fold, loop))


_SPECIAL: dict[str, Callable[[Generator, Call], ast.expr]] = {
    "_&&_": Generator.logical,
    "_||_": Generator.logical,
    "_?_:_": Generator.conditional,
    "or": Generator.optional_or,
    "orValue": Generator.optional_or,
    "_?._": Generator.optional_select,
}

_LOOPS: dict[str, Callable[[Generator, Fold, ast.comprehension], ast.expr]] = {
    "one": Generator.loop_one,
    "list": Generator.loop_list,
    "insert": Generator.loop_insert,
    "merge": Generator.loop_merge,
}

_EMITS: dict[type, Callable[[Generator, Any], ast.expr]] = {
    Literal: Generator.literal,
    Ident: Generator.ident,
    Select: Generator.select,
    Call: Generator.call,
    ListLiteral: Generator.list_literal,
    MapLiteral: Generator.map_literal,
    Message: Generator.message,
    Comprehension: Generator.comprehension,
}
