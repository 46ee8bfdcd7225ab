"""The matching rules read straight from the specification: slow, plain, and apart from the code they judge."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import NamedTuple

from moorage.api.node import NodeSelectorRequirement, NodeSelectorTerm, Taint
from moorage.api.pod import Toleration
from moorage.features import Gate, Gates
from moorage.match.verdict import Verdict
from tests import known_expressions


class Answer(NamedTuple):
    """Match, no match, or an error; of an error only the stable message is settled."""

    matched: bool
    log: str = ""


MATCH, NO_MATCH = Answer(True), Answer(False)


def answer(verdict: Verdict) -> Answer:
    """The part of a verdict that the specification settles."""
    assert bool(verdict.error) == bool(verdict.log)
    assert not (verdict.matched and verdict.error)
    return Answer(verdict.matched, verdict.log)


def tolerates(toleration: Toleration, taint: Taint, gates: Gates) -> Answer:
    """Rules 1 to 4, in their order, the first that decides."""
    if toleration.expression:
        if Gate.CEL not in gates.on:
            return NO_MATCH
        return answer(known_expressions.taint_verdict(toleration.expression, taint))
    if toleration.effect not in ("", taint.effect):
        return NO_MATCH
    if not _key_matches(toleration.key, taint.key, gates):
        return NO_MATCH
    match toleration.operator:
        case "" | "Equal":
            return Answer(toleration.value == taint.value)
        case "Exists":
            return MATCH
        case "Gt" | "Lt" if Gate.COMPARISON in gates.on:
            return _numbers(toleration, taint.value)
        case "SemverEq" | "SemverGt" | "SemverLt" if Gate.SEMVER in gates.on:
            return _versions(toleration, taint.value)
    return NO_MATCH


def _key_matches(key: str, taint_key: str, gates: Gates) -> bool:
    if key == "":
        return True
    if "*" in key and Gate.WILDCARD in gates.on:
        return glob(key, taint_key)
    return key == taint_key


def _numbers(toleration: Toleration, taint_value: str) -> Answer:
    threshold, operand = int64(toleration.value), int64(taint_value)
    if threshold is None:
        return Answer(False, "failed to parse toleration value as int64")
    if operand is None:
        return Answer(False, "failed to parse taint value as int64")
    return Answer(operand > threshold if toleration.operator == "Gt" else operand < threshold)


def _versions(toleration: Toleration, taint_value: str) -> Answer:
    threshold, operand = version(toleration.value), version(taint_value)
    if threshold is None:
        return Answer(False, "failed to parse toleration value as semantic version")
    if operand is None:
        return Answer(False, "failed to parse taint value as semantic version")
    return Answer(_holds(toleration.operator, operand, threshold))


def glob(pattern: str, key: str) -> bool:
    """`*` is any run of characters but `/`; every other character is itself."""
    if not pattern:
        return not key
    if pattern[0] == "*":
        return glob(pattern[1:], key) or (key[:1] not in ("", "/") and glob(pattern, key[1:]))
    return key[:1] == pattern[0] and glob(pattern[1:], key[1:])


def int64(text: str) -> int | None:
    """Canonical decimal: the way the number prints."""
    if not text or set(text) - set("-0123456789") or len(text) > 20:
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if str(number) == text and -(2**63) <= number < 2**63 else None


class NaiveVersion(NamedTuple):
    """Three numbers and the identifiers of a pre-release."""

    numbers: tuple[int, int, int]
    prerelease: tuple[str, ...]


_VERSION = re.compile(r"v?([0-9]+)(?:\.([0-9]+)(?:\.([0-9]*)(?:-([0-9A-Za-z.-]+))?(\+[0-9A-Za-z.-]+)?)?)?")
_GO_SPACE = " \t\n\v\f\r\x85\xa0\u2003\u3000"


def version(text: str) -> NaiveVersion | None:
    """Spaces around, one `v`, leading zeros and missing numbers are forgiven; nothing else is."""
    parts = _VERSION.fullmatch(text.strip(_GO_SPACE))
    if parts is None:
        return None
    major, minor, patch, pre, build = parts.groups()
    if patch == "" and not (pre or build):
        return None
    numbers = (int(major), int(minor or 0), int(patch or 0))
    identifiers = tuple(pre.split(".")) if pre else ()
    metadata = build[1:].split(".") if build else []
    for identifier in identifiers:
        if identifier.isdigit() and (identifier != str(int(identifier)) or int(identifier) >= 2**64):
            return None
    if "" in identifiers or "" in metadata or max(numbers) >= 2**64:
        return None
    return NaiveVersion(numbers, identifiers)


def _holds(operator: str, operand: NaiveVersion, threshold: NaiveVersion) -> bool:
    order = compare(operand, threshold)
    return {"SemverEq": order == 0, "SemverGt": order > 0, "SemverLt": order < 0}[operator]


def compare(one: NaiveVersion, other: NaiveVersion) -> int:
    """Rule 11 of SemVer 2.0."""
    if one.numbers != other.numbers:
        return 1 if one.numbers > other.numbers else -1
    if not one.prerelease or not other.prerelease:
        return bool(other.prerelease) - bool(one.prerelease)
    for mine, theirs in zip_longest(one.prerelease, other.prerelease):
        if mine == theirs:
            continue
        if mine is None or theirs is None:
            return 1 if theirs is None else -1
        if mine.isdigit() and theirs.isdigit():
            return 1 if int(mine) > int(theirs) else -1
        if mine.isdigit() != theirs.isdigit():
            return -1 if mine.isdigit() else 1
        return 1 if mine > theirs else -1
    return 0


def term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str, gates: Gates) -> bool:
    """All of a term's parts hold, and it has one."""
    parts = [
        *(requirement_matches(requirement, labels, gates) for requirement in term.match_expressions),
        *(_field_matches(requirement, name) for requirement in term.match_fields),
        *(_expression_matches(source, labels, gates) for source in term.match_cel_expressions),
    ]
    return bool(parts) and all(parts)


def requirement_matches(requirement: NodeSelectorRequirement, labels: Mapping[str, str], gates: Gates) -> bool:
    """One requirement that admission accepts, on a label."""
    operator, values, label = requirement.operator, requirement.values, labels.get(requirement.key)
    match operator:
        case "In":
            return label in values
        case "NotIn":
            return label not in values
        case "Exists":
            return label is not None
        case "DoesNotExist":
            return label is None
        case "Gt" | "Lt":
            number = None if label is None else go_int64(label)
            bound = go_int64(values[0])
            return number is not None and bound is not None and (number > bound if operator == "Gt" else number < bound)
        case "SemverEq" | "SemverGt" | "SemverLt" if Gate.SEMVER in gates.on:
            operand, threshold = None if label is None else version(label), version(values[0])
            return operand is not None and threshold is not None and _holds(operator, operand, threshold)
    return False


def go_int64(text: str) -> int | None:
    """As strconv.ParseInt reads it: a sign and leading zeros are no matter."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        return None
    return int(text) if -(2**63) <= int(text) < 2**63 else None


def _field_matches(requirement: NodeSelectorRequirement, name: str) -> bool:
    (expected,) = requirement.values
    return (name == expected) == (requirement.operator == "In")


def _expression_matches(source: str, labels: Mapping[str, str], gates: Gates) -> bool:
    return Gate.CEL in gates.on and known_expressions.node_verdict(source, labels).matched
