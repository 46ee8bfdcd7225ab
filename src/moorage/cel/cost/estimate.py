"""What an expression can cost, before it ever runs, in the units and with the numbers of cel-go's estimator.

The walk follows cel-go's, oddities included, because a cost limit is part of an API: an expression that fits there must
fit here. Where cel-go finds no bound, the walk is repeated with `sizes.Bound`, which follows values further.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from moorage.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, MapLiteral, Message, Select
from moorage.cel.check.checker import Checked
from moorage.cel.cost import tariff
from moorage.cel.cost.sizes import (
    ANY,
    NOTHING,
    ONE,
    UNKNOWN,
    Bound,
    add,
    at_least_one,
    declared,
    either,
    is_optional,
    multiply,
    parametric,
    product,
    union,
)
from moorage.cel.library import UNBOUNDED, CallCost, Cost, Hints, Operand, Overload, Size
from moorage.cel.syntax.macros import ACCUMULATOR
from moorage.cel.types import Type, TypeKind

NO_BOUND = 2**60
"""A cost from here on is no bound: a size was unknown (a tenth of UNBOUNDED is larger) or was squared too often."""

_FREE = Cost(0, 0)
ACCESS = Cost(1, 1)
LIST = Cost(10, 10)
MAP = Cost(30, 30)
_MESSAGE = Cost(40, 40)

_SCALARS = frozenset(
    (TypeKind.BOOL, TypeKind.DOUBLE, TypeKind.DURATION, TypeKind.INT, TypeKind.TIMESTAMP, TypeKind.UINT)
)
_WITH_FIELDS = frozenset((TypeKind.MAP, TypeKind.OBJECT, TypeKind.PARAM))
_INDEXED = {"index_list": "@items", "index_map": "@values"}
_CONCATENATIONS = frozenset(("add_string", "add_bytes", "add_list"))
_LOGICAL = frozenset(("logical_and", "logical_or"))

Path = tuple[str, ...]


def estimate(checked: Checked, hints: Hints | None = None) -> Cost:
    """The least and the most that evaluating an expression can cost.

    The most is never less than what an evaluation takes, as far as the prices of cel-go and Kubernetes go; the least is
    cel-go's figure and takes for granted that loops run to their end.
    """
    cost = _Walk(checked, hints or {}, refined=False).visit(checked.expr)
    if cost.max < NO_BOUND:
        return cost
    refined = _Walk(checked, hints or {}, refined=True).visit(checked.expr)
    return Cost(cost.min, min(cost.max, refined.max))


class _Entry(NamedTuple):
    """Sizes of what a list or map holds."""

    of_list: bool
    key: Size
    value: Size


class _Local(NamedTuple):
    """What is known of an iteration variable or an accumulator."""

    path: Path
    size: Size | None
    entry: _Entry | None
    bound: Bound


@dataclass(frozen=True, slots=True)
class _Operand:
    expr: Expr
    type: Type
    size: Size
    element: Size


class _Walk:
    def __init__(self, checked: Checked, hints: Hints, *, refined: bool) -> None:
        self.checked = checked
        self.types = checked.types
        self.hints = hints
        self.refined = refined
        self.paths: dict[int, Path] = {}
        self.sizes: dict[int, Size] = {}
        self.entries: dict[int, _Entry] = {}
        self.bounds: dict[int, Bound] = {}
        self.locals: dict[str, list[_Local]] = {}

    def visit(self, expr: Expr) -> Cost:
        if expr.id in self.checked.names:
            return self.variable(expr)
        return _VISITS[type(expr)](self, expr)

    def literal(self, expr: Literal) -> Cost:
        value = expr.value
        self.bounds[expr.id] = Bound(len(value)) if isinstance(value, str | bytes) else ONE
        return _FREE

    def variable(self, expr: Expr) -> Cost:
        path = (self.checked.names[expr.id],)
        self.paths[expr.id] = path
        self.bounds[expr.id] = declared(path, self.types[expr.id], self.hints)
        return ACCESS

    def ident(self, expr: Ident) -> Cost:
        local = self.locals[expr.name][-1]
        self.paths[expr.id] = local.path
        self.bounds[expr.id] = local.bound
        return ACCESS

    def select(self, expr: Select) -> Cost:
        cost = self.visit(expr.operand)
        if expr.test_only:
            self.bounds[expr.id] = ONE
            return cost
        self.paths[expr.id] = (*self.path(expr.operand), expr.field)
        self.bounds[expr.id] = self.field(expr, expr.operand, expr.field)
        # A field of an optional or a dyn is free in cel-go's estimate, though not when it counts.
        paid = self.refined or self.types[expr.operand.id].kind in _WITH_FIELDS
        return add(cost, ACCESS) if paid else cost

    def list_literal(self, expr: ListLiteral) -> Cost:
        cost = LIST
        item, bound = Size(0, 0), NOTHING
        for index, element in enumerate(expr.elements):
            cost = add(cost, self.visit(element))
            item = either(item, self.size(element)) if index else self.size(element)
            bound = union(bound, self.bound(element))
        self.entries[expr.id] = _Entry(True, Size(1, 1), item)
        self.bounds[expr.id] = Bound(len(expr.elements), bound)
        return cost

    def map_literal(self, expr: MapLiteral) -> Cost:
        cost = MAP
        key, value = Size(0, 0), Size(0, 0)
        keys, values = NOTHING, NOTHING
        for index, entry in enumerate(expr.entries):
            cost = add(cost, self.visit(entry.key), self.visit(entry.value))
            key = either(key, self.size(entry.key)) if index else self.size(entry.key)
            value = either(value, self.size(entry.value)) if index else self.size(entry.value)
            keys = union(keys, self.bound(entry.key))
            values = union(values, self.bound(entry.value))
        self.entries[expr.id] = _Entry(False, key, value)
        self.bounds[expr.id] = Bound(len(expr.entries), values, keys)
        return cost

    def message(self, expr: Message) -> Cost:
        cost = _MESSAGE
        for entry in expr.entries:
            cost = add(cost, self.visit(entry.value))
        self.bounds[expr.id] = ANY
        return cost

    def call(self, expr: Call) -> Cost:
        overloads = self.checked.overloads.get(expr.id, ())
        receiver = [expr.target] if expr.target is not None and overloads and overloads[0].method else []
        costs = [self.visit(operand) for operand in (*receiver, *expr.args)]
        if expr.function == "dyn":
            self.copy(expr, expr.args[0])
            return add(costs[0], ACCESS)
        operands = [self.operand(operand) for operand in (*receiver, *expr.args)]
        prices = [_price(overload, operands) for overload in overloads]
        self.set_call_size(expr, overloads, prices)
        if self.refined:
            self.bounds[expr.id] = self.call_bound(expr, overloads, operands, prices)
        paid = [_total(overload, price, costs) for overload, price in zip(overloads, prices, strict=True)]
        return Cost(min((cost.min for cost in paid), default=0), max((cost.max for cost in paid), default=0))

    def set_call_size(self, expr: Call, overloads: tuple[Overload, ...], prices: list[CallCost]) -> None:
        size: Size | None = None
        for overload, price in zip(overloads, prices, strict=True):
            if price.size is not None:
                size = price.size if size is None else either(size, price.size)
            if overload.id in _INDEXED:
                held = self.entry(expr.args[0])
                size = held.value if held else None
                self.paths[expr.id] = (*self.path(expr.args[0]), _INDEXED[overload.id])
            elif overload.id == "conditional":
                self.join_entries(expr, expr.args[1], expr.args[2])
            elif overload.id in _CONCATENATIONS:
                self.join_entries(expr, expr.args[0], expr.args[1])
            if size is None:
                size = self.known_size(expr)
        if size is not None:
            self.sizes[expr.id] = size

    def join_entries(self, expr: Expr, a: Expr, b: Expr) -> None:
        left, right = self.entry(a), self.entry(b)
        if left and right:
            self.entries[expr.id] = _Entry(left.of_list, either(left.key, right.key), either(left.value, right.value))

    def call_bound(
        self, expr: Call, overloads: tuple[Overload, ...], operands: list[Operand], prices: list[CallCost]
    ) -> Bound:
        if expr.function == "_?._" and isinstance(expr.args[1], Literal):
            return at_least_one(self.field(expr, expr.args[0], expr.args[1].value))
        bounds = [self.bound(operand.expr) for operand in operands]
        result = NOTHING
        for overload, price in zip(overloads, prices, strict=True):
            result = union(result, _result(overload, operands, bounds, price))
        return result

    def field(self, expr: Expr, operand: Expr, name: str) -> Bound:
        """The bound of a field of an object, or of the value of a map at a key that is written as a field."""
        bound = self.bound(operand)
        result = bound.items
        for path in bound.paths:
            result = union(result, declared((*path, name), self.types[expr.id], self.hints))
        return result

    def comprehension(self, expr: Comprehension) -> Cost:
        cost = add(self.visit(expr.range), self.visit(expr.init))
        if self.is_let(expr):
            self.push(expr.accu, self.like(expr.init))
            cost = add(cost, self.visit(expr.result))
            self.pop(expr.accu)
            self.copy(expr, expr.result)
            return cost
        grows = isinstance(expr.init, ListLiteral | MapLiteral)
        self.push(expr.accu, self.like(expr.init))
        for name, local in self.iteration(expr):
            self.push(name, local)
        per_step = add(self.visit(expr.condition), self.visit(expr.step))
        self.pop(expr.var)
        if expr.var2 is not None:
            self.pop(expr.var2)
        accu = self.pop(expr.accu)
        count = self.size(expr.range)
        if grows:
            step = self.bound(expr.step)
            accu = accu._replace(bound=step.resized(product(count.max, step.size)))
        self.push(expr.accu, accu)
        cost = add(cost, self.visit(expr.result), multiply(count, per_step))
        self.pop(expr.accu)
        self.bounds[expr.id] = self.bound(expr.result)
        if grows:
            self.sizes[expr.id] = count
            if held := self.entry(expr.step):
                self.entries[expr.id] = held
        elif isinstance(expr.init, Literal):
            self.sizes[expr.id] = self.size(expr.init)
        return cost

    def is_let(self, expr: Comprehension) -> bool:
        """Whether the comprehension only gives a name to a value, for the macros that use a value twice."""
        return (
            isinstance(expr.range, ListLiteral)
            and not expr.range.elements
            and isinstance(expr.condition, Literal)
            and expr.condition.value is False
            and expr.accu != ACCUMULATOR
        )

    def iteration(self, expr: Comprehension) -> list[tuple[str, _Local]]:
        """The iteration variables of a loop: elements of a list, keys of a map, or both index (key) and value."""
        held, path, bound = self.entry(expr.range), self.path(expr.range), self.bound(expr.range)
        kind = self.types[expr.range.id].kind
        of_list = held.of_list if held else kind is TypeKind.LIST
        key_bound = bound.keys if kind is TypeKind.MAP else ONE if kind is TypeKind.LIST else union(ONE, bound.keys)
        key = _Local((*path, "@indices" if of_list else "@keys"), held.key if held else None, None, key_bound)
        value = _Local((*path, "@items" if of_list else "@values"), held.value if held else None, None, bound.items)
        if expr.var2 is not None:
            return [(expr.var, key), (expr.var2, value)]
        if kind not in (TypeKind.LIST, TypeKind.MAP):
            either_one = union(bound.items, bound.keys)
            key, value = key._replace(bound=either_one), value._replace(bound=either_one)
        return [(expr.var, value if of_list else key)]

    def push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def pop(self, name: str) -> _Local:
        return self.locals[name].pop()

    def local(self, expr: Expr) -> _Local | None:
        if isinstance(expr, Ident) and expr.id not in self.checked.names:
            stack = self.locals.get(expr.name)
            return stack[-1] if stack else None
        return None

    def like(self, expr: Expr) -> _Local:
        """A variable that holds the value of an expression."""
        return _Local(self.path(expr), self.known_size(expr), self.entry(expr), self.bound(expr))

    def copy(self, to: Expr, of: Expr) -> None:
        if (size := self.known_size(of)) is not None:
            self.sizes[to.id] = size
        if (held := self.entry(of)) is not None:
            self.entries[to.id] = held
        self.bounds[to.id] = self.bound(of)

    def path(self, expr: Expr) -> Path:
        return self.paths.get(expr.id, ())

    def entry(self, expr: Expr) -> _Entry | None:
        held = self.entries.get(expr.id)
        if held is None and (local := self.local(expr)):
            return local.entry
        return held

    def known_size(self, expr: Expr) -> Size | None:
        """What cel-go knows of a size: what was computed, what is written, what is hinted, what the type says."""
        if (size := self.sizes.get(expr.id)) is not None:
            return size
        if isinstance(expr, Literal):
            length = len(expr.value) if isinstance(expr.value, str | bytes) else 1
            return Size(length, length)
        if isinstance(expr, ListLiteral | MapLiteral):
            length = len(expr.elements if isinstance(expr, ListLiteral) else expr.entries)
            return Size(length, length)
        if (hint := self.hints.get(self.path(expr))) is not None:
            self.sizes[expr.id] = Size(0, hint)
            return Size(0, hint)
        if _is_scalar(self.types[expr.id]):
            return Size(1, 1)
        local = self.local(expr)
        return local.size if local else None

    def bound(self, expr: Expr) -> Bound:
        return self.bounds.get(expr.id, ANY)

    def size(self, expr: Expr) -> Size:
        known = self.known_size(expr) or UNKNOWN
        return _within(known, self.bound(expr).size) if self.refined else known

    def operand(self, expr: Expr) -> Operand:
        kind = self.types[expr.id]
        held = "@values" if kind.kind is TypeKind.MAP else "@items"
        element = Size(0, self.hints.get((*self.path(expr), held), UNBOUNDED))
        if self.refined:
            element = _within(element, self.bound(expr).items.size)
        return _Operand(expr, kind, self.size(expr), element)


_VISITS: dict[type, Callable[[_Walk, Any], Cost]] = {
    Literal: _Walk.literal,
    Ident: _Walk.ident,
    Select: _Walk.select,
    Call: _Walk.call,
    ListLiteral: _Walk.list_literal,
    MapLiteral: _Walk.map_literal,
    Message: _Walk.message,
    Comprehension: _Walk.comprehension,
}


def _price(overload: Overload, operands: list[Operand]) -> CallCost:
    if overload.id == "conditional":
        return CallCost(_FREE, either(operands[1].size, operands[2].size))
    if overload.id in _LOGICAL:
        return CallCost(_FREE)
    price = overload.estimate or tariff.ESTIMATES.get(overload.id)
    return price(operands) if price else tariff.CALL


def _total(overload: Overload, price: CallCost, costs: list[Cost]) -> Cost:
    """The price of a call with its operands, of which only the first is evaluated for certain in `a && b`."""
    if overload.id in _LOGICAL:
        return Cost(costs[0].min, add(*costs).max)
    if overload.id == "conditional":
        condition, then, otherwise = costs
        branch = Cost(min(then.min, otherwise.min), max(then.max, otherwise.max))
        return add(condition, branch)
    return add(price.cost, *costs)


def _result(overload: Overload, operands: list[Operand], bounds: list[Bound], price: CallCost) -> Bound:
    """The bound of what a call gives: by its own rule, else by the signature and the estimate together."""
    if rule := tariff.RESULTS.get(overload.id):
        return rule(operands, bounds)
    result = parametric(overload.args, overload.result, bounds)
    if price.size is not None:
        opaque = overload.result.kind is TypeKind.OPAQUE and not is_optional(overload.result)
        size = price.size.max if opaque or result is ANY else min(result.size, price.size.max)
        result = result.resized(size)
    if price.element is not None and result.item is not None:
        size = min(result.item.size, price.element.max)
        result = result._replace(item=result.item.resized(size))
    return result


def _within(size: Size, most: int) -> Size:
    return Size(min(size.min, most), min(size.max, most))


def _is_scalar(kind: Type) -> bool:
    if is_optional(kind):
        return _is_scalar(kind.params[0])
    return kind.kind in _SCALARS
