"""RuntimeClasses: their validation, and what a new pod gets from its class."""

from __future__ import annotations

from moorage.api.meta import Data, ResourceList
from moorage.api.pod import Pod, RuntimeClass, Toleration
from moorage.match.tolerations import EQUAL, EXISTS, NO_EXECUTE
from moorage.quantity import Quantity
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, syntax, unchanged
from moorage.registry.metadata import label_errors
from moorage.registry.pod.resources import resource_errors
from moorage.validation.field import duplicate, required

_KEYS = ("key", "operator", "value", "effect", "expression")


class MismatchError(Exception):
    """A pod contradicts its RuntimeClass."""


def runtime_class_errors(new: Data, old: Data | None) -> Errors:
    """Validate a RuntimeClass, or an update of one."""
    handler, scheduling = new.get("handler", ""), new.get("scheduling") or {}
    if not handler:
        yield required("handler")
    else:
        yield from syntax("handler", handler, namesyntax.label(handler))
    yield from resource_errors("overhead", {"limits": (new.get("overhead") or {}).get("podFixed", {})}, ())
    yield from label_errors("scheduling.nodeSelector", scheduling.get("nodeSelector", {}))
    seen = set()
    for index, toleration in enumerate(scheduling.get("tolerations", ())):
        key = tuple(toleration.get(name, "") for name in _KEYS)
        if key in seen:
            yield duplicate(f"scheduling.tolerations[{index}]", toleration)
        seen.add(key)
    if old is not None:
        yield from unchanged("handler", handler, old.get("handler", ""))


def give(pod: Data, typed: Pod, chosen: Data, of_class: RuntimeClass) -> None:
    """Set the overhead, the node selector and the tolerations of a new pod's RuntimeClass. Raises MismatchError."""
    spec = pod["spec"]
    if of_class.overhead is not None:
        fixed = of_class.overhead.pod_fixed
        if typed.spec.overhead and not _same(typed.spec.overhead, fixed):
            raise MismatchError("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = dict(fixed)
    if of_class.scheduling is None:
        return
    selector = spec.get("nodeSelector") or {}
    for key, value in of_class.scheduling.node_selector.items():
        if selector.setdefault(key, value) != value:
            raise MismatchError(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
    if selector:
        spec["nodeSelector"] = selector
    texts = [*spec["tolerations"], *chosen["scheduling"].get("tolerations", ())]
    needed = _needed((*typed.spec.tolerations, *of_class.scheduling.tolerations))
    spec["tolerations"] = [texts[index] for index in needed]


def _same(one: ResourceList, other: ResourceList) -> bool:
    return one.keys() == other.keys() and all(Quantity.of(one[name]) == Quantity.of(other[name]) for name in one)


def _needed(tolerations: tuple[Toleration, ...]) -> list[int]:
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
