"""CEL types: what the checker assigns to every expression."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
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

    kind: Kind
    name: str
    params: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if self.kind is Kind.TYPE and not self.params:
            return "type"
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


DYN = Type(Kind.DYN, "dyn")
NULL = Type(Kind.NULL, "null")
BOOL = Type(Kind.BOOL, "bool")
INT = Type(Kind.INT, "int")
UINT = Type(Kind.UINT, "uint")
DOUBLE = Type(Kind.DOUBLE, "double")
STRING = Type(Kind.STRING, "string")
BYTES = Type(Kind.BYTES, "bytes")
DURATION = Type(Kind.DURATION, "google.protobuf.Duration")
TIMESTAMP = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE = Type(Kind.TYPE, "type")
ERROR = Type(Kind.ERROR, "!error!")


def list_of(element: Type) -> Type:
    """`list(element)`."""
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """`map(key, value)`."""
    return Type(Kind.MAP, "map", (key, value))


def type_of(inner: Type) -> Type:
    """`type(inner)`: the type of a type."""
    return Type(Kind.TYPE, "type", (inner,))


def optional_of(inner: Type) -> Type:
    """`optional_type(inner)`."""
    return Type(Kind.OPAQUE, "optional_type", (inner,))


def opaque(name: str, *params: Type) -> Type:
    """A type whose values only functions can look into, such as a library's `kubernetes.Quantity`."""
    return Type(Kind.OPAQUE, name, params)


def object_of(name: str) -> Type:
    """A type with named fields, declared in the environment."""
    return Type(Kind.OBJECT, name)


def param(name: str) -> Type:
    """A type parameter in a declaration: the `T` of `list(T)`."""
    return Type(Kind.PARAM, name)
