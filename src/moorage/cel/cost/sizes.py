"""How large values can get: arithmetic that saturates, and bounds that follow values through an expression."""

from __future__ import annotations

import math
from typing import NamedTuple

from moorage.cel.library import UNBOUNDED, Cost, Hints, Size
from moorage.cel.types import Type, TypeKind

UNKNOWN = Size(0, UNBOUNDED)

TRAVERSAL = 0.1
"""Cost of looking at one character or byte."""

REGEX = 0.25
"""Cost of one character of a regular expression, for every unit that the text costs."""


def total(a: int, b: int) -> int:
    """The sum, at most UNBOUNDED."""
    return min(a + b, UNBOUNDED)


def product(a: int, b: int) -> int:
    """The product, at most UNBOUNDED."""
    return min(a * b, UNBOUNDED)


def scaled(amount: int, factor: float) -> int:
    """The product with a factor, rounded up, in double precision as cel-go has it."""
    return min(math.ceil(float(amount) * factor), UNBOUNDED)


def add(*costs: Cost) -> Cost:
    """Costs that are all paid."""
    return Cost(min(sum(cost.min for cost in costs), UNBOUNDED), min(sum(cost.max for cost in costs), UNBOUNDED))


def add_sizes(a: Size, b: Size) -> Size:
    """The size of two values put together."""
    return Size(total(a.min, b.min), total(a.max, b.max))


def multiply(a: Cost | Size, b: Cost) -> Cost:
    """A cost paid as often as `a` says."""
    return Cost(product(a.min, b.min), product(a.max, b.max))


def scale(size: Size | Cost, factor: float) -> Cost:
    """A cost of `factor` for each unit of a size."""
    return Cost(scaled(size.min, factor), scaled(size.max, factor))


def either(a: Size, b: Size) -> Size:
    """The size of one of two values."""
    return Size(min(a.min, b.min), max(a.max, b.max))


class Bound(NamedTuple):
    """The largest a value can be, and the largest that its elements (or a map's values) and its keys can be.

    An optional has the bound of what is inside. An object has the paths at which it may be declared.
    """

    size: int
    item: Bound | None = None
    key: Bound | None = None
    paths: frozenset[tuple[str, ...]] = frozenset()

    @property
    def items(self) -> Bound:
        """The bound of the elements."""
        return ANY if self is ANY else self.item or NOTHING

    @property
    def keys(self) -> Bound:
        """The bound of a map's keys."""
        return ANY if self is ANY else self.key or NOTHING

    def resized(self, size: int) -> Bound:
        """The bound of a value that holds the same and is at most so large."""
        return Bound(size, ANY, ANY) if self is ANY else self._replace(size=size)


ANY = Bound(UNBOUNDED)
"""The bound of a value of which nothing is known."""

NOTHING = Bound(0)
"""The bound of a value that does not exist: the element of an empty list."""

ONE = Bound(1)
"""A number, a boolean, a time, a type: whatever has no size counts as 1."""

_OPAQUE = {"net.IP": 16, "net.CIDR": 16}
_SIZED = frozenset((TypeKind.STRING, TypeKind.BYTES, TypeKind.LIST, TypeKind.MAP, TypeKind.DYN, TypeKind.PARAM))


def union(a: Bound, b: Bound) -> Bound:
    """A bound that holds for both values."""
    if a is NOTHING or a is b:
        return b
    if b is NOTHING:
        return a
    if a is ANY or b is ANY:
        return ANY
    return Bound(
        max(a.size, b.size),
        union(a.items, b.items),
        union(a.keys, b.keys),
        a.paths | b.paths,
    )


def declared(path: tuple[str, ...], kind: Type, hints: Hints) -> Bound:
    """The bound of what a variable holds at a path, from its type and the hints."""
    if is_optional(kind):
        return at_least_one(declared(path, kind.params[0], hints))
    if kind.kind is TypeKind.OBJECT:
        return Bound(1, paths=frozenset((path,)))
    if kind.kind not in _SIZED:
        return Bound(_OPAQUE.get(kind.name, 1))
    size = hints.get(path, UNBOUNDED)
    match kind.kind:
        case TypeKind.LIST:
            return Bound(size, declared((*path, "@items"), kind.params[0], hints))
        case TypeKind.MAP:
            keys, values = kind.params
            return Bound(size, declared((*path, "@values"), values, hints), declared((*path, "@keys"), keys, hints))
        case TypeKind.STRING | TypeKind.BYTES:
            return Bound(size)
        case _:
            return Bound(size, ANY, ANY)


def at_least_one(bound: Bound) -> Bound:
    """The bound of an optional: without a value it counts as 1."""
    return bound if bound.size >= 1 else bound.resized(1)


def is_optional(kind: Type) -> bool:
    """Whether values of the type are optionals."""
    return kind.kind is TypeKind.OPAQUE and kind.name == "optional_type"


def parametric(args: tuple[Type, ...], result: Type, bounds: list[Bound]) -> Bound:
    """The bound of a result by the signature alone.

    What a generic function gives out as a `T` it was given as a `T`: `list(T).slice(int, int) -> list(T)` cannot make
    elements larger than those it got.
    """
    known: dict[str, Bound] = {}
    for kind, bound in zip(args, bounds, strict=True):
        _bind(kind, bound, known)
    return _build(result, known)


def _bind(kind: Type, bound: Bound, known: dict[str, Bound]) -> None:
    match kind.kind:
        case TypeKind.PARAM:
            known[kind.name] = union(known.get(kind.name, NOTHING), bound)
        case TypeKind.LIST:
            _bind(kind.params[0], bound.items, known)
        case TypeKind.MAP:
            _bind(kind.params[0], bound.keys, known)
            _bind(kind.params[1], bound.items, known)
        case TypeKind.OPAQUE if is_optional(kind):
            _bind(kind.params[0], bound, known)


def _build(kind: Type, known: dict[str, Bound]) -> Bound:
    match kind.kind:
        case TypeKind.PARAM:
            return known.get(kind.name, ANY)
        case TypeKind.LIST:
            return Bound(UNBOUNDED, _build(kind.params[0], known))
        case TypeKind.MAP:
            return Bound(UNBOUNDED, _build(kind.params[1], known), _build(kind.params[0], known))
        case TypeKind.OPAQUE if is_optional(kind):
            return at_least_one(_build(kind.params[0], known))
        case TypeKind.STRING | TypeKind.BYTES:
            return Bound(UNBOUNDED)
        case TypeKind.DYN | TypeKind.OBJECT:
            return ANY
        case _:
            return Bound(_OPAQUE.get(kind.name, 1))
