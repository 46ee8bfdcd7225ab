"""Plain Python data as the values of an environment's variables: dicts as objects, datetimes as timestamps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from moorage.cel.check.declarations import Declarations
from moorage.cel.types import DYN, Type, TypeKind
from moorage.cel.values import Duration, Timestamp, UInt, to_key

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EMPTY: dict[TypeKind, Callable[[], Any]] = {
    TypeKind.BOOL: bool, TypeKind.INT: int, TypeKind.UINT: UInt, TypeKind.DOUBLE: float, TypeKind.STRING: str,
    TypeKind.BYTES: bytes, TypeKind.LIST: list, TypeKind.MAP: dict,
}  # fmt: skip


def inputs(declarations: Declarations, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values of all variables, in the order of their declaration; TypeError unless each is given."""
    if values.keys() != declarations.variables.keys():
        declared, given = ", ".join(declarations.variables) or "none", ", ".join(values) or "none"
        raise TypeError(f"the environment declares the variables {declared}, and given are {given}")
    return tuple(_value(values[name], kind, declarations) for name, kind in declarations.variables.items())


def _value(value: Any, kind: Type, declarations: Declarations) -> Any:
    match value:
        case datetime():
            return Timestamp((value - _EPOCH) // _MICROSECOND * 1000)
        case timedelta():
            return Duration(value // _MICROSECOND * 1000)
        case Mapping() if kind.kind is TypeKind.OBJECT:
            return _record(value, kind.name, declarations)
        case Mapping():
            of_key, of_value = kind.params if kind.kind is TypeKind.MAP else (DYN, DYN)
            return {
                to_key(_value(key, of_key, declarations)): _value(held, of_value, declarations)
                for key, held in value.items()
            }
        case list() | tuple():
            (of_element,) = kind.params if kind.kind is TypeKind.LIST else (DYN,)
            return [_value(element, of_element, declarations) for element in value]
    return _scalar(value, kind)


def _scalar(value: Any, kind: Type) -> Any:
    match kind.kind, value:
        case TypeKind.TIMESTAMP, str():
            return Timestamp.parse(value)
        case TypeKind.DURATION, str():
            return Duration.parse(value)
        case TypeKind.UINT, int():
            return UInt(value)
        case TypeKind.DOUBLE, int():
            return float(value)
    return value


def _record(data: Mapping[str, Any], name: str, declarations: Declarations) -> SimpleNamespace:
    """An object with the declared fields; one that the data leaves out is absent or empty, as in Kubernetes."""
    record = SimpleNamespace()
    for name_of_field, field in declarations.fields[name].items():
        value = data.get(name_of_field)
        if value is not None:
            value = _value(value, field.type, declarations)
        elif not field.optional and field.type.kind in _EMPTY:
            value = _EMPTY[field.type.kind]()
        setattr(record, field.attribute, value)
    return record
