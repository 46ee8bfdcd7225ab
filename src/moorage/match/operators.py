"""The operators that compare, one row each: matching, validation, explanation, cover and remedies follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import eq, gt, lt
from typing import Any

from moorage.features import Gate, Gates
from moorage.gotext import quote
from moorage.names import canonical_int64, canonical_int64_errors
from moorage.semver import Version, VersionError, parse_tolerant


@dataclass(frozen=True, slots=True, eq=False)
class ValueType:
    """What the two sides of a comparison are read as."""

    what: str
    """What a text is not when it does not parse: `a decimal integer`."""
    name: str
    """How the log names it: `int64`."""
    parse: Callable[[str], Any]
    """The value of a text. Raises ValueError, with a message where the words above do not say enough."""
    refusals: Callable[[str], list[str]]
    """Why admission refuses a text as a threshold; empty when it does not."""
    below: Callable[[Any], str | None]
    """The nearest threshold below a value; None when there is none."""
    above: Callable[[Any], str | None]
    distance: Callable[[Any, Any], tuple[int, ...]]
    """How far two values are apart, to compare with other distances."""
    lowest: Any = None
    """The lowest value that a taint can have, when there is one: a label value has no sign."""
    highest: Any = None

    def value(self, text: str) -> Any:
        """The value of a text; None when it does not parse."""
        try:
            return self.parse(text)
        except ValueError:
            return None

    def problem(self, text: str) -> str:
        """Why a text does not parse, as a sentence; empty when it does."""
        try:
            self.parse(text)
        except ValueError as error:
            return f"{quote(text)} is not {self.what}{f': {error}' if str(error) else ''}"
        return ""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """An operator: a taint's value or a label stands on its left, the threshold on its right."""

    name: str
    gate: Gate
    values: ValueType
    holds: Callable[[Any, Any], bool]
    fails: str
    """The words for a value that does not pass: it `is not greater than` the threshold."""
    from_below: bool
    """Whether the threshold bounds values from below; with `from_above` too, it is the only value that passes."""
    from_above: bool
    inclusive: bool
    """Whether the threshold itself passes."""
    in_selectors: bool = False
    """Whether node selectors have it too. Their own Gt and Lt are Kubernetes' and need no gate."""

    def covers(self, bound: Any, other: Comparison, other_bound: Any) -> bool:
        """Whether every value that passes another comparison passes this one; False may mean that it is not known."""
        if self.values is not other.values:
            return False
        at_bound = other_bound == bound and (self.inclusive or not other.inclusive)
        return (not self.from_below or (other.from_below and (other_bound > bound or at_bound))) and (
            not self.from_above or (other.from_above and (other_bound < bound or at_bound))
        )

    def nearest(self, value: Any) -> str | None:
        """The nearest threshold that a value would pass; None when there is none."""
        if self.inclusive:
            return str(value)
        return self.values.below(value) if self.from_below else self.values.above(value)

    def passes_none(self, bound: Any) -> bool:
        """Whether a threshold is so extreme that no value of a taint passes."""
        low, high = self.values.lowest, self.values.highest
        if bound is None or low is None or self.inclusive:
            return False
        return bool(bound >= high if self.from_below else bound <= low)

    def passes_all(self, bound: Any) -> bool:
        """Whether a threshold is so extreme that every value of a taint passes, but perhaps for the highest."""
        low, high = self.values.lowest, self.values.highest
        if bound is None or low is None or self.from_below is self.from_above:
            return False
        return bool(bound < low if self.from_below else bound >= high)


def _parse_int64(text: str) -> int:
    number = canonical_int64(text)
    if number is None:
        raise ValueError
    return number


def _int64_text(number: int) -> str | None:
    text = str(number)
    return None if canonical_int64(text) is None else text


def _version_refusals(text: str) -> list[str]:
    try:
        parse_tolerant(text)
    except VersionError as error:
        return [str(error)]
    return []


def _below_version(version: Version) -> str:
    major, minor, patch, is_release, _ = version.precedence
    # `-0` is the lowest pre-release of all: the release and every other pre-release lie above it.
    return f"{major}.{minor}.{patch - 1}" if patch and is_release else f"{major}.{minor}.{patch}-0"


def _above_version(version: Version) -> str:
    major, minor, patch, is_release, _ = version.precedence
    return f"{major}.{minor}.{patch + 1}" if is_release else f"{major}.{minor}.{patch}"


def _between_versions(one: Version, other: Version) -> tuple[int, ...]:
    return tuple(abs(a - b) for a, b in zip(one.precedence[:3], other.precedence[:3], strict=True))


INT64 = ValueType(
    "a decimal integer",
    "int64",
    _parse_int64,
    canonical_int64_errors,
    below=lambda number: _int64_text(number - 1),
    above=lambda number: _int64_text(number + 1),
    distance=lambda one, other: (abs(one - other),),
    lowest=0,
    highest=2**63 - 1,
)
VERSION = ValueType(
    "a semantic version",
    "semantic version",
    parse_tolerant,
    _version_refusals,
    _below_version,
    _above_version,
    _between_versions,
)

_ROWS = (
    Comparison("Gt", Gate.COMPARISON, INT64, gt, "not greater than", True, False, False),
    Comparison("Lt", Gate.COMPARISON, INT64, lt, "not less than", False, True, False),
    Comparison("SemverEq", Gate.SEMVER, VERSION, eq, "not equal to", True, True, True, in_selectors=True),
    Comparison("SemverGt", Gate.SEMVER, VERSION, gt, "not greater than", True, False, False, in_selectors=True),
    Comparison("SemverLt", Gate.SEMVER, VERSION, lt, "not less than", False, True, False, in_selectors=True),
)
COMPARISONS = {row.name: row for row in _ROWS}
"""By name. Equal and Exists compare texts, not values, and stand in `tolerations`."""


def comparison(operator: str, gates: Gates) -> Comparison | None:
    """The comparison that an operator names, when its gate is on."""
    row = COMPARISONS.get(operator)
    return row if row is not None and gates.enabled(row.gate) else None


def selector_comparison(operator: str) -> Comparison | None:
    """The comparison that an operator of a node selector names."""
    row = COMPARISONS.get(operator)
    return row if row is not None and row.in_selectors else None
