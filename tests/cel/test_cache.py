from __future__ import annotations

import gc
import threading
import traceback
from typing import Any
from weakref import ref

import pytest

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


def test_large_programs_make_room_for_each_other_before_there_are_many() -> None:
    env = CountingEnv()
    cache = ProgramCache(env, 100, most_bytes=1 << 20)
    texts = [f"[{','.join(['[]'] * 100)}].size() > {number}" for number in range(60)]
    for text in texts:
        cache.compile(text)
        assert cache.bytes <= 1 << 20
    assert 10 < len(cache) < 30
    assert texts[-1] in cache
    assert texts[0] not in cache
    huge = f"[{','.join(['[]'] * 3000)}].size() > 0"
    assert cache.compile(huge) is cache.compile(huge), "even the largest is kept: somebody waits for it"


def test_errors_count_by_how_much_is_wrong() -> None:
    cache = ProgramCache(Env(), 100, most_bytes=1 << 20)
    for number in range(100):
        with pytest.raises(CompileError):
            cache.compile(" + ".join(f"x{number}{each}" for each in range(200)))
    assert cache.bytes <= 1 << 20
    assert len(cache) < 30


def test_a_program_that_made_room_is_freed_without_a_collection_of_garbage() -> None:
    cache = ProgramCache(environment(), 1)
    gc.disable()
    try:
        program = ref(cache.compile("[1, 2].all(a, a > 0 && [3].exists(b, b > a)) && taint.key == 'a'"))
        function = ref(program().evaluate)  # type: ignore[union-attr]
        cache.compile("true")
        assert (program(), function()) == (None, None)
    finally:
        gc.enable()


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
