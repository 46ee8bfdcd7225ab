"""How fast expressions compile and evaluate, beside other engines in the same run: `python bench/cel.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle, repeat
from statistics import median
from textwrap import fill
from time import perf_counter
from typing import Any, NamedTuple

from cel_expr_python import cel  # type: ignore[import-untyped]

import cel_engines
from moorage.cel import STRING, Field, kubernetes, map_of, object_of

WIDTH = 120
ROUNDS = 25
SLICE = 0.004
"""Seconds that one engine runs before the other has its turn: what disturbs one disturbs both."""

RATIO, EVALUATION, COMPILATION = 10, 1.0, 300
"""The targets: times as fast as Google's engine, and microseconds."""


@dataclass(slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(slots=True)
class Node:
    labels: dict[str, str]


class Case(NamedTuple):
    name: str
    text: str
    variable: str
    values: list[Any]
    theirs: str | None = None
    """What Google's engine runs instead when it cannot run the expression."""
    simple: bool = True


CNI = "cni.projectcalico.org/version"
FORGOTTEN = 70_000
"""More versions than the cache of parsed versions holds."""

LABELS = {
    "topology.kubernetes.io/rack": "us-west-2-r17",
    "storage-optimized": "true",
    **{f"example.com/label-{number}": f"value-{number}" for number in range(27)},
    "example.com/gpu": "yes",
}
CALICO = "taint.key == 'cni.projectcalico.org/version' && {} && taint.effect == 'NoSchedule'"

CASES = (
    Case(
        "prefix of a key", "taint.key.startsWith('node.example/')", "taint", [Taint("node.example/a", "", "NoExecute")]
    ),
    Case(
        "calico version",
        CALICO.format("semver.compare(taint.value, '>=3.25.0')"),
        "taint",
        [Taint(CNI, "v3.27.2", "NoSchedule")],
        CALICO.format("taint.value.startsWith('v3.')"),
        simple=False,
    ),
    # Versions once read are remembered, so the row above is about versions that many nodes have. Here none comes twice
    # before it is forgotten.
    Case(
        "calico, new versions",
        CALICO.format("semver.compare(taint.value, '>=3.25.0')"),
        "taint",
        [Taint(CNI, f"v3.{25 + number}.0", "NoSchedule") for number in range(FORGOTTEN)],
        CALICO.format("taint.value.startsWith('v3.')"),
        simple=False,
    ),
    Case(
        "prefix of a label",
        "node.labels['topology.kubernetes.io/rack'].startsWith('us-west-2')",
        "node",
        [Node(LABELS)],
    ),
    Case("a label exists", "'storage-optimized' in node.labels", "node", [Node(LABELS)]),
    # Two bodies, because the ratio depends on it: a comparison is native code, a method is a call for every label.
    Case("exists, compares", "node.labels.exists(k, node.labels[k] == 'yes')", "node", [Node(LABELS)], simple=False),
    Case(
        "exists, calls",
        "node.labels.exists(k, k.endsWith('/gpu') && node.labels[k] == 'yes')",
        "node",
        [Node(LABELS)],
        simple=False,
    ),
)

OURS = {
    "taint": kubernetes(
        {"taint": object_of("Taint")},
        {"Taint": {name: Field(STRING, name) for name in ("key", "value", "effect")}},
    ),
    "node": kubernetes(
        {"node": object_of("Node")},
        {"Node": {"labels": Field(map_of(STRING, STRING), "labels")}},
    ),
}
TEXTS = cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
THEIRS = {
    "taint": cel.NewEnv(variables={"taint": TEXTS}),
    "node": cel.NewEnv(variables={"node": cel.Type.Map(cel.Type.STRING, TEXTS)}),
}


def seconds(call: Callable[[], Any], times: int) -> float:
    start = perf_counter()
    for _ in repeat(None, times):
        call()
    return (perf_counter() - start) / times


def times_in_slice(call: Callable[[], Any]) -> int:
    times = 1
    while seconds(call, times) * times < SLICE / 2:
        times *= 2
    return times


def race(calls: list[Callable[[], Any]]) -> list[list[float]]:
    """Seconds a call, per round, of functions that take turns."""
    counts = [times_in_slice(call) for call in calls]
    rounds = [[seconds(call, times) for call, times in zip(calls, counts, strict=True)] for _ in range(ROUNDS)]
    return [list(column) for column in zip(*rounds, strict=True)]


class Result(NamedTuple):
    case: Case
    evaluation: float
    ratio: float
    prepared: float
    """The ratio when the other engine need not convert its input."""
    compilation: float

    @property
    def missed(self) -> list[str]:
        """The targets that were not met."""
        limits = {
            f"{RATIO}x": self.ratio >= RATIO,
            f"{EVALUATION:g} µs": not self.case.simple or self.evaluation < EVALUATION,
            f"compile {COMPILATION} µs": self.compilation < COMPILATION,
        }
        return [name for name, met in limits.items() if not met]


def run(case: Case) -> Result:
    env, other = OURS[case.variable], THEIRS[case.variable]
    evaluate = env.compile(case.text).evaluate
    program = other.compile(case.theirs or case.text)
    inputs = [{case.variable: cel_engines.members(value)} for value in case.values]
    ready = other.Activation(inputs[0])
    assert evaluate(case.values[0]) is True
    assert program.eval(data=inputs[0]).value() is True
    value, data = cycle(case.values).__next__, cycle(inputs).__next__
    ours, theirs, prepared, compiling = race(
        [
            lambda: evaluate(value()),
            lambda: program.eval(data=data()),
            lambda: program.eval(ready),
            lambda: env.compile(case.text),
        ]
    )
    return Result(case, min(ours) * 1e6, ratio(ours, theirs), ratio(ours, prepared), min(compiling) * 1e6)


def ratio(ours: list[float], theirs: list[float]) -> float:
    return median(their / our for our, their in zip(ours, theirs, strict=True))


def wrapped(name: str, text: str) -> str:
    return fill(f"{name:<22}{text}", WIDTH, subsequent_indent=" " * 22, break_on_hyphens=False)


NOTES = f"""
Targets: {RATIO} times as fast as cel-expr-python on each, under {EVALUATION:g} µs for the simple ones,
compiled in under {COMPILATION} µs.
Times are the best of {ROUNDS} rounds in which the engines take turns, ratios the median of the rounds.
ratio: both engines get the input as it comes; cel-expr-python converts it in every call. The target is about this one.
ready: cel-expr-python gets an input that it converted before.
* cel-expr-python has no semver.compare and runs the expression with startsWith in its place, which is less work.
Both exists go through 30 labels, of which the last one matches."""


def row(result: Result) -> str:
    targets = f"missed: {', '.join(result.missed)}" if result.missed else "met"
    return (
        f"{result.case.name:<22}{1e6 / result.evaluation:>12,.0f}{result.evaluation:>9.3f}"
        f"{result.ratio:>7.1f}x{result.prepared:>7.1f}x"
        f"{1e6 / result.compilation:>12,.0f}{result.compilation:>12.0f}  {targets}{'  *' if result.case.theirs else ''}"
    )


COMPARED = [case for case in CASES if case.theirs is None]
ENGINE_NOTES = """
Engines side by side: cases of the CEL specification that pass, microseconds an evaluation with an input that was
converted beforehand, microseconds to compile the first expression."""


def side_by_side() -> None:
    """A table in Markdown of all engines: what they get right, and how fast they are."""
    engines = cel_engines.ENGINES
    total = sum(1 for _ in cel_engines.cases())
    print("| engine | cel-spec |", " | ".join(case.name for case in COMPARED), "| compile |")
    print("|---|---|" + "--:|" * (len(COMPARED) + 1))
    evaluations = [
        race([engine.compile(case.text, case.variable)(case.values[0]) for engine in engines]) for case in COMPARED
    ]
    first = COMPARED[0]
    compilations = race([partial(engine.compile, first.text, first.variable) for engine in engines])
    for engine, *rounds in zip(engines, *evaluations, compilations, strict=True):
        passed = f"{cel_engines.passed(engine):,} of {total:,}" if total else "not here"
        times = " | ".join(f"{min(seconds_a_call) * 1e6:,.2f}" for seconds_a_call in rounds)
        print(f"| `{engine.name}` | {passed} | {times} |", flush=True)
    if not any(engine.name == "celpy" for engine in engines):
        print("celpy is not installed: pip install --target /tmp/celpy cel-python, then PYTHONPATH=/tmp/celpy")


def main() -> None:
    columns = f"{'evals/s':>12}{'µs/eval':>9}{'ratio':>8}{'ready':>8}{'compiles/s':>12}{'µs/compile':>12}"
    print(f"{'expression':<22}{columns}  targets")
    for case in CASES:
        print(row(run(case)), flush=True)
    print()
    for case in CASES:
        print(wrapped(case.name, case.text))
        if case.theirs:
            print(wrapped("  * beside", case.theirs))
    print(NOTES)
    print(ENGINE_NOTES)
    side_by_side()


if __name__ == "__main__":
    main()
