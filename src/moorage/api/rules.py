"""Rules in annotations: the fields that a stock API server refuses or drops, in the YAML of those fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from moorage.api.decode import DecodeError, convert
from moorage.api.pod import NodeAffinity, Toleration
from moorage.api.volume import VolumeNodeAffinity
from moorage.api.yamltext import YAMLTextError, parse

TOLERATIONS = "moorage.dev/tolerations"
"""On a pod: what would be its `spec.tolerations`."""
NODE_AFFINITY = "moorage.dev/node-affinity"
"""On a pod: what would be its `spec.affinity.nodeAffinity`; on a PersistentVolume: its `spec.nodeAffinity`."""
DEVICE_TOLERATIONS = "moorage.dev/device-tolerations"
"""On a claim: what would be the tolerations of its requests; or those of each request, by its name."""
COVER = "moorage.dev/cover"
"""On a pod: those of its native tolerations that were added only so that nobody else evicts what rules allow. On a
claim: what was written beside its devices in place of its rules."""
POD_RULES = (TOLERATIONS, NODE_AFFINITY)

MAX_BYTES = 32_768
MAX_ENTRIES = 1024

Annotations = Mapping[str, str]
TolerationList = tuple[Toleration, ...]
DeviceRules = TolerationList | dict[str, TolerationList]
"""Tolerations of all requests, or of each by its name (`gpu`, or `gpu/large` for one way to satisfy it)."""


class RulesError(ValueError):
    """An annotation that does not hold what it should; the sentence names it."""

    def __init__(self, annotation: str, problem: str) -> None:
        super().__init__(f"annotation {annotation}: {problem}")
        self.annotation = annotation
        self.problem = problem


class Rules(NamedTuple):
    """What the annotations of a pod say. What cannot be read says nothing, and `problems` says why."""

    tolerations: TolerationList = ()
    affinity: NodeAffinity | None = None
    cover: TolerationList | None = ()
    """None when it is recorded that there is one, and not which."""
    problems: tuple[tuple[str, str], ...] = ()
    """Annotations, and what is wrong with each."""


def rules_of(annotations: Annotations) -> Rules | None:
    """The rules and the recorded cover in the annotations of a pod or pod template; None when there are none."""
    if not annotations:
        return None
    texts = annotations.get(TOLERATIONS), annotations.get(NODE_AFFINITY), annotations.get(COVER)
    return None if texts == (None, None, None) else _read_pod(*texts)


def volume_rules(annotations: Annotations) -> VolumeNodeAffinity | None:
    """The node affinity in the annotations of a PersistentVolume. Raises RulesError."""
    text = annotations.get(NODE_AFFINITY)
    affinity: VolumeNodeAffinity | None = None if text is None else _read(NODE_AFFINITY, text, VolumeNodeAffinity)
    return affinity


def device_rules(annotations: Annotations) -> DeviceRules | None:
    """The tolerations in the annotations of a claim. Raises RulesError."""
    text = annotations.get(DEVICE_TOLERATIONS)
    if text is None:
        return None
    by_request = isinstance(parsed(DEVICE_TOLERATIONS, text), dict)
    rules: DeviceRules = _read(DEVICE_TOLERATIONS, text, dict[str, TolerationList] if by_request else TolerationList)
    return rules


@lru_cache(maxsize=1024)
def _read_pod(tolerations: str | None, affinity: str | None, cover: str | None) -> Rules:
    problems: list[tuple[str, str]] = []

    def read(annotation: str, text: str | None, what: Any, default: Any) -> Any:
        try:
            return default if text is None else _read(annotation, text, what)
        except RulesError as error:
            problems.append((annotation, error.problem))
            return None

    listed = read(TOLERATIONS, tolerations, TolerationList, ()) or ()
    required = read(NODE_AFFINITY, affinity, NodeAffinity, None)
    return Rules(listed, required, read(COVER, cover, TolerationList, ()), tuple(problems))


@lru_cache(maxsize=256)
def _read(annotation: str, text: str, what: Any) -> Any:
    data = parsed(annotation, text)
    try:
        value = convert(data, what)
    except DecodeError as error:
        raise RulesError(annotation, str(error)) from None
    if unknown := _unknown_field(data, inspect.type_info(what)):
        raise RulesError(annotation, f"unknown field {unknown}")
    lists = value.values() if isinstance(value, dict) else [value] if isinstance(value, tuple) else []
    if sum(map(len, lists)) > MAX_ENTRIES:
        raise RulesError(annotation, f"more than {MAX_ENTRIES} tolerations")
    return value


def parsed(annotation: str, text: str) -> Any:
    """The data that an annotation holds. Raises RulesError."""
    if len(text) > MAX_BYTES:
        raise RulesError(annotation, f"longer than {MAX_BYTES} characters")
    try:
        documents = [root.data for root in parse(text) if root is not None]
    except YAMLTextError as error:
        raise RulesError(annotation, f"line {error.line}: {error.message}") from None
    if len(documents) != 1:
        raise RulesError(annotation, "empty" if not documents else "holds more than one YAML document")
    return documents[0]


def _unknown_field(data: Any, known: inspect.Type, path: str = "") -> str:
    """The path of the first field that no struct has, in data that could be converted; empty when there is none."""
    for step, value, inner in _parts(data, known):
        place = f"{path}{step}"
        if inner is None:
            return place.removeprefix(".")
        if unknown := _unknown_field(value, inner, place):
            return unknown
    return ""


def _parts(data: Any, known: inspect.Type) -> Iterator[tuple[str, Any, inspect.Type | None]]:
    """The values inside of a value, each with its step and its type; None when it may not be there."""
    if isinstance(known, inspect.UnionType):
        known = next(each for each in known.types if not isinstance(each, inspect.NoneType))
    if isinstance(data, list) and isinstance(known, inspect.VarTupleType):
        yield from ((f"[{index}]", each, known.item_type) for index, each in enumerate(data))
    elif isinstance(data, dict) and isinstance(known, inspect.DictType):
        yield from ((f".{key}", each, known.value_type) for key, each in data.items())
    elif isinstance(data, dict) and isinstance(known, inspect.StructType):
        fields = {field.encode_name: field.type for field in known.fields}
        yield from ((f".{key}", each, fields.get(key)) for key, each in data.items())


def text_of(value: TolerationList) -> str:
    """Tolerations as an annotation holds them."""
    return msgspec.json.encode(value).decode()
