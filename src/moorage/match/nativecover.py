"""The least native cover of rules: tolerations that keep others from evicting what only we can decide about."""

from __future__ import annotations

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
    lacks = [entry for entry in map(_on, exact) if not _stands(entry, native)]
    record = list(lacks)
    if everything and not _stands(_EVERYTHING, native):
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


def _stands(entry: Toleration, native: TolerationList) -> bool:
    """Whether native tolerations tolerate for good all that a part of a cover does, with none before that limits it.

    How long a pod stays on a dead node does not limit a cover of all keys.
    """
    for toleration in native:
        if not _is_for_eviction(toleration) or (entry.key and toleration.key not in ("", entry.key)):
            continue
        if toleration.toleration_seconds is None:
            if toleration.operator == EXISTS and toleration.key in ("", entry.key):
                return True
        elif entry.key or toleration.key not in _DEAD:
            return False
    return False
