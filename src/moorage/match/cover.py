"""How tolerations relate: which one makes another superfluous, and which two together let everything through."""

from __future__ import annotations

from typing import Any

from moorage.api.pod import Toleration
from moorage.match.glob import compile_glob
from moorage.match.operators import COMPARISONS
from moorage.match.tolerations import EQUAL, EXISTS


def covers(wide: Toleration, narrow: Toleration) -> bool:
    """Whether every taint that `narrow` tolerates is tolerated by `wide` too, with all gates on.

    False may mean that it is not known.
    """
    if wide.expression or narrow.expression:
        return wide.expression == narrow.expression or _is_everything(wide)
    if wide.effect not in ("", narrow.effect) or not _key_covers(wide, narrow.key):
        return False
    return wide.operator == EXISTS or _value_covers(wide, narrow)


def overlap(one: Toleration, other: Toleration) -> bool:
    """Whether two tolerations of one key can speak of the same taint."""
    return one.key == other.key and (one.effect == other.effect or not (one.effect and other.effect))


def threshold(toleration: Toleration) -> Any:
    """The number or version that a toleration compares with; None when it does not compare or does not parse."""
    compared = COMPARISONS.get(toleration.operator)
    return compared and compared.values.value(toleration.value)


def _is_everything(toleration: Toleration) -> bool:
    return toleration.operator == EXISTS and not (toleration.key or toleration.effect or toleration.expression)


def _key_covers(wide: Toleration, key: str) -> bool:
    if wide.key == key:
        return True
    if not wide.key:
        return wide.operator == EXISTS
    return "*" in wide.key and bool(key) and compile_glob(wide.key)(key)


def _value_covers(wide: Toleration, narrow: Toleration) -> bool:
    compared, other = COMPARISONS.get(wide.operator), COMPARISONS.get(narrow.operator)
    is_equal = (narrow.operator or EQUAL) == EQUAL
    if compared is None:
        return is_equal and (wide.operator or EQUAL) == EQUAL and wide.value == narrow.value
    bound = compared.values.value(wide.value)
    value = compared.values.value(narrow.value) if is_equal else threshold(narrow)
    if bound is None or value is None:
        return False
    return compared.holds(value, bound) if is_equal else other is not None and compared.covers(bound, other, value)
