"""Everything that is wrong with an object, and what is valid and probably not meant."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from moorage.api.decode import convert
from moorage.api.meta import Data, Object
from moorage.api.placementrules import tolerations_of
from moorage.api.pod import Affinity, NodeAffinity, Pod, PodSpec, Toleration
from moorage.features import Gates
from moorage.registry.metadata import metadata_errors
from moorage.registry.state import State
from moorage.registry.strategy import Strategy
from moorage.validation import admission_errors
from moorage.validation.advice import warnings
from moorage.validation.field import FieldError
from moorage.validation.rules import context_of

RULES = 3
"""The edition of the rules; increased when they become stricter, so that stored objects are looked at again."""
_SMALL = 4096
MAX_ADVISED = 100
"""How many taints or tolerations of one object get advice: each is compared with each other."""


def judge(
    strategy: Strategy,
    new: Data,
    old: Data | None,
    state: State,
    gates: Gates,
    subresource: str = "",
    *,
    advise: bool = True,
) -> tuple[list[FieldError], list[str]]:
    """The errors of a prepared object, or the warnings to its author if it has none. Raises DecodeError.

    `old` is what it replaces, None for a new object. An error that the stored object has already is not held against an
    update: the object may have been stored when the rules were less strict.
    """
    errors = metadata_errors(strategy, new, old)
    if subresource:
        return errors + _part_errors(strategy, new, old, subresource), []
    typed, before = convert(new, strategy.kind.struct), None if old is None else convert(old, strategy.kind.struct)
    if old is None or not strategy.is_frozen:
        errors += _placement_errors(typed, before, gates)
    errors += strategy.errors(new, old)
    if errors and old is not None:
        known = set(map(str, stored_errors(strategy, old, gates)))
        errors = [error for error in errors if str(error) not in known]
    if not errors:
        errors += strategy.conflicts(new, old, state)
    if errors or not advise:
        return errors, []
    return errors, [*_advice(typed, before, gates), *(strategy.warnings(new) if old is None else ())]


def _part_errors(strategy: Strategy, new: Data, old: Data | None, subresource: str) -> list[FieldError]:
    if old is None:
        return []
    if subresource == "status":
        return list(strategy.status_errors(new, old))
    part = strategy.parts.get(subresource)
    return list(part.errors(new, old)) if part else []


def limit(strategy: Strategy, new: Data, old: Data | None, state: State, subresource: str = "") -> None:
    """Refuse a valid object because of other objects, such as the LimitRanges of its namespace. Raises Denied."""
    if not subresource:
        strategy.limits(new, old, state)
    elif old is not None and (part := strategy.parts.get(subresource)):
        part.limits(new, old, state)


def stored_errors(strategy: Strategy, stored: Data, gates: Gates) -> list[FieldError]:
    """The errors for which an object that is stored would be refused today, apart from gates. Raises DecodeError."""
    typed = convert(stored, strategy.kind.struct)
    errors = metadata_errors(strategy, stored, stored)
    return [*errors, *admission_errors(typed, gates, typed), *strategy.errors(stored, stored)]


def _placement_errors(item: Object, old: Object | None, gates: Gates) -> Iterable[FieldError]:
    """Errors of the fields that decide placement."""
    if old is None and isinstance(item, Pod) and _is_small(item):
        return _new_pod_errors(item.spec.tolerations, _node_affinity(item), gates)
    return admission_errors(item, gates, old)


def _advice(item: Object, old: Object | None, gates: Gates) -> Iterable[str]:
    """Warnings about what is valid and probably wrong; none for objects with very many tolerations."""
    if any(len(tolerations) > MAX_ADVISED for _, tolerations in tolerations_of(item)):
        return ()
    if old is None and isinstance(item, Pod) and _is_small(item):
        return _new_pod_advice(item.spec.tolerations, _node_affinity(item), gates)
    return warnings(item, context_of((), gates))


def _node_affinity(pod: Pod) -> NodeAffinity | None:
    return pod.spec.affinity.node_affinity if pod.spec.affinity else None


def _is_small(pod: Pod) -> bool:
    """Whether what is said of a pod's placement may be kept: clients can make others as large as they like."""
    return len(msgspec.json.encode((pod.spec.tolerations, _node_affinity(pod)))) <= _SMALL


# Pods of one template are judged once: these fields of theirs are equal.
@lru_cache(maxsize=2048)
def _new_pod_errors(
    tolerations: tuple[Toleration, ...], affinity: NodeAffinity | None, gates: Gates
) -> tuple[FieldError, ...]:
    return tuple(admission_errors(_pod(tolerations, affinity), gates))


@lru_cache(maxsize=2048)
def _new_pod_advice(
    tolerations: tuple[Toleration, ...], affinity: NodeAffinity | None, gates: Gates
) -> tuple[str, ...]:
    return tuple(warnings(_pod(tolerations, affinity), context_of((), gates)))


def _pod(tolerations: tuple[Toleration, ...], affinity: NodeAffinity | None) -> Pod:
    return Pod(spec=PodSpec(tolerations=tolerations, affinity=Affinity(affinity) if affinity else None))
