"""Validation of what a Job makes of failed, succeeded and replaced pods, and of who runs it."""

from __future__ import annotations

import re

from moorage.api.meta import Data
from moorage.gotext import quote
from moorage.names import label_key_errors
from moorage.registry import namesyntax
from moorage.registry.checks import NEGATIVE, Errors, syntax
from moorage.validation.field import OMITTED, duplicate, invalid, not_supported, required, too_long, too_many

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_MAX_INDEXES = 64 * 1024
_MAX_MANAGER = 63
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


def manager_errors(path: str, name: str) -> Errors:
    """Validate the name of a controller of jobs: a domain and a path."""
    host, _, rest = name.partition("/")
    if not name:
        yield required(path)
    elif not host or not rest:
        yield invalid(path, name, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from syntax(path, host, namesyntax.subdomain(host))
        if not _PATH.fullmatch(rest):
            detail = f"Invalid path (regex used for validation is '{_PATH.pattern}')"
            yield invalid(path, rest, detail)
    if len(name) > _MAX_MANAGER:
        yield too_long(path, _MAX_MANAGER)


def failure_policy_errors(path: str, spec: Data) -> Errors:
    """Validate the pod failure policy of a Job's spec."""
    rules = spec["podFailurePolicy"].get("rules", ())
    if len(rules) > _MAX_RULES:
        yield too_many(f"{path}.rules", len(rules), _MAX_RULES)
    pod = spec.get("template", {}).get("spec", {})
    containers = {each.get("name", "") for name in ("containers", "initContainers") for each in pod.get(name, ())}
    for index, rule in enumerate(rules):
        here = f"{path}.rules[{index}]"
        yield from _action_errors(f"{here}.action", rule.get("action", ""), spec)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions", ())
        if codes is not None:
            yield from _exit_code_errors(f"{here}.onExitCodes", codes, containers)
        yield from _condition_errors(f"{here}.onPodConditions", conditions)
        if codes is not None and conditions:
            yield invalid(here, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported")
        elif codes is None and not conditions:
            yield invalid(here, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required")


def _action_errors(path: str, action: str, spec: Data) -> Errors:
    if not action:
        yield required(path, f"valid values: {_listed(_ACTIONS)}")
    elif action not in _ACTIONS:
        yield not_supported(path, action, _ACTIONS)
    elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
        yield invalid(path, action, "requires the backoffLimitPerIndex to be set")


def _listed(words: tuple[str, ...]) -> str:
    return f"[{' '.join(map(quote, words))}]"


def _exit_code_errors(path: str, codes: Data, containers: set[str]) -> Errors:
    operator, values = codes.get("operator", ""), codes.get("values", [])
    if not operator:
        yield required(f"{path}.operator", f"valid values: {_listed(_OPERATORS)}")
    elif operator not in _OPERATORS:
        yield not_supported(f"{path}.operator", operator, _OPERATORS)
    if "containerName" in codes and codes["containerName"] not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", codes["containerName"], detail)
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > _MAX_EXIT_CODES:
        yield too_many(f"{path}.values", len(values), _MAX_EXIT_CODES)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(f"{path}.values[{index}]", value)
        seen.add(value)
    if values != sorted(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def _condition_errors(path: str, conditions: list[Data]) -> Errors:
    if len(conditions) > _MAX_RULES:
        yield too_many(path, len(conditions), _MAX_RULES)
    for index, pattern in enumerate(conditions):
        here, kind, status = f"{path}[{index}]", pattern.get("type", ""), pattern.get("status", "")
        yield from syntax(f"{here}.type", kind, label_key_errors(kind))
        if not status:
            yield required(f"{here}.status", f"valid values: {_listed(_STATUSES)}")
        elif status not in _STATUSES:
            yield not_supported(f"{here}.status", status, _STATUSES)


def success_policy_errors(path: str, policy: Data, completions: int) -> Errors:
    """Validate the success policy of an indexed Job."""
    rules = policy.get("rules", ())
    if not rules:
        yield required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    elif len(rules) > _MAX_RULES:
        yield too_many(f"{path}.rules", len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _success_errors(f"{path}.rules[{index}]", rule, completions)


def _success_errors(path: str, rule: Data, completions: int) -> Errors:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if indexes is not None:
        if len(indexes) > _MAX_INDEXES:
            yield too_long(f"{path}.succeededIndexes", _MAX_INDEXES)
        try:
            total = _number_of(indexes, completions)
        except ValueError as error:
            yield invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    here = f"{path}.succeededCount"
    if count < 0:
        yield invalid(here, count, NEGATIVE)
    if count > completions:
        yield invalid(here, count, f"must be less than or equal to {completions} (the number of specified completions)")
    if indexes is not None and count > total:
        why = "the number of indexes in the specified succeededIndexes field"
        yield invalid(here, count, f"must be less than or equal to {total} ({why})")


def _number_of(indexes: str, completions: int) -> int:
    """How many indexes a list such as `1,3-5` names. Raises ValueError."""
    total, last = 0, -1
    for interval in indexes.split(",") if indexes else ():
        limits = interval.split("-")
        if len(limits) > 2:
            rule = "that an index interval can have at most two parts separated by '-'"
            raise ValueError(f"the fragment {quote(interval)} violates the requirement {rule}")
        first, *rest = (_index(text, completions) for text in limits)
        if first <= last and total:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        last = rest[0] if rest else first
        if rest and first >= last:
            raise ValueError(f"non-increasing order, previous: {first}, current: {last}")
        total += last - first + 1
    return total


def _index(text: str, completions: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"cannot convert string to integer for index: {quote(text)}")
    if int(text) >= completions:
        raise ValueError(f"too large index: {quote(text)}")
    return int(text)
