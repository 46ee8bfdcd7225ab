"""The least native cover of rules: tolerations that keep others from evicting what only we can decide about."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

from moorage.api.pod import Toleration
from moorage.api.rules import TolerationList
from moorage.api.wellknown import TAINT_NOT_READY, TAINT_UNREACHABLE
from moorage.match.expressions import TaintExpression
from moorage.match.operators import COMPARISONS
from moorage.match.tolerations import EQUAL, EXISTS, NO_EXECUTE

_DEAD = (TAINT_NOT_READY, TAINT_UNREACHABLE)
_DEAD_SECONDS = 300
MAX_DEVICE_TOLERATIONS = 16


class NativeCover(NamedTuple):
    """Native tolerations that a pod lacks."""

    tolerations: TolerationList
    """What must stand before those that it has: the first that matches decides."""
    record: TolerationList
    """Those of them that are no copies of its own."""


NO_COVER = NativeCover((), ())
_EVERYTHING = Toleration(operator=EXISTS, effect=NO_EXECUTE)
_NEVER = sys.maxsize, False


def native_cover(rules: TolerationList, native: TolerationList, *, covers_native: bool = True) -> NativeCover:
    """What a pod with these rules and these native tolerations needs, so that nobody evicts it whom rules let stay.

    The cover depends on the rules alone. Before one of all keys stands how long the pod stays on a dead node, so that
    it leaves one also while nobody applies its rules. With `covers_native`, comparisons among the native tolerations
    count as rules: another component may have their gate off.
    """
    compared = (each for each in native if each.operator in COMPARISONS) if covers_native else ()
    found = [_keys_of(each) for each in (*rules, *compared) if _may_stay(each)]
    everything = None in found
    exact = dict.fromkeys(key for keys in found for key in keys or () if not everything or key in _DEAD)
    standing = _Standing(native)
    lacks = [_on(key) for key in exact if not standing.covers(key)]
    record = list(lacks)
    if everything and not _cover_everything(native):
        for key in _DEAD:
            own = [each for each in native if each.key == key and _is_for_eviction(each)]
            lacks += own or [Toleration(key, EXISTS, "", NO_EXECUTE, _DEAD_SECONDS)]
            record += [] if own else lacks[-1:]
        lacks.append(_EVERYTHING)
        record.append(_EVERYTHING)
    return NativeCover(tuple(lacks), tuple(record))


def native_daemon_cover(rules: TolerationList) -> TolerationList:
    """What the template of a DaemonSet needs, whose stock controller judges each node natively, NoSchedule included."""
    found = [_keys_of(each) for each in rules]
    if None in found:
        return (Toleration(operator=EXISTS),)
    return tuple(Toleration(key, EXISTS) for key in dict.fromkeys(key for keys in found for key in keys or ()))


def native_device_tolerations(tolerations: TolerationList) -> TolerationList:
    """What is written beside a device that was given to a request which tolerates this: natively, with the cover."""
    native = tuple(each for each in tolerations if is_native(each))
    found = [_keys_of(each) for each in tolerations if not is_native(each) and _may_stay(each)]
    exact = dict.fromkeys(key for keys in found for key in keys or ())
    written = (*native, *((_EVERYTHING,) if None in found else map(_on, exact)))
    return written if len(written) <= MAX_DEVICE_TOLERATIONS else (_EVERYTHING,)


def _keys_of(toleration: Toleration) -> Iterable[str] | None:
    """The keys of the taints that may be tolerated; None when nobody can know them beforehand."""
    if toleration.expression:
        keys = TaintExpression(toleration.expression).among("key")
        return keys and sorted(keys)
    return None if not toleration.key or "*" in toleration.key else (toleration.key,)


def _may_stay(toleration: Toleration) -> bool:
    """Whether a toleration may let a pod stay beside a NoExecute taint."""
    if toleration.toleration_seconds is not None and toleration.toleration_seconds <= 0:
        return False
    if toleration.expression:
        effects = TaintExpression(toleration.expression).among("effect")
        return effects is None or NO_EXECUTE in effects
    return _is_for_eviction(toleration)


def _is_for_eviction(toleration: Toleration) -> bool:
    return toleration.effect in ("", NO_EXECUTE)


def is_native(toleration: Toleration) -> bool:
    """Whether every API server and every component knows a toleration."""
    return not toleration.expression and "*" not in toleration.key and toleration.operator in ("", EQUAL, EXISTS)


def _on(key: str) -> Toleration:
    return Toleration(key, EXISTS, "", NO_EXECUTE)


class _Standing:
    """What native tolerations tolerate for good, with none before that limits it, by key."""

    def __init__(self, native: TolerationList) -> None:
        self._first: dict[str, tuple[int, bool]] = {}
        """Of each key the first toleration that decides: its place, and whether it has no end."""
        for place, each in enumerate(native):
            lasts = each.toleration_seconds is None
            if _is_for_eviction(each) and (not lasts or each.operator == EXISTS):
                self._first.setdefault(each.key, (place, lasts))

    def covers(self, key: str) -> bool:
        """Whether all taints of a key are tolerated."""
        return min(self._first.get(each, _NEVER) for each in ("", key))[1]


def _cover_everything(native: TolerationList) -> bool:
    """Whether native tolerations tolerate all taints for good; how long a pod stays on a dead node is no limit."""
    for toleration in filter(_is_for_eviction, native):
        if toleration.toleration_seconds is None:
            if toleration.operator == EXISTS and not toleration.key:
                return True
        elif toleration.key not in _DEAD:
            return False
    return False
