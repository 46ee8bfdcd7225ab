"""The OpenAPI 2 document in the protobuf encoding of gnostic, the only form that kubectl requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OLDER_MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

Encoder = Callable[[Any], bytes]
"""Encodes a value as a message, or as a field with its number and length."""
_BYTES = 2


def encode(document: Mapping[str, Any]) -> bytes:
    """A document as protobuf."""
    return _document(document)


def _delimited(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def _one(*numbers: int, of: Encoder = str.encode) -> Encoder:
    """A field. Further numbers wrap it: they are those of fields of messages that contain nothing else."""

    def write(value: Any) -> bytes:
        content = of(value)
        for number in numbers:
            content = _delimited(number, content)
        return content

    return write


def _many(number: int, of: Encoder = str.encode) -> Encoder:
    field = _one(number, of=of)
    return lambda values: b"".join(map(field, values))


def _flag(number: int) -> Encoder:
    return lambda value: _varint(number << 3) + bytes([value])


def _map(number: int, of: Encoder) -> Encoder:
    """A map: repeated entries with a name and a value."""
    value = _one(2, of=of)
    return lambda entries: b"".join(
        _delimited(number, _delimited(1, name.encode()) + value(content)) for name, content in entries.items()
    )


def _message(extensions: int = 0, /, **fields: Encoder) -> Encoder:
    """An object with these fields. Extensions (x-...) are encoded as JSON text, which is YAML too."""
    extension = _map(extensions, of=_one(2, of=msgspec.json.encode))

    def write(data: Mapping[str, Any]) -> bytes:
        return b"".join(
            extension({name: value}) if name.startswith("x-") else fields[name.lstrip("$")](value)
            for name, value in data.items()
        )

    return write


def _schema(data: Mapping[str, Any]) -> bytes:
    return _schema_fields(data)


def _open(value: Any) -> bytes:
    """The additionalProperties: a schema or a boolean."""
    return _flag(2)(value) if isinstance(value, bool) else _one(1, of=_schema)(value)


def _parameter(data: Mapping[str, Any]) -> bytes:
    return _PARAMETERS[data["in"]](data)


_schema_fields = _message(
    31,
    ref=_one(1),
    format=_one(2),
    description=_one(4),
    required=_many(19),
    additionalProperties=_one(21, of=_open),
    type=_one(1, 22),
    items=_one(1, 23, of=_schema),
    properties=_one(25, of=_map(1, of=_schema)),
)
_COMMON = {"required": _flag(1), "in": _one(2), "description": _one(3), "name": _one(4)}
_PARAMETERS: dict[str, Encoder] = {
    "body": _one(1, 1, of=_message(
        6, description=_one(1), name=_one(2), required=_flag(4), schema=_one(5, of=_schema), **{"in": _one(3)}
    )),
    "query": _one(3, 2, 1, of=_message(23, type=_one(6), **_COMMON)),
    "path": _one(4, 2, 1, of=_message(22, type=_one(5), **_COMMON)),
}  # fmt: skip
_response = _message(5, description=_one(1), schema=_one(1, 2, of=_schema))
_operation = _message(
    13,
    tags=_many(1),
    description=_one(3),
    operationId=_one(5),
    produces=_many(6),
    consumes=_many(7),
    parameters=_many(8, of=_parameter),
    responses=_one(9, of=_map(1, of=_one(1, of=_response))),
)
_path = _message(
    10,
    get=_one(2, of=_operation),
    put=_one(3, of=_operation),
    post=_one(4, of=_operation),
    delete=_one(5, of=_operation),
    patch=_one(8, of=_operation),
    parameters=_many(9, of=_parameter),
)
_key = _message(5, type=_one(1), name=_one(2), **{"in": _one(3)})
_document = _message(
    16,
    swagger=_one(1),
    info=_one(2, of=_message(7, title=_one(1), version=_one(2))),
    paths=_one(8, of=_map(2, of=_path)),
    definitions=_one(9, of=_map(1, of=_schema)),
    security=_many(12, of=_map(1, of=_many(1))),
    securityDefinitions=_one(13, of=_map(1, of=_one(2, of=_key))),
)
