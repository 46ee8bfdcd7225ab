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
_OURS = frozenset((*POD_RULES, COVER))

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
    if not annotations or _OURS.isdisjoint(annotations):
        return None
    return _read_pod(_text(annotations, TOLERATIONS), _text(annotations, NODE_AFFINITY), _text(annotations, COVER))


def volume_rules(annotations: Annotations) -> VolumeNodeAffinity | None:
    """The node affinity in the annotations of a PersistentVolume. Raises RulesError."""
    affinity: VolumeNodeAffinity | None = _given(NODE_AFFINITY, annotations, VolumeNodeAffinity)
    return affinity


def device_rules(annotations: Annotations) -> DeviceRules | None:
    """The tolerations in the annotations of a claim. Raises RulesError."""
    rules: DeviceRules | None = _given(DEVICE_TOLERATIONS, annotations, DeviceRules)
    return rules


@lru_cache(maxsize=256)
def _read_pod(tolerations: str | None, affinity: str | None, cover: str | None) -> Rules:
    problems: list[tuple[str, str]] = []

    def read(annotation: str, text: str | None, what: Any, default: Any) -> Any:
        if text is None:
            return default
        value, problem = _read(annotation, text, what)
        if problem:
            problems.append((annotation, problem))
        return value

    listed = read(TOLERATIONS, tolerations, TolerationList, ()) or ()
    required = read(NODE_AFFINITY, affinity, NodeAffinity, None)
    return Rules(listed, required, read(COVER, cover, TolerationList, ()), tuple(problems))


def _text(annotations: Annotations, name: str) -> str | None:
    """The text of an annotation; of one that is too long no more is kept than shows that it is."""
    text = annotations.get(name)
    return None if text is None else text[: MAX_BYTES + 1]


def _given(annotation: str, annotations: Annotations, what: Any) -> Any:
    """What an annotation holds; None when there is none. Raises RulesError."""
    text = _text(annotations, annotation)
    if text is None:
        return None
    value, problem = _read(annotation, text, what)
    if problem:
        raise RulesError(annotation, problem)
    return value


@lru_cache(maxsize=256)
def _read(annotation: str, text: str, what: Any) -> tuple[Any, str]:
    """The value of an annotation, or what is wrong with it."""
    try:
        return _converted(annotation, parsed(annotation, text), what), ""
    except RulesError as error:
        return None, error.problem


def _converted(annotation: str, data: Any, what: Any) -> Any:
    if what is DeviceRules:
        what = dict[str, TolerationList] if isinstance(data, dict) else TolerationList
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
