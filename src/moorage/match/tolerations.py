"""Does a pod tolerate a taint: a set of tolerations, compiled once and asked many times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from moorage.api.node import Taint
from moorage.api.pod import Toleration
from moorage.features import Gate, Gates
from moorage.match.deferral import STEP_COST
from moorage.match.expressions import TaintExpression
from moorage.match.glob import compile_glob
from moorage.match.operators import ValueType, comparison
from moorage.match.verdict import MATCH, NO_MATCH, Verdict

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "PreferNoSchedule", "NoExecute"
EQUAL, EXISTS = "Equal", "Exists"

TaintTest = Callable[[Taint], Verdict]
_ValueTest = Callable[[str], Verdict]


class Tolerations:
    """The compiled tolerations of a pod or of a device request."""

    __slots__ = ("_preferred", "_tests", "cost", "tolerations")

    def __init__(self, tolerations: Iterable[Toleration], gates: Gates) -> None:
        self.tolerations = tuple(tolerations)
        self._tests = tuple(compile_toleration(toleration, gates) for toleration in self.tolerations)
        self._preferred = tuple(
            test
            for toleration, test in zip(self.tolerations, self._tests, strict=True)
            if toleration.expression or toleration.effect in ("", PREFER_NO_SCHEDULE)
        )
        self.cost = sum(_cost(toleration, gates) for toleration in self.tolerations)
        """What it can cost to ask about one taint."""

    def verdict(self, taint: Taint) -> Verdict:
        """Whether any toleration matches; when none does, the first error, if there is one."""
        return _any(self._tests, taint)

    def verdicts(self, taint: Taint) -> list[Verdict]:
        """The verdict of each toleration on a taint."""
        return [test(taint) for test in self._tests]

    def unanswered(self, taint: Taint) -> tuple[tuple[Toleration, Verdict], ...]:
        """The tolerations that cannot be evaluated for a taint, when none matches it."""
        verdicts = self.verdicts(taint)
        if any(verdict.matched for verdict in verdicts):
            return ()
        judged = zip(self.tolerations, verdicts, strict=True)
        return tuple((toleration, verdict) for toleration, verdict in judged if verdict.error)

    def first_match(self, taint: Taint) -> Toleration | None:
        """The first toleration that matches a taint."""
        for toleration, test in zip(self.tolerations, self._tests, strict=True):
            if test(taint).matched:
                return toleration
        return None

    def first_untolerated(self, taints: Iterable[Taint]) -> Taint | None:
        """The first taint that keeps the pod from being scheduled."""
        for taint in taints:
            if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not _any(self._tests, taint).matched:
                return taint
        return None

    def untolerated_preferred(self, taints: Iterable[Taint]) -> int:
        """How many taints ask the pod to go elsewhere if it can."""
        return sum(taint.effect == PREFER_NO_SCHEDULE and not _any(self._preferred, taint).matched for taint in taints)

    def grace_seconds(self, taints: Iterable[Taint]) -> int | None:
        """How long a running pod may stay beside these taints: 0 is not at all, None is for good."""
        grace: int | None = None
        for taint in taints:
            if taint.effect != NO_EXECUTE:
                continue
            toleration = self.first_match(taint)
            if toleration is None:
                return 0
            seconds = toleration.toleration_seconds
            if seconds is not None:
                grace = max(0, seconds if grace is None else min(grace, seconds))
        return grace

    def device_grace_seconds(self, taint: Taint) -> int | None:
        """How long a device may be used beside a taint: 0 is not at all, None is for good.

        Every toleration that matches counts, not only the first: the shortest, unless one tolerates for good.
        """
        matching = zip(self.tolerations, self._tests, strict=True)
        seconds = [toleration.toleration_seconds for toleration, test in matching if test(taint).matched]
        limited = [limit for limit in seconds if limit is not None]
        if not seconds:
            return 0
        return max(0, min(limited)) if len(limited) == len(seconds) else None


def compile_toleration(toleration: Toleration, gates: Gates) -> TaintTest:
    """Compile one toleration to a test of taints."""
    if toleration.expression:
        return TaintExpression(toleration.expression).verdict if gates.enabled(Gate.CEL) else _never
    if "*" in toleration.key and gates.enabled(Gate.WILDCARD):
        return _for_key(compile_glob(toleration.key), toleration.effect, _value_test(toleration, gates))
    if toleration.key and toleration.operator in ("", EQUAL, EXISTS):
        return _plain(toleration)
    key = toleration.key
    return _for_key(key.__eq__ if key else _any_key, toleration.effect, _value_test(toleration, gates))


def _cost(toleration: Toleration, gates: Gates) -> int:
    if toleration.expression and gates.enabled(Gate.CEL):
        return STEP_COST * TaintExpression(toleration.expression).cost
    return 1


def _plain(toleration: Toleration) -> TaintTest:
    """Equal and Exists on one key, the most common tolerations: one closure without further calls."""
    key, effect, value = toleration.key, toleration.effect, toleration.value
    if toleration.operator == EXISTS:
        if effect:
            return lambda taint: MATCH if taint.key == key and taint.effect == effect else NO_MATCH
        return lambda taint: MATCH if taint.key == key else NO_MATCH
    if effect:
        return lambda taint: MATCH if taint.key == key and taint.value == value and taint.effect == effect else NO_MATCH
    return lambda taint: MATCH if taint.key == key and taint.value == value else NO_MATCH


def _for_key(key_matches: Callable[[str], Any], effect: str, value_test: _ValueTest) -> TaintTest:
    def test(taint: Taint) -> Verdict:
        if (effect and effect != taint.effect) or not key_matches(taint.key):
            return NO_MATCH
        return value_test(taint.value)

    return test


def _value_test(toleration: Toleration, gates: Gates) -> _ValueTest:
    operator, value = toleration.operator, toleration.value
    if operator in ("", EQUAL):
        return lambda taint_value: MATCH if taint_value == value else NO_MATCH
    if operator == EXISTS:
        return lambda _: MATCH
    compared = comparison(operator, gates)
    if compared is None:
        return lambda _: NO_MATCH
    values, holds = compared.values, compared.holds
    threshold = _parsed(values, "toleration", value)
    if isinstance(threshold, Verdict):
        return lambda _: threshold

    def test(taint_value: str) -> Verdict:
        operand = _parsed(values, "taint", taint_value)
        if isinstance(operand, Verdict):
            return operand
        return MATCH if holds(operand, threshold) else NO_MATCH

    return test


@lru_cache(maxsize=65536)
def _parsed(values: ValueType, whose: str, text: str) -> Any:
    """The value of a text, or the verdict that it does not parse."""
    try:
        return values.parse(text)
    except ValueError:
        return Verdict(False, values.problem(text), f"failed to parse {whose} value as {values.name}")


def _any(tests: tuple[TaintTest, ...], taint: Taint) -> Verdict:
    answer = NO_MATCH
    for test in tests:
        verdict = test(taint)
        if verdict.matched:
            return verdict
        if verdict.error and not answer.error:
            answer = verdict
    return answer


def _never(_: Taint) -> Verdict:
    return NO_MATCH


def _any_key(_: str) -> bool:
    return True
