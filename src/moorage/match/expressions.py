"""Expressions over `taint` and over `node` as verdicts, and their programs, kept for reuse.

The engine is imported with the first expression: most commands never meet one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from moorage.api.node import Taint
from moorage.bounded import Bounded
from moorage.match.deferral import STEP_COST, is_bounded, pause, spend
from moorage.match.verdict import MATCH, NO_MATCH, Verdict
from moorage.pace import rest

if TYPE_CHECKING:
    from moorage.cel.cache import Counters, ProgramCache
    from moorage.cel.program import Program
    from moorage.cel.types import Type
    from moorage.cel.values import Timestamp

MAX_BYTES = 10_240
MAX_COST = 1_000_000
"""The most that one evaluation may cost. What can cost more is never evaluated, so nothing need be counted."""
COMPILATION_COST = 5 * STEP_COST
"""What the compilation of a character counts as."""
CHEAP = 200
"""What an evaluation may cost that is not worth being counted or kept by itself."""
SHORT = 512
"""Bytes of an expression up to which its program is small: those of a whole pod fit into a cache at once."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@cache
def load_engine() -> tuple[ProgramCache, ProgramCache]:
    """The programs of tolerations and of node selectors.

    A server calls this before it serves: the import takes longer than the event loop may be held.
    """
    from moorage.cel.cache import ProgramCache
    from moorage.cel.environments import NODE_ENV, TAINT_ENV

    return ProgramCache(TAINT_ENV), ProgramCache(NODE_ENV)


_FEW_LABELS = 4


class _TimedTaint(NamedTuple):
    """A taint whose age CEL can read."""

    key: str
    value: str
    effect: str
    time_added: Timestamp | None


class _Node(NamedTuple):
    labels: Mapping[str, str]


class Expression:
    """A compiled expression, or the problem that prevents its evaluation.

    Its program is held by the cache alone, so that all programs together are bounded, however many pods there are: one
    that had to make room is compiled again when it is needed.
    """

    types: tuple[str, ...] = ("bool",)
    """What it may evaluate to."""

    def __init__(self, source: str, programs: ProgramCache) -> None:
        from moorage.cel.errors import CompileError

        self.source = source
        self.problem = ""
        """Why it cannot be evaluated, so that every verdict is an error; empty when it can."""
        self.refusal = ""
        """The same in the words of admission."""
        self.cost = 0
        """The most that one evaluation can cost."""
        self.type: Type | None = None
        self._programs = programs
        self._kept: Callable[[], Program | None] = _nothing
        if len(source.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            self._refuse(f"the expression is longer than {MAX_BYTES} bytes")
            return
        try:
            program = self._compiled()
        except CompileError as error:
            self._refuse(str(error))
            return
        self.type = program.type
        if str(program.type) not in self.types:
            self._refuse(f"must evaluate to bool, not {program.type}")
        elif problem := program.constants.problem:
            self._refuse(problem, "program instantiation failed")
        else:
            self.cost = program.cost.max

    def _compiled(self) -> Program:
        source, programs = self.source, self._programs
        known = source in programs
        if not known:
            spend(COMPILATION_COST * (len(source) + 100), lambda: programs.compile(source))
        try:
            program = programs.compile(source)
        finally:
            if not known:
                rest()
        self._kept = ref(program)
        return program

    @property
    def _program(self) -> Program | None:
        return None if self.problem else self._kept() or self._compiled()

    def _evaluate(self, subject: Any) -> Any:
        return (self._kept() or self._compiled()).evaluate(subject)

    def _refuse(self, problem: str, stage: str = "compilation failed") -> None:
        self.problem, self.refusal = problem, f"{stage}: {problem}"

    @cached_property
    def evaluate(self) -> Callable[[Any], Verdict]:
        """A function from a taint, a node or a device to a verdict."""
        if self.problem or self.cost > MAX_COST:
            refused = Verdict(False, self.problem or "the expression exceeds the cost limit", "CEL expression refused")
            return lambda _: refused
        verdict = verdict_of(self._evaluate)
        return verdict if self.cost <= CHEAP and len(self.source) <= SHORT else self.bounded(verdict)

    @cached_property
    def digest(self) -> bytes:
        """Stands for the source where verdicts are kept: it is short, however long the source is."""
        return _digest(self.source)

    def bounded(self, verdict: Callable[[Any], Verdict]) -> Callable[[Any], Verdict]:
        """The same where time is bounded, with each verdict kept: it may be needed again when the next is ready."""
        digest, cost = self.digest, STEP_COST * self.cost

        def remembered(subject: Any) -> Verdict:
            if not is_bounded():
                return verdict(subject)
            key = (digest, self.read_by(subject))
            known = _VERDICTS.get(key)
            if known is None:
                spend(cost, lambda: remembered(subject))
                known = verdict(subject)
                _VERDICTS.put(key, known)
                pause()
            return known

        return remembered

    def read_by(self, subject: Any) -> Hashable:
        """What the verdict about a subject depends on."""
        raise NotImplementedError

    def explain(self, subject: Any) -> str:
        """Which part decided, or failed, with the values that it read."""
        from moorage.cel.reasons import explain

        return explain(program, subject) if (program := self._program) else self.problem

    def part(self, subject: Any) -> tuple[int, int]:
        """Where that part begins and ends in the source."""
        from moorage.cel.reasons import deciding_part

        return deciding_part(program, subject) if (program := self._program) else (0, len(self.source))


class TaintExpression(Expression):
    """The `expression` of a toleration."""

    def __init__(self, source: str) -> None:
        super().__init__(source, load_engine()[0])
        self._reads_time = "timeAdded" in source

    def read_by(self, subject: Any) -> Hashable:
        """The taint."""
        return subject.key, subject.value, subject.effect, subject.time_added if self._reads_time else None

    @property
    def verdict(self) -> Callable[[Taint], Verdict]:
        """A function from a taint to a verdict."""
        evaluate = self.evaluate
        return (lambda taint: evaluate(_timed(taint))) if self._reads_time else evaluate

    @property
    def needs_time(self) -> bool:
        """Whether the time of the taint is read without a test that it has one."""
        from moorage.cel.check.reads import unguarded

        return (program := self._program) is not None and "timeAdded" in unguarded(program.checked, ("taint",))

    def among(self, field: str) -> frozenset[str] | None:
        """The values of which a field of a taint must have one to be tolerated; None when any may do."""
        from moorage.cel.check.reads import among

        return among(program.checked, ("taint", field)) if (program := self._program) else frozenset()

    def why(self, taint: Taint) -> str:
        """Which part decided about a taint."""
        return self.explain(_timed(taint) if self._reads_time else taint)

    def part_for(self, taint: Taint) -> tuple[int, int]:
        """Where that part begins and ends in the source."""
        return self.part(_timed(taint) if self._reads_time else taint)


class NodeExpression(Expression):
    """One of the `matchCELExpressions` of a node selector term."""

    def __init__(self, source: str) -> None:
        super().__init__(source, load_engine()[1])

    def read_by(self, subject: Any) -> Hashable:
        """The labels that are looked up, or all of them: a digest of these where there are many."""
        labels, keys = subject.labels, self.keys
        read = sorted(labels.items()) if keys is None else [labels.get(key) for key in sorted(keys)]
        return tuple(read) if len(read) <= _FEW_LABELS else _digest(repr(read))

    @property
    def verdict(self) -> Callable[[Mapping[str, str]], Verdict]:
        """A function from a node's labels to a verdict."""
        evaluate = self.evaluate
        return lambda labels: evaluate(_Node(labels))

    def why(self, labels: Mapping[str, str]) -> str:
        """Which part decided about a node."""
        return self.explain(_Node(labels))

    def part_for(self, labels: Mapping[str, str]) -> tuple[int, int]:
        """Where that part begins and ends in the source."""
        return self.part(_Node(labels))

    @cached_property
    def keys(self) -> frozenset[str] | None:
        """The label keys that the verdict depends on; None when it may depend on all."""
        return program.reads(("node", "labels")) if (program := self._program) else frozenset()

    @property
    def unguarded_keys(self) -> frozenset[str]:
        """The labels that are looked up without a test that the node has them."""
        from moorage.cel.check.reads import unguarded

        return unguarded(program.checked, ("node", "labels")) if (program := self._program) else frozenset()


def verdict_of(function: Callable[[Any], Any]) -> Callable[[Any], Verdict]:
    """A function from a subject to a verdict."""
    from moorage.cel.errors import EvalError

    def verdict(subject: Any) -> Verdict:
        try:
            value = function(subject)
        except EvalError as error:
            return Verdict(False, str(error), "CEL expression failed to evaluate")
        if value is True:
            return MATCH
        return NO_MATCH if value is False else Verdict(False, "the value is not a bool", "CEL expression is no bool")

    return verdict


def _digest(text: str) -> bytes:
    """Stands for a text, however long it is."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _nothing() -> None:
    """In place of a program that is not kept."""


class _Verdicts:
    """Verdicts about subjects by expression, for several threads."""

    def __init__(self, most: int) -> None:
        self._kept: Bounded[tuple[bytes, Hashable], Verdict] = Bounded(most)
        self._lock = threading.Lock()

    def get(self, key: tuple[bytes, Hashable]) -> Verdict | None:
        with self._lock:
            return self._kept.get(key)

    def put(self, key: tuple[bytes, Hashable], verdict: Verdict) -> None:
        with self._lock:
            self._kept.put(key, verdict)


_VERDICTS = _Verdicts(65_536)


def cache_counters() -> dict[str, Counters]:
    """Hits, misses and evictions of the caches of compiled expressions, for tolerations and for node selectors."""
    taints, nodes = load_engine()
    return {"toleration": taints.counters, "node_selector": nodes.counters}


def _timed(taint: Taint) -> _TimedTaint:
    from moorage.cel.values import Timestamp

    added = taint.time_added
    time = None if added is None else Timestamp((added - _EPOCH) // timedelta(microseconds=1) * 1000)
    return _TimedTaint(taint.key, taint.value, taint.effect, time)
