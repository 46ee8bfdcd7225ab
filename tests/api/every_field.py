"""Walks the table of kinds: every field of every struct, with its path and with values that fit and do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import inspect as types

from moorage.api import kinds
from moorage.api.meta import Data

KEY = "example.com/key"
TIME = "2024-05-06T07:08:09Z"


class Place(NamedTuple):
    """A field, an item of a list or a value of a map, somewhere in an object."""

    path: str
    """As error messages spell it; the key of a map is not in it."""
    steps: tuple[str | int, ...]
    type: types.Type
    is_field: bool

    def __str__(self) -> str:
        return self.path


def places(kind: kinds.Kind) -> Iterator[Place]:
    """Every place in objects of a kind."""
    return _inside(types.type_info(kind.struct), "", ())


def document(steps: tuple[str | int, ...], leaf: Any) -> Any:
    """An object that holds one thing at one place."""
    for step in reversed(steps):
        leaf = [leaf] if step == 0 else {step: leaf}
    return leaf


def filled(type_: types.Type) -> Any:
    """A value that fits a type, with everything in it set to something that is no default."""
    (first, *_) = alternatives(type_)
    match first:
        case types.StructType():
            return {field.encode_name: filled(field.type) for field in first.fields}
        case types.VarTupleType():
            return [filled(first.item_type)]
        case types.DictType():
            return {KEY: filled(first.value_type)}
        case types.StrType():
            return "text"
        case types.IntType():
            return 7
        case types.BoolType():
            return True
        case types.DateTimeType():
            return TIME
        case types.AnyType():
            return {"any": ["thing"]}
    raise AssertionError(f"no sample for {first}")


SAMPLES: Data = {
    "a string": "text", "an integer": 7, "a number": 1.5, "true or false": True, "a list": [], "a map": {},
}  # fmt: skip
_FITS: dict[type, set[str]] = {
    types.StrType: {"a string"},
    types.IntType: {"an integer"},
    types.FloatType: {"an integer", "a number"},
    types.BoolType: {"true or false"},
    types.DateTimeType: {"a string"},
    types.VarTupleType: {"a list"},
    types.StructType: {"a map"},
    types.DictType: {"a map"},
    types.AnyType: set(SAMPLES),
}


def misfits(type_: types.Type) -> Data:
    """Values of all the sorts that a type does not take, by the name of the sort."""
    fits = set().union(*(_FITS[type(alternative)] for alternative in alternatives(type_)))
    return {name: value for name, value in SAMPLES.items() if name not in fits}


def alternatives(type_: types.Type) -> list[types.Type]:
    """The types that a type may be, absence left out."""
    members = type_.types if isinstance(type_, types.UnionType) else (type_,)
    return [one for one in members if not isinstance(one, types.NoneType)]


def _inside(type_: types.Type, path: str, steps: tuple[str | int, ...]) -> Iterator[Place]:
    for alternative in alternatives(type_):
        match alternative:
            case types.StructType():
                for field in alternative.fields:
                    here = f"{path}.{field.encode_name}".removeprefix(".")
                    yield Place(here, (*steps, field.encode_name), field.type, True)
                    yield from _inside(field.type, here, (*steps, field.encode_name))
            case types.VarTupleType():
                yield Place(f"{path}[0]", (*steps, 0), alternative.item_type, False)
                yield from _inside(alternative.item_type, f"{path}[0]", (*steps, 0))
            case types.DictType():
                yield Place(f"{path}[...]", (*steps, KEY), alternative.value_type, False)
                yield from _inside(alternative.value_type, f"{path}[...]", (*steps, KEY))
