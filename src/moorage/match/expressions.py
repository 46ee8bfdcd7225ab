"""Where CEL enters the matcher: a compiler of expressions over `taint` and over `node`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from moorage.api.node import Taint
from moorage.match.verdict import Verdict


class TaintExpression(NamedTuple):
    """A compiled toleration expression."""

    verdict: Callable[[Taint], Verdict]
    problem: str = ""
    """Why it does not compile, empty when it does; then every verdict is an error."""
    cost: int = 0
    """The most that one evaluation can cost."""


class NodeExpression(NamedTuple):
    """A compiled node selector expression."""

    verdict: Callable[[Mapping[str, str]], Verdict]
    keys: frozenset[str] | None
    """The label keys that the result depends on; None when it may depend on all."""
    problem: str = ""
    cost: int = 0


class Expressions(Protocol):
    """What compiles expressions."""

    def taint(self, source: str) -> TaintExpression:
        """Compile the `expression` of a toleration."""

    def node(self, source: str) -> NodeExpression:
        """Compile one of a term's `matchCELExpressions`."""


class NoExpressions:
    """Answers for every expression that nothing here can evaluate it."""

    _PROBLEM = "CEL expressions cannot be evaluated by this version"
    _UNAVAILABLE = Verdict(False, _PROBLEM, "CEL is not available")

    def taint(self, source: str) -> TaintExpression:  # noqa: ARG002
        """An expression that answers with an error."""
        return TaintExpression(lambda _: self._UNAVAILABLE, self._PROBLEM)

    def node(self, source: str) -> NodeExpression:  # noqa: ARG002
        """An expression that answers with an error."""
        return NodeExpression(lambda _: self._UNAVAILABLE, frozenset(), self._PROBLEM)
