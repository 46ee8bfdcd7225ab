"""Everything that is wrong with an object, and what is valid and probably not meant."""

from __future__ import annotations

from functools import lru_cache

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

MAX_ADVISED = 100
"""How many taints or tolerations of one object get advice: each is compared with each other."""


def judge(
    strategy: Strategy, new: Data, old: Data | None, gates: Gates, subresource: str = ""
) -> tuple[list[FieldError], list[str]]:
    """The errors of a prepared object, and the warnings to its author. Raises DecodeError.

    `old` is what it replaces, None for a new object.
    """
    typed, before = convert(new, strategy.kind.struct), None if old is None else convert(old, strategy.kind.struct)
    errors, warned = metadata_errors(strategy, new, old), list[str]()
    if not subresource:
        placement_errors, warned = _placement(typed, before, gates)
        errors += placement_errors
        errors += strategy.errors(new, old)
        if old is None:
            warned += strategy.warnings(new)
    elif old is not None and subresource == "status":
        errors += strategy.status_errors(new, old)
    elif old is not None and (part := strategy.parts.get(subresource)):
        errors += part.errors(new, old)
    return errors, warned


def limit(strategy: Strategy, new: Data, old: Data | None, state: State, subresource: str = "") -> None:
    """Refuse a valid object because of other objects, such as the LimitRanges of its namespace. Raises Denied."""
    if not subresource:
        strategy.limits(new, old, state)
    elif old is not None and (part := strategy.parts.get(subresource)):
        part.limits(new, old, state)


def _placement(item: Object, old: Object | None, gates: Gates) -> tuple[list[FieldError], list[str]]:
    """Errors and warnings about the fields that decide placement. Pods of one template are judged once."""
    if old is None and isinstance(item, Pod) and len(item.spec.tolerations) <= MAX_ADVISED:
        affinity = item.spec.affinity and item.spec.affinity.node_affinity
        errors, warned = _pod_placement(item.spec.tolerations, affinity, gates)
        return list(errors), list(warned)
    return admission_errors(item, gates, old), _advice(item, gates)


@lru_cache(maxsize=4096)
def _pod_placement(
    tolerations: tuple[Toleration, ...], affinity: NodeAffinity | None, gates: Gates
) -> tuple[tuple[FieldError, ...], tuple[str, ...]]:
    pod = Pod(spec=PodSpec(tolerations=tolerations, affinity=Affinity(affinity) if affinity else None))
    return tuple(admission_errors(pod, gates)), tuple(_advice(pod, gates))


def _advice(item: Object, gates: Gates) -> list[str]:
    """Warnings about what is valid and probably wrong; none for objects with very many tolerations."""
    if any(len(tolerations) > MAX_ADVISED for _, tolerations in tolerations_of(item)):
        return []
    return warnings(item, context_of((), gates))
