"""Versions that parse tolerantly and order as SemVer 2.0 says, and constraints on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import eq, ge, gt, le, lt, ne

from moorage.bounded import remember_short
from moorage.gotext import SPACE, quote

_DIGITS = frozenset("0123456789")
_ALPHANUMERICS = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")
_UINT64_MAX = 2**64 - 1
_PLAIN = re.compile(r"v?([0-9]{1,19})(?:\.([0-9]{1,19}))?(?:\.([0-9]{1,19}))?")
"""Nearly every version there is: numbers that need no further look."""

# A release sorts above its pre-releases; a numeric identifier below an alphanumeric one. Tuples compare that way.
Identifier = tuple[int, int, str]
Precedence = tuple[int, int, int, int, tuple[Identifier, ...]]


class VersionError(ValueError):
    """The text is not a version, or not a constraint on versions; the message says where it goes wrong."""


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A semantic version. Order and equality are precedence: build metadata does not count."""

    precedence: Precedence
    build: str = field(default="", compare=False)

    @property
    def major(self) -> int:
        """The first of the three numbers."""
        return self.precedence[0]

    @property
    def minor(self) -> int:
        """The second of the three numbers."""
        return self.precedence[1]

    @property
    def patch(self) -> int:
        """The third of the three numbers."""
        return self.precedence[2]

    @property
    def prerelease(self) -> str:
        """What stands behind the `-`, empty for a release."""
        return ".".join(text or str(number) for _, number, text in self.precedence[4])

    def __str__(self) -> str:
        pre, build = self.prerelease, self.build
        return f"{self.major}.{self.minor}.{self.patch}" + (pre and f"-{pre}") + (build and f"+{build}")


def release(major: int, minor: int, patch: int) -> Version:
    """The version `major.minor.patch`."""
    return Version((major, minor, patch, 1, ()))


def parse(text: str) -> Version:
    """Read a complete SemVer 2.0 version, nothing missing and nothing added."""
    if not text:
        raise VersionError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise VersionError("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    patch_text, dash, pre = rest.partition("-")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    patch = _number(patch_text, "Patch")
    identifiers = tuple(_identifier(part) for part in pre.split(".")) if dash else ()
    if plus:
        for part in build.split("."):
            if not part:
                raise VersionError("Build meta data is empty")
            if not _ALPHANUMERICS.issuperset(part):
                raise VersionError(f"Invalid character(s) found in build meta data {quote(part)}")
    return Version((major, minor, patch, 0 if dash else 1, identifiers), build)


@remember_short(65536)
def parse_tolerant(text: str) -> Version:
    """Read a version as people write it: spaces around, a leading `v`, leading zeros, no minor or no patch number."""
    if plain := _PLAIN.fullmatch(text):
        major, minor, patch = plain.groups("0")
        return release(int(major), int(minor), int(patch))
    parts = text.strip(SPACE).removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[index] = "0" + bare if not bare or bare[0] in "-+" else bare
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise VersionError("Short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return parse(".".join(parts))


def _number(text: str, which: str) -> int:
    if not _DIGITS.issuperset(text):
        raise VersionError(f"Invalid character(s) found in {which.lower()} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise VersionError(f"{which} number must not contain leading zeroes {quote(text)}")
    return _uint64(text)


def _identifier(text: str) -> Identifier:
    if not text:
        raise VersionError("Prerelease is empty")
    if _DIGITS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            raise VersionError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return (0, _uint64(text), "")
    if _ALPHANUMERICS.issuperset(text):
        return (1, 0, text)
    raise VersionError(f"Invalid character(s) found in prerelease {quote(text)}")


def _uint64(digits: str) -> int:
    if not digits:
        raise VersionError('strconv.ParseUint: parsing "": invalid syntax')
    # The length test comes first: int() of a very long number is slow and refused beyond 4,300 digits.
    if len(digits) > 20 or (number := int(digits)) > _UINT64_MAX:
        raise VersionError(f"strconv.ParseUint: parsing {quote(digits)}: value out of range")
    return number


Constraint = Callable[[Version], bool]
_Comparison = Callable[[Version, Version], bool]

_COMPARISONS: dict[str, _Comparison] = {
    "": eq, "=": eq, "==": eq, "!": ne, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip
_COMPARISON = re.compile(r"([^0-9v]*)(.*)", re.DOTALL)
_WILDCARD = re.compile(r"v?([0-9]+)(?:\.([0-9]+)\.x|(?:\.x){1,2})")


@remember_short(65536)
def parse_constraint(text: str) -> Constraint:
    """Read comparisons joined by spaces (and) and `||` (or): `>=1.20 <2.0 || 3.x`."""
    alternatives: list[list[Constraint]] = [[]]
    for word in text.split(" "):
        if word == "||":
            alternatives.append([])
        elif word:
            alternatives[-1].append(_comparison(word))
    if not all(alternatives):
        raise VersionError(f"constraint {quote(text)} has no comparison {'beside ||' if '||' in text else 'in it'}")
    if len(alternatives) == len(alternatives[0]) == 1:
        return alternatives[0][0]
    return lambda version: any(all(test(version) for test in tests) for tests in alternatives)


def _comparison(word: str) -> Constraint:
    match = _COMPARISON.match(word)
    assert match is not None  # both groups may be empty
    operator, operand = match.groups()
    compare = _COMPARISONS.get(operator)
    if compare is None:
        raise VersionError(f"{quote(operator)} in {quote(word)} is not one of < <= > >= = == != !")
    if wildcard := _WILDCARD.fullmatch(operand):
        return _range(compare, _uint64(wildcard[1]), _uint64(wildcard[2]) if wildcard[2] else None)
    try:
        bound = parse_tolerant(operand)
    except VersionError as error:
        raise VersionError(f"version {quote(operand)} in {quote(word)}: {error}") from None
    return lambda version: compare(version, bound)


def _range(compare: _Comparison, major: int, minor: int | None) -> Constraint:
    """Compare with all of `1.x` or `1.2.x` at once: below it, above it, in it or outside it."""
    if minor is not None:
        first, after = release(major, minor, 0), release(major, minor + 1, 0)
    else:
        first, after = release(major, 0, 0), release(major + 1, 0, 0)
    tests: dict[_Comparison, Constraint] = {
        eq: lambda version: first <= version < after,
        ne: lambda version: not first <= version < after,
        lt: lambda version: version < first,
        ge: lambda version: version >= first,
        le: lambda version: version < after,
        gt: lambda version: version >= after,
    }
    return tests[compare]
