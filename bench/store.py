"""How fast the store is: durable creates, a long list, many watchers, and the memory it takes.

Without arguments SQLite, in a file below the current folder; with arguments etcd at these HOST:PORTs.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from moorage.store.etcd import EtcdStore
from moorage.store.protocol import HEAD, Store
from moorage.store.sqlite import SqliteStore

ENDPOINTS = sys.argv[1:]
ROOT = f"/moorage-bench-{time.time_ns()}/"
PADDING = b"x" * 1450
TASKS, WATCHERS = 64, 200
SECONDS_99, CREATES, LIST_SECONDS = 0.015, 8_000, 0.5


def pod(number: int) -> bytes:
    return b'%b"},"number":%d,"spec":"%b"}' % (HEAD, number, PADDING)


@asynccontextmanager
async def opened() -> AsyncIterator[Store]:
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as folder:
        store: Store = await (EtcdStore.open(ENDPOINTS) if ENDPOINTS else SqliteStore.open(Path(folder) / "moorage.db"))
        try:
            yield store
        finally:
            await store.close()


async def create(store: Store, prefix: str, count: int) -> list[float]:
    """Create pods from all tasks at once; how long each took."""
    took: list[float] = []

    async def task(number: int) -> None:
        for index in range(number, count, TASKS):
            start = time.perf_counter()
            await store.create(f"{ROOT}{prefix}/pod-{index:06}", pod(index))
            took.append(time.perf_counter() - start)

    await asyncio.gather(*map(task, range(TASKS)))
    return sorted(took)


async def creates(store: Store, count: int) -> bool:
    start = time.perf_counter()
    took = await create(store, "pods/speed", count)
    rate, p50, p99 = count / (time.perf_counter() - start), took[count // 2], took[count * 99 // 100]
    print(f"durable creates, {TASKS} tasks: {rate:,.0f}/s, p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")
    return target(f"{CREATES:,}/s, p99 under {SECONDS_99 * 1e3:.0f} ms", rate >= CREATES and p99 < SECONDS_99)


async def listing(store: Store, count: int) -> bool:
    await create(store, "pods/listed", count)
    start = time.perf_counter()
    page = await store.list(f"{ROOT}pods/listed/")
    whole = time.perf_counter() - start
    assert len(page.items) == count
    start = time.perf_counter()
    pages, after = 0, ""
    while page.remaining or not pages:
        page = await store.list(f"{ROOT}pods/listed/", revision=page.revision, limit=500, after=after)
        pages, after = pages + 1, page.items[-1].key
    paged = time.perf_counter() - start
    total = len((await store.list(ROOT)).items)
    print(f"list of {count:,} among {total:,}: {whole * 1e3:.1f} ms; in {pages} pages {paged * 1e3:.1f} ms")
    return target(f"under {LIST_SECONDS * 1e3:.0f} ms", whole < LIST_SECONDS)


def target(words: str, met: bool) -> bool:
    if ENDPOINTS:
        return True
    print(f"    target: {words}: {'met' if met else 'missed'}")
    return met


async def fan_out(store: Store, count: int) -> None:
    start = await store.revision()
    delays: list[float] = []
    written: dict[str, float] = {}

    async def watch(prefix: str, seen: int) -> None:
        async with store.watch(ROOT + prefix, start) as batches:
            while seen < count:
                batch = await anext(batches)
                now = time.perf_counter()
                delays.extend(now - written[event.item.key] for event in batch if event.item.key in written)
                seen += len(batch)

    watchers = [asyncio.create_task(watch("pods/watched/", 0)) for _ in range(WATCHERS)]
    await asyncio.sleep(0)
    begun = time.perf_counter()
    for index in range(100):
        key = f"{ROOT}pods/watched/single-{index}"
        written[key] = time.perf_counter()
        await store.create(key, pod(index))
    await create(store, "pods/watched", count - 100)
    await asyncio.gather(*watchers)
    spent = time.perf_counter() - begun
    print(f"{count:,} creates to {WATCHERS} watchers: {count / spent:,.0f}/s, {count * WATCHERS / spent:,.0f} events/s")
    delays.sort()
    p50, p99 = delays[len(delays) // 2], delays[len(delays) * 99 // 100]
    print(f"    one at a time, from the call to a watcher: p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")


async def memory(store: Store, count: int) -> None:
    before = resident()
    await create(store, "pods/memory", count)
    print(f"memory for 10,000 pods of {len(pod(count)):,} bytes: {(resident() - before) / count * 10_000 / 1e6:.1f} MB")


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def main() -> bool:
    print(f"etcd at {', '.join(ENDPOINTS)}" if ENDPOINTS else f"SQLite below {Path.cwd()}")
    count = 10_000 if ENDPOINTS else 40_000
    async with opened() as store:
        if not ENDPOINTS:
            await memory(store, count)
        quick = await creates(store, count)
        listed = await listing(store, 10_000)
        await fan_out(store, 5_000)
    return quick and listed


if __name__ == "__main__":
    sys.exit(not asyncio.run(main()))
