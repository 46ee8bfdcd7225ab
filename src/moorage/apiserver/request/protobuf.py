"""Kubernetes' protobuf, which typed clients send, read as the JSON of the same object.

The table `api/protobuf.json` says for each message and number `name:type`. A type is a letter of `_TYPES` or another
message, after `[` when it is in a list and after `{` when it is the value of a map. `?` marks what JSON keeps when it
is zero; a field without a name lies flat in the object around it. No message holds itself: the table bounds the depth.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from threading import local
from typing import Any

import msgspec

from moorage.api.meta import Data
from moorage.apiserver.base.offload import MAX_VALUES

Read = Callable[[Any], Any]
"""Makes a value of the number or the bytes of a field."""
Put = Callable[[Data, Any], Any]
"""Reads the number or the bytes of a field into an object."""

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}
_EPOCH = datetime(1970, 1, 1)
_NO_TIME = datetime(1, 1, 1)
_MAX_FIELDS = 4 * MAX_VALUES
"""How many fields are read: an entry of a map, its key, its quantity and the text of that are one value."""


class ProtobufError(ValueError):
    """The bytes are not an object in Kubernetes' protobuf."""


class TooManyValues(ProtobufError):
    """The object holds more than anybody would write."""


class _Budget(local):
    """How many more fields this thread reads of the body it is at."""

    fields = 0

    def spend(self, count: int) -> None:
        self.fields -= count
        if self.fields < 0:
            raise TooManyValues("it has too many fields")


_BUDGET = _Budget()


class ProtobufMessage:
    """How the fields of a message are read: by number and wire type at once, as they stand before each field."""

    __slots__ = ("name", "numbers", "puts")

    def __init__(self, name: str, fields: Mapping[str, str]) -> None:
        self.name = name
        self.numbers = frozenset(map(int, fields))
        self.puts = {tag: put for number, text in fields.items() for tag, put in _puts(int(number), text)}

    def read(self, data: bytes, into: Data) -> Data:
        """Add what the bytes say to an object: a message may come in pieces. Fields that nobody knows are skipped."""
        position, end, count = 0, len(data), 1
        value: int | bytes
        while position < end:
            count += 1
            if count > _MAX_FIELDS:
                break
            tag, position = _varint(data, position)
            wire = tag & 7
            if wire == _BYTES:
                length, start = _varint(data, position)
                position = start + length
                value = data[start:position]
            elif wire == _VARINT:
                value, position = _varint(data, position)
            elif wire in _FIXED:
                value, position = b"", position + _FIXED[wire]
            else:
                raise ProtobufError(f"field {tag >> 3} of {self.name} has the wire type {wire}, which is not in use")
            if position > end:
                raise ProtobufError(f"field {tag >> 3} of {self.name} is longer than what holds it")
            if put := self.puts.get(tag):
                put(into, value)
            elif tag < 8 or tag >> 3 in self.numbers:
                raise ProtobufError(f"field {tag >> 3} of {self.name} cannot have the wire type {wire}")
        _BUDGET.spend(count)
        return into


def decode(body: bytes) -> Data:
    """The object in a body, as its JSON would be; ProtobufError when there is none."""
    if not body.startswith(_MAGIC):
        raise ProtobufError(r"the body does not begin with k8s\0")
    _BUDGET.fields = _MAX_FIELDS
    try:
        envelope = _message("runtime.Unknown").read(body[len(_MAGIC) :], {})
        form = envelope.get("contentEncoding") or envelope.get("contentType", MEDIA_TYPE)
        if form != MEDIA_TYPE:
            raise ProtobufError(f"the object is wrapped as {form!r}: only plain {MEDIA_TYPE} is read")
        named = {"apiVersion": "", "kind": "", **envelope.get("typeMeta", {})}
        return _of_kind(named["apiVersion"], named["kind"]).read(envelope.get("raw", b""), named)
    except IndexError:
        raise ProtobufError("the body ends in the middle of a field") from None
    except UnicodeDecodeError:
        raise ProtobufError("a string is not in UTF-8") from None


def _of_kind(api_version: str, kind: str) -> ProtobufMessage:
    kinds = _table()["kinds"]
    # The options of a request are the same in every version of every group.
    name = kinds.get(f"{api_version}/{kind}") or kinds.get(f"*/{kind}")
    if name is None:
        raise ProtobufError(f"the kind {kind!r} of {api_version!r} is not known in protobuf: send it as JSON")
    return _message(name)


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = msgspec.json.decode(
        files("moorage.apiserver.request").joinpath("protobuf.json").read_bytes()
    )
    return table


@cache
def _message(name: str) -> ProtobufMessage:
    return ProtobufMessage(name, _table()["messages"][name])


def _puts(number: int, text: str) -> Iterator[tuple[int, Put]]:
    """What reads a field, by its number and wire type."""
    name, _, code = text.partition(":")
    item = code.lstrip("[{?")
    wire = _VARINT if item in _NUMBERS else _BYTES
    if code[0] == "{":
        yield number << 3 | _BYTES, _mapped(name, code[1:])
    elif code[0] == "[":
        yield number << 3 | wire, _listed(name, _read(item))
        if wire == _VARINT:
            yield number << 3 | _BYTES, _packed(name, _read(item))
    elif item not in _TYPES:
        yield number << 3 | _BYTES, _nested(name, _message(item)) if name else _flat(_message(item))
    else:
        put = _unless_zero if code in _DROPPED else _unless_none
        yield number << 3 | wire, put(name, _TYPES[item])


def _read(code: str) -> Read:
    if code in _TYPES:
        return _TYPES[code]
    message = _message(code)
    return lambda data: message.read(data, {})


def _unless_zero(name: str, read: Read) -> Put:
    def put(into: Data, value: Any) -> None:
        if item := read(value):
            into[name] = item
        else:
            into.pop(name, None)

    return put


def _unless_none(name: str, read: Read) -> Put:
    def put(into: Data, value: Any) -> None:
        if (item := read(value)) is not None:
            into[name] = item
        else:
            into.pop(name, None)

    return put


def _nested(name: str, message: ProtobufMessage) -> Put:
    return lambda into, value: message.read(value, into.setdefault(name, {}))


def _flat(message: ProtobufMessage) -> Put:
    return lambda into, value: message.read(value, into)


def _listed(name: str, read: Read) -> Put:
    return lambda into, value: into.setdefault(name, []).append(read(value))


def _packed(name: str, read: Read) -> Put:
    def put(into: Data, value: Any) -> None:
        _BUDGET.spend(len(value))
        items, position = into.setdefault(name, []), 0
        while position < len(value):
            number, position = _varint(value, position)
            items.append(read(number))

    return put


def _mapped(name: str, code: str) -> Put:
    entry = ProtobufMessage("a map", {"1": "key:s", "2": f"value:?{code}"})
    read = _read(code)

    def put(into: Data, value: Any) -> None:
        pair = entry.read(value, {})
        into.setdefault(name, {})[pair.get("key", "")] = pair["value"] if "value" in pair else read(b"")

    return put


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = data[position]
    if value < 128:
        return value, position + 1
    value &= 127
    for place in range(1, 10):
        byte = data[position + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + place + 1
    raise ProtobufError("a number has more than 64 bits")


def _int32(value: int) -> int:
    return ((value & 0xFFFF_FFFF) ^ 0x8000_0000) - 0x8000_0000


def _int64(value: int) -> int:
    return (value ^ 0x8000_0000_0000_0000) - 0x8000_0000_0000_0000


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _moment(data: bytes, unit: str) -> str | None:
    """A time as JSON has it, None for the one that stands for none."""
    stamp = _message("meta.v1.Timestamp").read(data, {})
    fraction = int(stamp.get("nanos", 0) / 1000) if unit == "microseconds" else 0
    try:
        moment = _EPOCH + timedelta(seconds=stamp.get("seconds", 0), microseconds=fraction)
    except OverflowError:
        raise ProtobufError("a time is not in the years 1 to 9999") from None
    return None if not data or moment == _NO_TIME else f"{moment.isoformat(timespec=unit)}Z"


def _time(data: bytes) -> str | None:
    return _moment(data, "seconds")


def _micro_time(data: bytes) -> str | None:
    return _moment(data, "microseconds")


def _quantity(data: bytes) -> str:
    text: str = _message("quantity.Quantity").read(data, {}).get("string", "0")
    return text


def _int_or_string(data: bytes) -> int | str:
    fields = _message("intstr.IntOrString").read(data, {})
    which = fields.get("type", 0)
    if which not in (0, 1):
        raise ProtobufError(f"a value of the type {which} is neither a number nor a string")
    value: int | str = fields.get("strVal", "") if which else fields.get("intVal", 0)
    return value


def _strings(data: bytes) -> list[str]:
    items: list[str] = _message("authorization.v1.ExtraValue").read(data, {}).get("items", [])
    return items


def _raw_json(data: bytes) -> Any:
    raw = _message("runtime.RawExtension").read(data, {}).get("raw")
    try:
        return msgspec.json.decode(raw) if raw else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtobufError(f"an object of any kind inside is not JSON: {error}") from None


_TYPES: dict[str, Read] = {
    "s": bytes.decode,
    "b": bool,
    "i": _int32,
    "l": _int64,
    "r": bytes,
    "B": _base64,
    "t": _time,
    "m": _micro_time,
    "q": _quantity,
    "x": _int_or_string,
    "e": _strings,
    "*": _raw_json,
}
_NUMBERS = frozenset("bil")
_DROPPED = frozenset("sbil")
