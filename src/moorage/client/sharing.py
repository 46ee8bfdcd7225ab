"""What pods of one template have in common, held once: most of a decoded pod, as soon as it has been placed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import force_setattr

from moorage.api.meta import Object
from moorage.api.pod import Pod
from moorage.bounded import Bounded

T = TypeVar("T", bound=Object)
V = TypeVar("V")
_KEPT, LONGEST = 1024, 16 << 10
"""How many values are kept, and how many bytes a pod may have whose parts are: so their memory is bounded too."""
_PLACED = ("Running", "Succeeded", "Failed")
_NOTHING: dict[str, Any] = {}
_FIRST: Bounded[Hashable, Any] = Bounded(_KEPT)
"""The values that were seen first of those that are equal."""


def reader(struct: type[T]) -> Callable[[msgspec.Raw], T]:
    """What decodes an object. What it returns is read only, and parts of it may be those of other objects."""
    decode = msgspec.json.Decoder(struct).decode
    if struct is not Pod:
        return decode

    def read(raw: msgspec.Raw) -> T:
        pod = decode(raw)
        if len(raw) <= LONGEST:
            share(cast(Pod, pod))
        return pod

    return read


def share(pod: Pod) -> None:
    """Replace parts of a pod by equal ones of other pods. One that waits is left as it is: it will soon change."""
    spec, status, metadata = pod.spec, pod.status, pod.metadata
    if status.phase not in _PLACED:
        return
    images = tuple([(each.name, each.image) for each in spec.containers])
    for part, name, value, key in (
        (spec, "tolerations", spec.tolerations, spec.tolerations),
        (spec, "containers", spec.containers, images),
        (status, "conditions", status.conditions, status.conditions),
        (metadata, "labels", metadata.labels, tuple(metadata.labels.items())),
    ):
        if value:
            force_setattr(part, name, _first(value, key))
    for part, name, empty in (
        (spec, "node_selector", not spec.node_selector),
        (spec, "overhead", not spec.overhead),
        (metadata, "annotations", not metadata.annotations),
        (metadata, "labels", not metadata.labels),
    ):
        if empty:
            force_setattr(part, name, _NOTHING)
    for part, name, word in (
        (spec, "node_name", spec.node_name),
        (spec, "scheduler_name", spec.scheduler_name),
        (spec, "preemption_policy", spec.preemption_policy or ""),
        (metadata, "namespace", metadata.namespace),
        (status, "host_ip", status.host_ip),
    ):
        if word:
            force_setattr(part, name, sys.intern(word))


def _first(value: V, key: Hashable) -> V:
    """The value that was first seen under a key, if it is equal."""
    known = _FIRST.get(key)
    if known == value:
        return cast(V, known)
    _FIRST.put(key, value)
    return value
