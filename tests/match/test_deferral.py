from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from moorage.api.node import Taint
from moorage.api.pod import Toleration
from moorage.cel.cache import ProgramCache
from moorage.cel.environments import NODE_ENV
from moorage.features import ALL_ON
from moorage.match import expressions
from moorage.match.deferral import INLINE_COST, NotReady, deferring, one_by_one, pause
from moorage.match.evaluations import REST, EvaluationThread, Parked
from moorage.match.expressions import CHEAP, MAX_BYTES, NodeExpression, TaintExpression
from moorage.match.tolerations import Tolerations
from moorage.match.verdict import MATCH, NO_MATCH, Verdict
from moorage.pace import ProcessorUse, rest, set_rest

NUMBERS = ",".join(map(str, range(100)))


def costly(name: str) -> str:
    return f"[{NUMBERS}].all(a, [{NUMBERS}].all(b, a + b >= 0)) && taint.key == '{name}'"


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The subjects that were evaluated, in their order."""
    subjects: list[object] = []
    original = expressions.verdict_of

    def counting(function: object) -> object:
        verdict = original(function)  # type: ignore[arg-type]

        def ask(subject: object) -> Verdict:
            subjects.append(subject)
            return verdict(subject)

        return ask

    monkeypatch.setattr(expressions, "verdict_of", counting)
    return subjects


def test_a_costly_expression_is_not_evaluated_on_the_event_loop(evaluated: list[object]) -> None:
    taint = Taint("deferred", "", "NoSchedule")
    tolerations = Tolerations([Toleration(expression=costly("deferred"))], ALL_ON)
    with deferring(), pytest.raises(NotReady) as later:
        tolerations.verdict(taint)
    assert evaluated == []
    on_another_thread(later.value)
    assert evaluated == [taint]
    with deferring():
        assert tolerations.verdict(taint) is MATCH
        assert Tolerations([Toleration(expression=costly("deferred"))], ALL_ON).verdict(taint) is MATCH
    assert evaluated == [taint]


def on_another_thread(later: NotReady) -> None:
    """Work is kept only where somebody paces it."""
    done = EvaluationThread(rest=0)
    asyncio.run(done.run(later.work))


def test_who_has_time_is_answered_at_once_and_nothing_is_kept(evaluated: list[object]) -> None:
    taint = Taint("at-once", "", "NoSchedule")
    expression = TaintExpression(costly("at-once"))
    assert [expression.verdict(taint), expression.verdict(taint)] == [MATCH, MATCH]
    assert len(evaluated) == 2


def test_cheap_expressions_are_evaluated_on_the_event_loop(evaluated: list[object]) -> None:
    expression = TaintExpression("taint.key == 'cheap'")
    assert expression.cost <= CHEAP
    verdict = expression.verdict
    with deferring():
        assert [verdict(Taint("cheap", str(number), "NoSchedule")) for number in range(1000)] == [MATCH] * 1000
    assert len(evaluated) == 1000


def test_what_an_expression_does_not_read_makes_no_difference(evaluated: list[object]) -> None:
    source = f"[{NUMBERS}].all(a, [{NUMBERS}].all(b, a + b >= 0)) && node.labels['zone'] == 'west'"
    verdict = NodeExpression(source).verdict
    with deferring(), pytest.raises(NotReady) as later:
        verdict({"zone": "west", "name": "a"})
    on_another_thread(later.value)
    with deferring():
        assert verdict({"zone": "west", "name": "b"}) is MATCH
        with pytest.raises(NotReady):
            verdict({"zone": "east", "name": "b"})
    assert len(evaluated) == 1


def test_a_long_expression_is_not_compiled_on_the_event_loop() -> None:
    source = " && ".join(f"taint.key != 'compiled-{number}'" for number in range(250))
    before = expressions.cache_counters()["toleration"].misses
    with deferring(), pytest.raises(NotReady) as later:
        TaintExpression(source)
    assert expressions.cache_counters()["toleration"].misses == before
    on_another_thread(later.value)
    with deferring():
        assert TaintExpression(source).verdict(Taint("compiled-7", "", "NoSchedule")) is NO_MATCH
    assert expressions.cache_counters()["toleration"].misses == before + 1


def test_pods_hold_no_programs_and_get_all_verdicts_though_few_programs_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = ProgramCache(NODE_ENV, most_bytes=1 << 20)
    monkeypatch.setattr(expressions, "load_engine", lambda: (cache, cache))
    sources = [f"{' && '.join(['true'] * 700)} && {number} >= 0" for number in range(40)]
    selectors = [NodeExpression(source) for source in sources]
    assert (cache.counters.misses, len(cache) < 20, cache.bytes <= 1 << 20) == (40, True, True)
    rounds = 0
    for rounds in range(100):  # noqa: B007 - how many it took
        try:
            with deferring():
                assert [each.verdict({}) for each in selectors] == [MATCH] * 40
            break
        except NotReady as later:
            on_another_thread(later)
    assert 0 < rounds <= 40
    assert cache.bytes <= 1 << 20
    assert cache.counters.misses <= 80, "each is compiled once more, not each time that the whole is asked for"


def test_an_expression_that_is_too_long_is_refused_without_being_compiled() -> None:
    source = f"taint.key == '{'a' * MAX_BYTES}'"
    before = expressions.cache_counters()["toleration"].misses
    with deferring():
        verdict = TaintExpression(source).verdict(Taint("a", "", "NoSchedule"))
    assert (verdict.matched, verdict.error) == (False, "the expression is longer than 10240 bytes")
    assert expressions.cache_counters()["toleration"].misses == before


def test_many_cheap_questions_are_interrupted_and_go_on_where_they_were() -> None:
    asked: list[int] = []
    with deferring(), pytest.raises(NotReady) as later:
        one_by_one(range(25), asked.append, INLINE_COST // 10)
    assert asked == list(range(10))
    later.value.work()
    assert asked == list(range(25))


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_a_small_job_does_not_wait_for_the_end_of_a_large_one() -> None:
    thread, ended = EvaluationThread(rest=0), threading.Event()

    def large() -> None:
        while not ended.is_set():
            burn(0.003)
            pause()

    task = asyncio.create_task(thread.run(large))
    while not len(thread):
        await asyncio.sleep(0)
    await thread.run(lambda: None)
    assert not task.done()
    ended.set()
    await task


def test_the_thread_takes_little_while_the_rest_of_the_process_is_busy_and_all_when_it_is_not() -> None:
    before = ProcessorUse(clock=10.0, process=5.0, thread=1.0)
    assert ProcessorUse(clock=11.0, process=6.0, thread=1.2).busy(before) == 1
    assert ProcessorUse(clock=11.0, process=5.45, thread=1.2).busy(before) == pytest.approx(0.5)
    assert ProcessorUse(clock=11.0, process=6.0, thread=2.0).busy(before) == 0
    assert 1 / (1 + REST) < 0.1


@pytest.mark.parametrize(
    "source",
    [
        f"[{NUMBERS}].all(a, [{NUMBERS}].all(b, a + b >= 0)) && node.labels['zone'] == 'west'",
        f"[{NUMBERS}].map(a, [{NUMBERS}].exists(b, a + b < 0)).size() == 100",
        f"[{NUMBERS}].filter(a, [{NUMBERS}].exists_one(b, a == b)).size() == 100",
        f"[{NUMBERS}].all(a, [{NUMBERS}].exists(b, node.labels['zone'] == 'x' || 1 / (a - a) == 1) || true)",
    ],
)
def test_one_evaluation_rests_between_the_steps_of_its_loops(source: str) -> None:
    rests: list[None] = []
    set_rest(lambda: rests.append(None))
    try:
        assert NodeExpression(source).verdict({"zone": "west"}) is MATCH
    finally:
        set_rest(None)
    assert len(rests) >= 100


async def test_an_evaluation_is_not_begun_anew_because_others_wait_but_stops_when_nobody_waits_for_it() -> None:
    thread, begun, steps = EvaluationThread(rest=0), threading.Event(), 0

    def long_evaluation() -> None:
        nonlocal steps
        begun.set()
        while True:
            burn(0.003)
            rest()
            steps += 1

    task = asyncio.create_task(thread.run(long_evaluation))
    while not begun.is_set():
        await asyncio.sleep(0)
    other = asyncio.create_task(thread.run(lambda: None))
    while steps < 100:
        await asyncio.sleep(0.001)
    assert not other.done()
    task.cancel()
    await other


async def test_a_job_that_nobody_waits_for_any_more_stops() -> None:
    thread, begun = EvaluationThread(rest=0), threading.Event()

    def endless() -> None:
        while True:
            begun.set()
            burn(0.003)
            pause()

    task = asyncio.create_task(thread.run(endless))
    while not begun.is_set():
        await asyncio.sleep(0)
    task.cancel()
    while len(thread):
        await asyncio.sleep(0)


async def test_work_that_fails_says_so_where_it_is_awaited() -> None:
    with pytest.raises(ZeroDivisionError):
        await EvaluationThread(rest=0).run(lambda: 1 // 0)


async def test_a_key_is_decided_again_when_its_work_is_done_and_not_when_it_is_forgotten() -> None:
    again: asyncio.Queue[str] = asyncio.Queue()
    done: list[str] = []
    parked = Parked(again.put_nowait)
    parked.park("first", lambda: done.append("first"))
    parked.park("first", lambda: done.append("not asked for twice"))
    assert await again.get() == "first"
    assert done == ["first"]
    parked.park("second", lambda: done.append("second"))
    parked.forget("second")
    await parked.stop()
    assert again.empty()
    assert len(parked) == 0


@pytest.mark.parametrize(
    "source", ["node.labels.all(key, key != 'x')", " || ".join(f"has(node.labels.l{n})" for n in range(20))]
)
def test_what_a_verdict_is_kept_for_is_small_however_many_labels_are_read(source: str) -> None:
    expression = NodeExpression(source)
    labels = {f"l{number}": "v" * 63 for number in range(200)}

    def kept(**changed: str) -> object:
        return expression.read_by(SimpleNamespace(labels=labels | changed))

    assert kept() == kept()
    assert len({kept(), kept(l1="w"), kept(l1="")}) == 3
    assert isinstance(kept(), bytes)
