"""CEL types: what the checker assigns to every expression."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TypeKind(Enum):
    """What family a type belongs to; `Type.name` tells apart the members of OPAQUE, OBJECT and PARAM."""

    DYN = "dyn"
    NULL = "null"
    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    DOUBLE = "double"
    STRING = "string"
    BYTES = "bytes"
    DURATION = "google.protobuf.Duration"
    TIMESTAMP = "google.protobuf.Timestamp"
    LIST = "list"
    MAP = "map"
    TYPE = "type"
    OPAQUE = "opaque"
    OBJECT = "object"
    PARAM = "param"
    ERROR = "!error!"


@dataclass(frozen=True, slots=True)
class Type:
    """A type, with its parameters when it has any (`list(string)`, `map(string, int)`, `optional_type(T)`)."""

    kind: TypeKind
    name: str
    params: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if self.kind is TypeKind.TYPE and not self.params:
            return "type"
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


DYN = Type(TypeKind.DYN, "dyn")
NULL = Type(TypeKind.NULL, "null")
BOOL = Type(TypeKind.BOOL, "bool")
INT = Type(TypeKind.INT, "int")
UINT = Type(TypeKind.UINT, "uint")
DOUBLE = Type(TypeKind.DOUBLE, "double")
STRING = Type(TypeKind.STRING, "string")
BYTES = Type(TypeKind.BYTES, "bytes")
DURATION = Type(TypeKind.DURATION, "google.protobuf.Duration")
TIMESTAMP = Type(TypeKind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE = Type(TypeKind.TYPE, "type")
ERROR = Type(TypeKind.ERROR, "!error!")


def list_of(element: Type) -> Type:
    """`list(element)`."""
    return Type(TypeKind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """`map(key, value)`."""
    return Type(TypeKind.MAP, "map", (key, value))


def type_of(inner: Type) -> Type:
    """`type(inner)`: the type of a type."""
    return Type(TypeKind.TYPE, "type", (inner,))


def optional_of(inner: Type) -> Type:
    """`optional_type(inner)`."""
    return Type(TypeKind.OPAQUE, "optional_type", (inner,))


def opaque(name: str, *params: Type) -> Type:
    """A type whose values only functions can look into, such as a library's `kubernetes.Quantity`."""
    return Type(TypeKind.OPAQUE, name, params)


def object_of(name: str) -> Type:
    """A type with named fields, declared in the environment."""
    return Type(TypeKind.OBJECT, name)


def param(name: str) -> Type:
    """A type parameter in a declaration: the `T` of `list(T)`."""
    return Type(TypeKind.PARAM, name)
