"""Some expressions, and what each of them means said in Python: what the engine's answers are compared with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from moorage.api.node import Taint
from moorage.match import expressions
from moorage.match.verdict import MATCH, NO_MATCH, Verdict

Labels = Mapping[str, str]

ALWAYS, NEVER = "true", "false"
EVICTING, ON_GPU = "taint.effect == 'NoExecute'", "taint.key.startsWith('gpu')"
AGED = "taint.timeAdded < timestamp('2020-01-01T00:00:00Z')"
IN_WEST, MANY_LABELS, RACKED = (
    "node.labels['zone'] == 'west'",
    "size(node.labels) > 2",
    "has(node.labels.rack) || 'shelf' in node.labels",
)
BROKEN = "foo.bar"
COSTLY_TAINT = "taint.key.split('').all(a, taint.key.split('').all(b, taint.key.split('').all(c, a != b || b != c)))"
COSTLY_NODE = 'node.labels.all(k, node.labels.all(v, k.matches(".*") && v.matches(".*")))'

_NUMBERS = ",".join(map(str, range(200)))
SLOW = f"[{_NUMBERS}].all(a, [{_NUMBERS}].all(b, a + b >= 0))"
"""True, and so costly that it is never evaluated on the event loop."""

PROBLEM = "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo.bar\n | ^"
NO_ZONE = Verdict(False, "no such key: zone", "CEL expression failed to evaluate")
NO_TIME = Verdict(False, "no such key: timeAdded", "CEL expression failed to evaluate")

_COMMON: dict[str, Callable[[object], bool]] = {ALWAYS: lambda _: True, NEVER: lambda _: False}
_TAINTS: dict[str, Callable[[Taint], bool]] = {
    **_COMMON,
    EVICTING: lambda taint: taint.effect == "NoExecute",
    ON_GPU: lambda taint: taint.key.startswith("gpu"),
}
_NODES: dict[str, tuple[frozenset[str] | None, Callable[[Labels], bool]]] = {
    **{source: (frozenset(), test) for source, test in _COMMON.items()},
    MANY_LABELS: (None, lambda labels: len(labels) > 2),
    RACKED: (frozenset(["rack", "shelf"]), lambda labels: "rack" in labels or "shelf" in labels),
}


def taint_verdict(source: str, taint: Taint) -> Verdict:
    """What one of the known expressions says of a taint."""
    if source == AGED:
        return NO_TIME if taint.time_added is None else NO_MATCH
    return MATCH if _TAINTS[source](taint) else NO_MATCH


def node_verdict(source: str, labels: Labels) -> Verdict:
    """What one of the known expressions says of a node."""
    if source == IN_WEST:
        return NO_ZONE if "zone" not in labels else MATCH if labels["zone"] == "west" else NO_MATCH
    return MATCH if _NODES[source][1](labels) else NO_MATCH


@contextmanager
def evaluation_threads() -> Iterator[list[str]]:
    """The name of the thread of each evaluation of an expression that is compiled inside."""
    threads: list[str] = []
    original = expressions.verdict_of

    def noting(function: Callable[[Any], Any]) -> Callable[[Any], Verdict]:
        verdict = original(function)

        def ask(subject: Any) -> Verdict:
            threads.append(threading.current_thread().name)
            return verdict(subject)

        return ask

    expressions.verdict_of = noting
    try:
        yield threads
    finally:
        expressions.verdict_of = original
