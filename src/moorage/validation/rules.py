"""Lint rules: what a rule is, what it may look at, and the table into which a decorated function is entered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from moorage.api.node import Node, Taint
from moorage.features import Gates


class Severity(IntEnum):
    """How grave a finding is. A note is information and does not fail a run."""

    ERROR = 0
    WARNING = 1
    NOTE = 2

    @property
    def word(self) -> str:
        """The lower-case name."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class RuleContext:
    """What rules may look at besides the object: the gates, and the taints and labels of known nodes and devices."""

    gates: Gates
    taints: dict[str, frozenset[Taint]]
    """The taints of the nodes, by key."""
    labels: dict[str, frozenset[str]]
    """The label values of the nodes, by key."""
    device_taints: dict[str, frozenset[Taint]]
    """The taints of devices, by key."""


Breaches = Iterator[tuple[str, str]]
"""Paths and what is wrong there."""


Judged = TypeVar("Judged")
"""What a rule looks at."""
Knowledge = TypeVar("Knowledge")
"""What it knows besides."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Rule(Generic[Judged, Knowledge]):
    """One lint rule. Its page is docs/lint/ID.md."""

    id: str
    severity: Severity
    reason: str
    fix: str
    check: Callable[[Judged, Knowledge], Breaches]


class RuleTable(dict[str, Rule[Judged, Knowledge]]):
    """Rules by id, in the order in which they are listed."""

    def rule(
        self, rule_id: str, severity: Severity, reason: str, fix: str
    ) -> Callable[[Callable[[Judged, Knowledge], Breaches]], Callable[[Judged, Knowledge], Breaches]]:
        """Enter a function that finds breaches as a rule."""

        def enter(check: Callable[[Judged, Knowledge], Breaches]) -> Callable[[Judged, Knowledge], Breaches]:
            self[rule_id] = Rule(rule_id, severity, reason, fix, check)
            return check

        return enter


def context_of(nodes: Iterable[Node], gates: Gates, device_taints: Iterable[Taint] = ()) -> RuleContext:
    """The gates, with the taints and labels of some nodes, and the taints of some devices."""
    taints: dict[str, set[Taint]] = {}
    labels: dict[str, set[str]] = {}
    of_devices: dict[str, set[Taint]] = {}
    for node in nodes:
        for taint in node.spec.taints:
            taints.setdefault(taint.key, set()).add(taint)
        for key, value in node.metadata.labels.items():
            labels.setdefault(key, set()).add(value)
    for taint in device_taints:
        of_devices.setdefault(taint.key, set()).add(taint)
    return RuleContext(gates, _frozen(taints), _frozen(labels), _frozen(of_devices))


def _frozen(sets: dict[str, set[Value]]) -> dict[str, frozenset[Value]]:
    return {key: frozenset(values) for key, values in sets.items()}
