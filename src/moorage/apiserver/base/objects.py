"""Objects as they are stored: their keys, and their encoding."""

from __future__ import annotations

import msgspec

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.bounded import Bounded
from moorage.store.protocol import Item

_ROOT = "/registry"
_SMALL = 16 << 10
_OBJECT, _ELEMENT = 184, 64
"""Bytes that the interpreter needs for a small dictionary, and for a value in a dictionary or a list."""
_GROUP_OF = {"events.k8s.io": ""}
"""Events are served in two groups and stored once, in the core group."""


def prefix(kind: Kind, namespace: str = "") -> str:
    """The common prefix of the keys of all objects of a kind, or of those in a namespace."""
    group = _GROUP_OF.get(kind.group, kind.group) or "core"
    return f"{_ROOT}/{group}/{kind.plural}/" + (f"{namespace}/" if namespace else "")


def key(kind: Kind, namespace: str, name: str) -> str:
    """The key of one object."""
    return prefix(kind, namespace) + name


def exactly(text: bytes) -> bytes:
    """The same text in as much memory as it needs: msgspec leaves up to a half of it unused behind what it encodes."""
    return memoryview(text).tobytes()


def encode(data: Data) -> bytes:
    """The bytes that are stored: the metadata first, and in it an empty resourceVersion."""
    metadata = {name: value for name, value in data["metadata"].items() if name != "resourceVersion"}
    ordered = {"metadata": {"resourceVersion": "", **metadata}}
    ordered.update((name, value) for name, value in data.items() if name != "metadata")
    return exactly(msgspec.json.encode(ordered))


def decode(item: Item) -> Data:
    """The data of a stored object, with its resourceVersion; an empty one when it is not stored yet."""
    data: Data = msgspec.json.decode(item.value)
    data["metadata"]["resourceVersion"] = str(item.revision or "")
    return data


_DECODED: Bounded[Item, Data] = Bounded(8192, 64 << 20)


def size_decoded(text: bytes) -> int:
    """About how many bytes a JSON text and its data take together.

    Often it is seven times the text, but thirty times for many small objects, which anybody can send.
    """
    return len(text) + _OBJECT * text.count(b"{") + _ELEMENT * (text.count(b",") + text.count(b"["))


def decoded(item: Item) -> Data:
    """The data of a stored object, decoded once for all who only read it, such as selectors of watches."""
    data = _DECODED.get(item)
    if data is None:
        data = decode(item)
        _DECODED.put(item, data, size_decoded(item.value))
    return data
