"""Kubernetes' protobuf, written: by Google's library for whole objects, by hand for what no library would write."""

from __future__ import annotations

from base64 import b64decode
from calendar import timegm
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Data = dict[str, Any]

TABLE: dict[str, Any] = msgspec.json.decode(files("moorage.apiserver.request").joinpath("protobuf.json").read_bytes())
KINDS: dict[str, str] = TABLE["kinds"]
MESSAGES: dict[str, dict[str, str]] = TABLE["messages"]

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "s": _FIELD.TYPE_STRING,
    "b": _FIELD.TYPE_BOOL,
    "i": _FIELD.TYPE_INT32,
    "l": _FIELD.TYPE_INT64,
    "r": _FIELD.TYPE_BYTES,
    "B": _FIELD.TYPE_BYTES,
}
_WRAPPERS = {
    "t": "meta.v1.Timestamp",
    "m": "meta.v1.Timestamp",
    "q": "quantity.Quantity",
    "x": "intstr.IntOrString",
    "e": "authorization.v1.ExtraValue",
    "*": "runtime.RawExtension",
}


def varint(number: int) -> bytes:
    number &= 0xFFFF_FFFF_FFFF_FFFF
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes((*digits, number))


def field(number: int, value: int | str | bytes) -> bytes:
    """A field as it stands on the wire."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def body(api_version: str, kind: str, *fields: bytes, more: bytes = b"") -> bytes:
    """The body of a request: an object of a kind in its envelope."""
    named = field(1, field(1, api_version) + field(2, kind))
    return b"k8s\0" + named + field(2, b"".join(fields)) + more


def written(data: Data) -> bytes:
    """The body that says the same as an object's JSON."""
    api_version, kind = data["apiVersion"], data["kind"]
    name = KINDS.get(f"{api_version}/{kind}") or KINDS[f"*/{kind}"]
    return body(api_version, kind, _made(name, data).SerializeToString())


@cache
def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="kubernetes.proto", package="k", syntax="proto2")
    entries = {text.partition(":{")[2] for fields in MESSAGES.values() for text in fields.values() if ":{" in text}
    every = MESSAGES | {f"entry {code}": {"1": "key:s", "2": f"value:{code}"} for code in entries}
    for name, fields in every.items():
        described = file.message_type.add(name=_identifier(name))
        for number, text in fields.items():
            _describe(described.field.add(name=f"f{number}", number=int(number)), text.partition(":")[2])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    find = pool.FindMessageTypeByName
    return {name: message_factory.GetMessageClass(find(f"k.{_identifier(name)}")) for name in every}


def _identifier(name: str) -> str:
    return "".join(char if char.isalnum() else f"_{ord(char)}_" for char in name)


def _describe(added: descriptor_pb2.FieldDescriptorProto, code: str) -> None:
    added.label = _FIELD.LABEL_REPEATED if code[0] in "[{" else _FIELD.LABEL_OPTIONAL
    item = code.lstrip("[?")
    if item in _SCALARS:
        added.type = _SCALARS[item]
        return
    name = f"entry {item[1:]}" if item[0] == "{" else _WRAPPERS.get(item, item)
    added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".k.{_identifier(name)}"


def _made(name: str, data: Data) -> Any:
    made = _classes()[name]()
    for number, text in MESSAGES[name].items():
        key, _, code = text.partition(":")
        at = f"f{number}"
        if key not in data and key:
            continue
        value = data.get(key)
        if not key:
            getattr(made, at).CopyFrom(_made(code, data))
        elif code[0] == "{":
            entry = _classes()[f"entry {code[1:]}"]
            getattr(made, at).extend(entry(f1=each, f2=_value(code[1:], inner)) for each, inner in data[key].items())
        elif code[0] == "[":
            getattr(made, at).extend(_value(code[1:], inner) for inner in data[key])
        elif code.lstrip("?") in _SCALARS:
            setattr(made, at, _value(code.lstrip("?"), value))
        else:
            getattr(made, at).CopyFrom(_value(code, value))
    return made


def _value(code: str, value: Any) -> Any:
    match code:
        case "s" | "b" | "i" | "l":
            return value
        case "B":
            return b64decode(value)
        case "t" | "m":
            moment = datetime.fromisoformat(value.removesuffix("Z"))
            return _made(_WRAPPERS[code], {"seconds": timegm(moment.timetuple()), "nanos": moment.microsecond * 1000})
        case "q":
            return _made(_WRAPPERS[code], {"string": value})
        case "x":
            spelled = {"type": 1, "strVal": value} if isinstance(value, str) else {"type": 0, "intVal": value}
            return _made(_WRAPPERS[code], spelled)
        case "e":
            return _made(_WRAPPERS[code], {"items": value})
        case "*":
            return _classes()[_WRAPPERS[code]](f1=msgspec.json.encode(value))
        case _:
            return _made(code, value)
