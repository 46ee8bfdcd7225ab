"""Objects as they are stored: where each has its key, and how it becomes bytes and data again."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.store.protocol import Item

_ROOT = "/registry"
_GROUP_OF = {"events.k8s.io": ""}
"""Events are in two groups and kept once, in the form of the first."""


def prefix(kind: Kind, namespace: str = "") -> str:
    """What the keys of all objects of a kind, or of those in a namespace, begin with."""
    group = _GROUP_OF.get(kind.group, kind.group) or "core"
    return f"{_ROOT}/{group}/{kind.plural}/" + (f"{namespace}/" if namespace else "")


def key(kind: Kind, namespace: str, name: str) -> str:
    """Where one object is kept."""
    return prefix(kind, namespace) + name


def encode(data: Data) -> bytes:
    """The bytes that are stored: the metadata first, and in it an empty resourceVersion."""
    metadata = {name: value for name, value in data["metadata"].items() if name != "resourceVersion"}
    ordered = {"metadata": {"resourceVersion": "", **metadata}}
    ordered.update((name, value) for name, value in data.items() if name != "metadata")
    return msgspec.json.encode(ordered)


def decode(item: Item) -> Data:
    """The data of a stored object, with its resourceVersion."""
    data: Data = msgspec.json.decode(item.value)
    data["metadata"]["resourceVersion"] = str(item.revision)
    return data


@lru_cache(maxsize=8192)
def decoded(item: Item) -> Data:
    """The data of a stored object that nobody changes: what selectors look at, once for all watchers."""
    return decode(item)
