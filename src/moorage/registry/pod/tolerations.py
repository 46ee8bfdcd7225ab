"""Tolerations that others give to a pod, and those that its namespace allows (PodTolerationRestriction)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import msgspec

from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.meta import Data
from moorage.api.pod import Toleration
from moorage.api.wellknown import TAINT_MEMORY_PRESSURE
from moorage.match.cover import covers
from moorage.match.reasons import toleration_text
from moorage.match.tolerations import EQUAL, EXISTS, NO_EXECUTE
from moorage.registry.pod.qos import qos_class
from moorage.registry.state import Denied, State

RESTRICTION = "PodTolerationRestriction"
"""The name of the admission plugin, as kube-apiserver spells it."""
DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_NAMESPACE = kinds.row("v1", "Namespace")
_MEMORY_PRESSURE = {"key": TAINT_MEMORY_PRESSURE, "operator": "Exists", "effect": "NoSchedule"}
_MAX_COMPARED = 100_000
_CONFLICT = "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"


def give_tolerations(pod: Data, old: Data | None, state: State) -> None:
    """Add the default tolerations of the namespace to a new pod, and of memory pressure to one with requests."""
    spec = pod["spec"]
    more = list(_annotated(pod, DEFAULTS, state)) if old is None else []
    if qos_class(spec) != "BestEffort":
        more.append(dict(_MEMORY_PRESSURE))
    if more:
        texts = [*spec["tolerations"], *more]
        spec["tolerations"] = [texts[index] for index in needed(tuple(convert(each, Toleration) for each in texts))]


def check_tolerations(pod: Data, old: Data | None, state: State) -> None:
    """Refuse a pod with a toleration that the whitelist of its namespace does not cover; not for those it has."""
    whitelist = [convert(each, Toleration) for each in _annotated(pod, WHITELIST, state)]
    if not whitelist:
        return
    before = old["spec"].get("tolerations") or () if old else ()
    known = {convert(each, Toleration) for each in before}
    tolerations = [convert(each, Toleration) for each in pod["spec"]["tolerations"]]
    if refusal := outside(whitelist, tolerations, "spec.tolerations", known):
        raise Denied(f"{_CONFLICT}: {refusal}")


def outside(
    whitelist: Sequence[Toleration], tolerations: Sequence[Toleration], path: str, known: Container[Toleration] = ()
) -> str:
    """Why tolerations at a path are not allowed by a whitelist, but for those that are known; empty when they are."""
    if len(tolerations) * len(whitelist) > _MAX_COMPARED:
        counts = f"{len(tolerations)} tolerations and {len(whitelist)} entries"
        return f"{counts} are too many to be compared, {_MAX_COMPARED} pairs are the limit"
    for index, toleration in enumerate(tolerations):
        if toleration not in known and not any(_allows(entry, toleration) for entry in whitelist):
            return f"{path}[{index}] {_refusal(toleration)}"
    return ""


def _allows(entry: Toleration, toleration: Toleration) -> bool:
    if entry == toleration:
        return True
    most, seconds = entry.toleration_seconds, toleration.toleration_seconds
    return covers(entry, toleration) and (most is None or (seconds is not None and seconds <= most))


def _refusal(toleration: Toleration) -> str:
    if toleration.expression:
        return (
            "is an expression, and what it tolerates cannot be compared: only the same expression in the whitelist, "
            "or an entry that tolerates everything, allows it"
        )
    key = f" of key {toleration.key}" if toleration.key else " of every key"
    return f"(`{toleration_text(toleration)}`{key}) is covered by no entry of it"


def _annotated(pod: Data, name: str, state: State) -> Sequence[Data]:
    """The tolerations in an annotation of the namespace of a pod. Raises Denied when it cannot be read."""
    namespace = pod["metadata"].get("namespace", "")
    found = state.find(_NAMESPACE, namespace)
    return annotated((found or {"metadata": {}})["metadata"].get("annotations") or {}, name, namespace)


def annotated(annotations: Mapping[str, str], name: str, namespace: str) -> Sequence[Data]:
    """The tolerations in an annotation of a namespace. Raises Denied when it cannot be read."""
    text = annotations.get(name)
    if not text:
        return ()
    try:
        listed: list[Data] = msgspec.json.decode(text, type=list[dict[str, object]])
        for each in listed:
            convert(each, Toleration)
    except (msgspec.DecodeError, DecodeError) as error:
        raise Denied(f"annotation {name} of namespace {namespace} is not a list of tolerations: {error}") from None
    return listed


def needed(tolerations: tuple[Toleration, ...]) -> list[int]:
    """The indexes of tolerations that no other one includes; of equal ones the first is kept."""
    first: dict[Toleration, int] = {}
    wide: dict[tuple[str, str | None], list[Toleration]] = {}
    for index, toleration in enumerate(tolerations):
        if first.setdefault(toleration, index) == index:
            value = None if toleration.operator == EXISTS else toleration.value
            wide.setdefault((toleration.key, value), []).append(toleration)
    return [
        index
        for own, index in first.items()
        # Only one of the same key and value, or of all values, or of all keys, can include it.
        if not any(
            _includes(other, own)
            for place in {(own.key, own.value), (own.key, None), ("", None)}
            for other in wide.get(place, ())
            if other != own
        )
    ]


def _includes(wide: Toleration, narrow: Toleration) -> bool:
    """Whether one toleration tolerates everything that another does."""
    if wide.expression or narrow.expression:
        return False
    if narrow.key != wide.key and (wide.key or wide.operator != EXISTS):
        return False
    if wide.effect not in ("", narrow.effect):
        return False
    if wide.effect == NO_EXECUTE and wide.toleration_seconds is not None:
        seconds = narrow.toleration_seconds
        if seconds is None or seconds > wide.toleration_seconds:
            return False
    if wide.operator in ("", EQUAL):
        return narrow.operator == EQUAL and narrow.value == wide.value
    return wide.operator == EXISTS
