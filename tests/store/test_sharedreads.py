"""Reads of the same thing at the same time are made once, and none shows less than its asker knows."""

from __future__ import annotations

import asyncio

import pytest

from moorage.store.etcd import EtcdStore
from moorage.store.members import Members, Method
from moorage.store.protocol import StoreUnavailable
from moorage.store.sharedreads import SharedReads
from tests.store.backends import value
from tests.store.cluster import Cluster

pytestmark = pytest.mark.asyncio


class Source:
    """Something to read that answers when it is told to, with what it held when the read began."""

    def __init__(self) -> None:
        self.held = 0
        self.begun = 0
        self._answers: list[asyncio.Future[None]] = []

    async def read(self) -> int:
        self.begun += 1
        held = self.held
        answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        await answer
        return held

    async def answer(self, failure: Exception | None = None) -> None:
        await turns()
        waiting = next(each for each in self._answers if not each.done())
        if failure:
            waiting.set_exception(failure)
        else:
            waiting.set_result(None)
        await turns()


async def turns() -> None:
    """Let everybody go on who can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_those_who_ask_during_a_read_share_the_next_one() -> None:
    source, reads = Source(), SharedReads[int]()
    first = asyncio.create_task(reads.read("key", source.read))
    await turns()
    source.held = 1
    others = [asyncio.create_task(reads.read("key", source.read)) for _ in range(100)]
    await source.answer()
    assert await first == 0
    assert source.begun == 2
    await source.answer()
    assert await asyncio.gather(*others) == [1] * 100
    assert source.begun == 2


async def test_different_reads_do_not_wait_for_each_other() -> None:
    source, reads = Source(), SharedReads[int]()
    asked = [asyncio.create_task(reads.read(key, source.read)) for key in ("a", "b")]
    await turns()
    assert source.begun == 2
    await source.answer()
    await source.answer()
    await asyncio.gather(*asked)


async def test_one_who_goes_away_takes_no_answer_with_them() -> None:
    source, reads = Source(), SharedReads[int]()
    first, second, third = (asyncio.create_task(reads.read("key", source.read)) for _ in range(3))
    await turns()
    first.cancel()
    await turns()
    assert source.begun == 2
    second.cancel()
    await source.answer()
    assert await third == 0


async def test_a_read_that_fails_fails_for_those_who_share_it_only() -> None:
    source, reads = Source(), SharedReads[int]()
    first = asyncio.create_task(reads.read("key", source.read))
    await turns()
    second = asyncio.create_task(reads.read("key", source.read))
    await source.answer(StoreUnavailable("gone"))
    with pytest.raises(StoreUnavailable):
        await first
    await source.answer()
    assert await second == 0


async def test_a_burst_of_reads_is_few_calls_of_etcd(etcd: Cluster, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await EtcdStore.open(etcd.endpoints)
    await store.create(f"{root}a", value("a"))
    calls, read = 0, Members.read

    async def counted(members: Members, method: Method[object, object], request: object) -> object:
        nonlocal calls
        calls += 1
        return await read(members, method, request)

    monkeypatch.setattr(Members, "read", counted)
    items = await asyncio.gather(*(store.get(f"{root}a") for _ in range(200)))
    pages = await asyncio.gather(*(store.list(root) for _ in range(200)))
    together = await asyncio.gather(*(store.read_each([root, f"{root}none"]) for _ in range(200)))
    assert calls == 6
    assert {tuple(map(len, found)) for found in together} == {(1, 0)}
    assert {item.value for item in items if item} == {value("a")}
    assert {len(page.items) for page in pages} == {1}
    await store.close()
