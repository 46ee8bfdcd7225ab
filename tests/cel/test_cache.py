from __future__ import annotations

import threading
import traceback
from typing import Any

import pytest

from moorage.cel import cache as module
from moorage.cel.cache import Counters, ProgramCache
from moorage.cel.env import Env
from moorage.cel.errors import CompileError
from moorage.cel.program import Program
from tests.cel.inputs import Node, Taint, environment


class CountingEnv(Env):
    """Counts compilations, and lets all of them start before one ends."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[str] = []

    def compile(self, text: str, *, lenient: bool = False) -> Program:
        self.compiled.append(text)
        return super().compile(text, lenient=lenient)


def test_an_expression_is_compiled_once_and_counted() -> None:
    env = CountingEnv()
    cache = ProgramCache(env, 10)
    assert cache.compile("1 + 1") is cache.compile("1 + 1")
    assert env.compiled == ["1 + 1"]
    assert cache.counters == Counters(hits=1, misses=1, evictions=0)


def test_an_error_is_kept_too() -> None:
    env = CountingEnv()
    cache = ProgramCache(env, 10)
    messages = []
    for _ in range(3):
        with pytest.raises(CompileError) as caught:
            cache.compile("1 +")
        messages.append(str(caught.value))
    assert env.compiled == ["1 +"]
    assert len(set(messages)) == 1
    assert len(traceback.extract_tb(caught.value.__traceback__)) < 5


def test_the_least_recently_used_makes_room() -> None:
    env = CountingEnv()
    cache = ProgramCache(env, 2)
    for text in ("1", "2", "1", "3", "1", "2"):
        cache.compile(text)
    assert env.compiled == ["1", "2", "3", "2"]
    assert cache.counters == Counters(hits=2, misses=4, evictions=2)
    assert len(cache) == 2


def test_long_expressions_make_room_for_each_other_before_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 3200)
    env = CountingEnv()
    cache = ProgramCache(env, 100)
    texts = [f"{number} > {'1' * 10}{' ' * 170}" for number in range(60)]
    for text in texts:
        cache.compile(text)
    assert len(cache) < 20
    assert texts[-1] in cache
    assert texts[0] not in cache
    cache.compile("1 > 0" + " " * 3200)
    assert len(env.compiled) == 61
    assert texts[-1] in cache, "one that is very long is not kept"


def test_concurrent_first_use_compiles_once() -> None:
    env = CountingEnv()
    cache = ProgramCache(env, 100)
    start = threading.Barrier(8)
    programs: list[Any] = []

    def work() -> None:
        start.wait()
        programs.extend(cache.compile(f"{number} + 1 == {number + 1}") for number in range(50))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(env.compiled) == len(set(programs)) == 50
    assert all(program.evaluate() is True for program in programs)
    hits, misses, evictions = cache.counters
    assert (hits + misses, misses, evictions) == (400, 50, 0)


def test_inputs_do_not_matter_to_the_cache() -> None:
    program = ProgramCache(environment()).compile("taint.key in node.labels")
    assert program.evaluate(Taint("a"), Node({"a": ""})) is True
    assert program.evaluate(Taint("b"), Node({"a": ""})) is False
