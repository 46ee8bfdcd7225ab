"""How tolerations relate: which one makes another superfluous, and which two together let everything through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.api.pod import Toleration
from moorage.match.glob import compile_glob
from moorage.match.tolerations import EQUAL, EXISTS, NUMERIC, SEMANTIC
from moorage.names import canonical_int64
from moorage.semver import VersionError, parse_tolerant


def covers(wide: Toleration, narrow: Toleration) -> bool:
    """Whether every taint that `narrow` tolerates is tolerated by `wide` too, with all gates on.

    False may mean that it is not known.
    """
    if wide.expression or narrow.expression:
        return wide.expression == narrow.expression
    if wide.effect not in ("", narrow.effect) or not _key_covers(wide.key, narrow.key):
        return False
    return wide.operator == EXISTS or _value_covers(wide, narrow)


def overlap(one: Toleration, other: Toleration) -> bool:
    """Whether two tolerations of one key can speak of the same taint."""
    return one.key == other.key and (one.effect == other.effect or not (one.effect and other.effect))


def threshold(toleration: Toleration) -> Any:
    """The number or version that a toleration compares with; None when it does not compare or does not parse."""
    if toleration.operator in NUMERIC:
        return canonical_int64(toleration.value)
    return _version(toleration.value) if toleration.operator in SEMANTIC else None


def _key_covers(wide: str, narrow: str) -> bool:
    if not wide or wide == narrow:
        return True
    return "*" in wide and bool(narrow) and compile_glob(wide)(narrow)


def _value_covers(wide: Toleration, narrow: Toleration) -> bool:
    operator = wide.operator or EQUAL
    other = narrow.operator or EQUAL
    if operator == EQUAL:
        return other == EQUAL and wide.value == narrow.value
    bound = threshold(wide)
    if bound is None:
        return False
    compare: Callable[[Any, Any], bool] = NUMERIC.get(operator) or SEMANTIC[operator]
    if other == EQUAL:
        value = canonical_int64(narrow.value) if operator in NUMERIC else _version(narrow.value)
        return value is not None and compare(value, bound)
    value = threshold(narrow)
    if value is None or (operator in NUMERIC) != (other in NUMERIC):
        return False
    if other == "SemverEq":
        return compare(value, bound)
    return operator == other and (value == bound or compare(value, bound))


def _version(text: str) -> Any:
    try:
        return parse_tolerant(text)
    except VersionError:
        return None
