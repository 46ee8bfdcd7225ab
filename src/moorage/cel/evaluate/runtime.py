"""What evaluation needs for values whose types are known only when they arrive."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moorage.cel import values
from moorage.cel.check.declarations import Field
from moorage.cel.errors import EvalError
from moorage.cel.library import Overload
from moorage.cel.stdlib.operators import in_list, in_map, index_map, no_such_key, not_equal
from moorage.cel.stdlib.optionals import find, lookup
from moorage.cel.types import DYN, Type, TypeKind
from moorage.cel.values import NONE, Optional, compare, from_key, to_key, type_of_value

Fields = Mapping[str, Mapping[str, Field]]
"""The fields of the declared object types, by the type's name."""


def contains(value: Any, container: Any) -> bool:
    """`value in container`."""
    if isinstance(container, dict):
        return in_map(value, container)
    if isinstance(container, list | tuple):
        return in_list(value, container)  # type: ignore[arg-type]
    raise EvalError("no such overload")


def _ordered(test: Callable[[int, int], bool]) -> Callable[[Any, Any], bool]:
    return lambda a, b: test(compare(a, b), 0)


ANY_TYPE: dict[str, Callable[..., Any]] = {
    "_==_": values.equal,
    "_!=_": not_equal,
    "_<_": _ordered(operator.lt),
    "_<=_": _ordered(operator.le),
    "_>_": _ordered(operator.gt),
    "_>=_": _ordered(operator.ge),
    "_[_]": lookup,
    "_[?_]": find,
    "@in": contains,
}
"""Operators that look at the values themselves: they take more than their overloads say."""


def accepts(kind: Type, value: Any) -> bool:
    """Whether a value can be an argument of this type. Of a list or map one element is looked at."""
    match kind.kind:
        case TypeKind.DYN | TypeKind.PARAM:
            return True
        case TypeKind.LIST:
            return isinstance(value, list | tuple) and (not value or accepts(kind.params[0], value[0]))
        case TypeKind.MAP:
            if not isinstance(value, dict):
                return False
            key = next(iter(value), None)
            return not value or (accepts(kind.params[0], from_key(key)) and accepts(kind.params[1], value[key]))
        case TypeKind.OPAQUE | TypeKind.OBJECT:
            actual = type_of_value(value)
            return actual.name == kind.name or actual is DYN
        case _:
            return type_of_value(value).kind is kind.kind


def dispatch(overloads: Iterable[Overload], args: tuple[Any, ...]) -> Any:
    """Call the first overload that takes these arguments."""
    for overload in overloads:
        if all(map(accepts, overload.args, args)):
            try:
                return overload.impl(*args)
            except (TypeError, AttributeError, ValueError):
                # An element deeper inside than was looked at is of another type.
                break
    raise EvalError("no such overload")


def dispatcher(function: str, overloads: tuple[Overload, ...]) -> Callable[..., Any]:
    """A function that finds the overload when it is called."""
    return ANY_TYPE.get(function) or (lambda *args: dispatch(overloads, args))


def boolean(value: Any) -> bool:
    """The value when it is a bool."""
    if value is True or value is False:
        return value
    raise EvalError("no such overload")


def present(value: Any, field: str) -> Any:
    """The value of a field that may be absent."""
    if value is None:
        raise no_such_key(field)
    return value


def select(operand: Any, field: str, fields: Fields) -> Any:
    """`operand.field` of anything that has fields."""
    if isinstance(operand, dict):
        return index_map(operand, field)
    if isinstance(operand, Optional):
        return optional_select(operand, field, fields)
    declared = _declared(operand, field, fields)
    return present(getattr(operand, declared.attribute), field)


def optional_select(operand: Any, field: str, fields: Fields) -> Optional:
    """`operand.?field`."""
    if isinstance(operand, Optional):
        return optional_select(operand.value, field, fields) if operand.present else NONE
    return Optional(select(operand, field, fields)) if has(operand, field, fields) else NONE


def has(operand: Any, field: str, fields: Fields) -> bool:
    """`has(operand.field)`."""
    if isinstance(operand, dict):
        return field in operand
    if isinstance(operand, Optional):
        return operand.present and has(operand.value, field, fields)
    return getattr(operand, _declared(operand, field, fields).attribute) is not None


def _declared(operand: Any, field: str, fields: Fields) -> Field:
    """The declaration of a field of an object whose type nobody knows: the first that fits."""
    if type_of_value(operand) is DYN:
        for declared in fields.values():
            if all(hasattr(operand, field.attribute) for field in declared.values()):
                if field in declared:
                    return declared[field]
                raise no_such_key(field)
    raise EvalError("no such overload")


def elements(container: Any) -> Iterable[Any]:
    """What a comprehension with one variable goes through."""
    if isinstance(container, dict):
        return map(from_key, container)
    if isinstance(container, list | tuple):
        return container
    raise EvalError("no such overload")


def pairs(container: Any) -> Iterable[tuple[Any, Any]]:
    """What a comprehension with two variables goes through."""
    if isinstance(container, dict):
        return ((from_key(key), value) for key, value in container.items())
    if isinstance(container, list | tuple):
        return enumerate(container)
    raise EvalError("no such overload")


def make_list(items: Iterable[tuple[Any, bool]]) -> list[Any]:
    """A list of elements, of which some are optional."""
    elements: list[Any] = []
    for value, optional in items:
        if not optional:
            elements.append(value)
        elif not isinstance(value, Optional):
            raise EvalError(f"cannot initialize optional list element from non-optional value {value}")
        elif value.present:
            elements.append(value.value)
    return elements


def make_map(entries: Iterable[tuple[Any, Any, bool]]) -> dict[Any, Any]:
    """A map of keys and values, of which some are optional."""
    mapping: dict[Any, Any] = {}
    for key, value, optional in entries:
        if isinstance(key, float):
            raise EvalError("unsupported key type: double")
        held = to_key(key)
        if held in mapping:
            raise EvalError("Failed with repeated key")
        if not optional:
            mapping[held] = value
        elif not isinstance(value, Optional):
            raise EvalError(f"cannot initialize optional entry '{key}' from non-optional value {value}")
        elif value.present:
            mapping[held] = value.value
    return mapping


def merge(maps: Iterable[dict[Any, Any]]) -> dict[Any, Any]:
    """Maps put together, which may have no key in common."""
    mapping: dict[Any, Any] = {}
    for entries in maps:
        if not isinstance(entries, dict):
            raise EvalError("no such overload")
        for key, value in entries.items():
            if key in mapping:
                raise EvalError(f"insert failed: key {from_key(key)} already exists")
            mapping[key] = value
    return mapping
