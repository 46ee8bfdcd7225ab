"""What the etcd store promises about its cluster: members may die, answers may get lost, strangers stay out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from moorage.store.etcd import EtcdStore
from moorage.store.members import Members, Tls
from moorage.store.protocol import CannotOpen, Compacted, Item, KeyExists, Store, StoreError, StoreUnavailable
from tests.store.backends import Etcd, opened, take, value
from tests.store.certificates import Authority
from tests.store.cluster import WHY_SKIPPED, Cluster, binary
from tests.store.proxy import Proxy

pytestmark = pytest.mark.asyncio


async def test_a_member_that_is_down_from_the_start_is_no_matter(etcd: Cluster, root: str) -> None:
    async with opened(Etcd(["127.0.0.1:1", *etcd.endpoints])) as store:
        item = await store.create(root + "a", value("one"))
        assert await store.get(root + "a") == item


async def test_a_cluster_that_is_not_there_is_named() -> None:
    with pytest.raises(CannotOpen, match=r"no etcd member answers at 127\.0\.0\.1:1, 127\.0\.0\.1:2: .*refused"):
        await EtcdStore.open(["127.0.0.1:1", "127.0.0.1:2"], timeout=0.3)


async def test_watches_and_writes_outlive_the_member_they_went_to(three: Cluster, root: str) -> None:
    async with (
        opened(Etcd(three.endpoints)) as store,
        opened(Etcd(three.endpoints)) as other,
        store.watch(root, await store.revision()) as batches,
    ):
        items = [await store.create(root + "before", value("before"))]
        assert [event.item for event in await take(batches, 1)] == items
        for member in three.members[:2]:
            await asyncio.to_thread(member.kill)
            written = await settled(store, root + member.endpoint)
            assert await other.get(written.key) == written
            assert [event.item for event in await take(batches, 1)] == [written]
            member.start()
            await asyncio.to_thread(member.wait)


async def settled(store: Store, key: str) -> Item:
    """Create an object; whether a create without an answer was done is for its caller to find out."""
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(StoreUnavailable, KeyExists):
                return await store.create(key, value(key))
            with contextlib.suppress(StoreUnavailable):
                if (current := await store.get(key)) is not None:
                    return current


@asynccontextmanager
async def impatient(cluster: Cluster) -> AsyncIterator[EtcdStore]:
    """A store that gives up soon: its calls may fail at any time, and are made again by those who need an answer."""
    store = EtcdStore(Members(cluster.endpoints, None, 0.6))
    try:
        yield store
    finally:
        await store.close()


async def test_without_a_majority_the_store_is_unavailable_and_then_again_available(three: Cluster, root: str) -> None:
    async with impatient(three) as store:
        item = await settled(store, root + "a")
        for member in three.members[:2]:
            await asyncio.to_thread(member.kill)
        calls = (
            store.get(root + "a"),
            store.list(root),
            store.update(root + "a", value("two"), item.revision),
            store.compact(item.revision),
        )
        results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 120)
        assert [type(result) for result in results] == [StoreUnavailable] * 4
        for member in three.members[:2]:
            member.start()
        for member in three.members[:2]:
            await asyncio.to_thread(member.wait)
        assert (await settled(store, root + "b")).value == value(root + "b")


async def test_a_member_that_hangs_is_left_for_another(three: Cluster, root: str) -> None:
    async with impatient(three) as store:
        item = await settled(store, root + "a")
        for member in three.members:
            member.freeze()
            try:
                written = await settled(store, root + member.endpoint)
                assert written.value == value(written.key)
                assert await settled(store, root + "a") == item
            finally:
                member.thaw()


async def test_the_watches_of_a_member_that_hangs_go_to_another_with_the_calls(
    etcd: Cluster, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage.store.members._OPTIONS", ())  # no pings: only the call can find out
    async with (
        Proxy(etcd.endpoints[0]) as proxy,
        opened(Etcd([proxy.endpoint, *etcd.endpoints]), timeout=3) as store,
        store.watch(root, await store.revision()) as batches,
    ):
        first = await store.create(root + "a", value("one"))
        assert [event.item for event in await take(batches, 1)] == [first]
        proxy.answers.clear()
        second = await settled(store, root + "b")
        assert [event.item for event in await take(batches, 1)] == [second]


@pytest.fixture
def observer(etcd: Cluster) -> Etcd:
    """A way to etcd that always works."""
    return Etcd(etcd.endpoints)


async def test_a_write_whose_answer_is_lost_is_found_again(etcd: Cluster, observer: Etcd, root: str) -> None:
    async with (
        Proxy(etcd.endpoints[0]) as proxy,
        opened(Etcd([proxy.endpoint])) as store,
        opened(observer) as direct,
        direct.watch(root, await direct.revision()) as batches,
    ):
        proxy.answers.clear()
        creating = asyncio.create_task(store.create(root + "a", value("one")))
        (created,) = await take(batches, 1)
        await proxy.cut()
        proxy.mend()
        assert await creating == created.item
        proxy.answers.clear()
        updating = asyncio.create_task(store.update(root + "a", value("two"), created.revision))
        (updated,) = await take(batches, 1)
        await proxy.cut()
        proxy.mend()
        assert await updating == updated.item


async def test_when_a_lost_answer_cannot_be_found_nobody_guesses(etcd: Cluster, observer: Etcd, root: str) -> None:
    async with (
        Proxy(etcd.endpoints[0]) as proxy,
        opened(Etcd([proxy.endpoint])) as store,
        opened(observer) as direct,
        direct.watch(root, await direct.revision()) as batches,
    ):
        proxy.answers.clear()
        creating = asyncio.create_task(store.create(root + "a", value("one")))
        (created,) = await take(batches, 1)
        await direct.update(root + "a", value("two"), created.revision)
        await proxy.cut()
        proxy.mend()
        with pytest.raises(StoreUnavailable, match="did not say whether"):
            await creating
        proxy.answers.clear()
        current = await direct.get(root + "a")
        assert current
        deleting = asyncio.create_task(store.delete(root + "a", current.revision))
        await take(batches, 2)
        await proxy.cut()
        proxy.mend()
        with pytest.raises(StoreUnavailable, match="did not say whether"):
            await deleting


async def test_a_write_that_never_arrived_is_not_taken_for_done(etcd: Cluster, observer: Etcd, root: str) -> None:
    async with Proxy(etcd.endpoints[0]) as proxy, opened(Etcd([proxy.endpoint])) as store, opened(observer) as direct:
        proxy.requests.clear()
        creating = asyncio.create_task(store.create(root + "a", value("one")))
        await proxy.held.wait()
        await proxy.cut()
        proxy.mend()
        with pytest.raises(StoreUnavailable, match="did not say whether"):
            await creating
        assert await direct.get(root + "a") is None


async def test_a_watch_whose_connection_is_lost_misses_and_repeats_nothing(
    etcd: Cluster, observer: Etcd, root: str
) -> None:
    async with (
        Proxy(etcd.endpoints[0]) as proxy,
        opened(Etcd([proxy.endpoint])) as store,
        opened(observer) as direct,
        store.watch(root, await direct.revision()) as batches,
    ):
        for turn in range(3):
            before = await direct.create(f"{root}{turn} before", b"")
            assert [event.item for event in await take(batches, 1)] == [before]
            await proxy.cut()
            during = [await direct.create(f"{root}{turn} during {index}", b"") for index in range(3)]
            proxy.mend()
            assert [event.item for event in await take(batches, 3)] == during


async def test_a_watch_that_comes_back_after_a_compaction_says_so(etcd: Cluster, observer: Etcd, root: str) -> None:
    async with (
        Proxy(etcd.endpoints[0]) as proxy,
        opened(Etcd([proxy.endpoint])) as store,
        opened(observer) as direct,
        store.watch(root, await direct.revision()) as batches,
    ):
        item = await direct.create(root + "a", value("one"))
        await take(batches, 1)
        await proxy.cut()
        # A deletion at the very revision of a compaction is the one that etcd may forget without a word.
        gone = await direct.delete(root + "a", item.revision)
        await direct.compact(gone.revision)
        proxy.mend()
        with pytest.raises(Compacted):
            await take(batches, 1)


async def test_a_lone_watcher_is_not_outrun_by_what_it_reads(etcd: Cluster, root: str) -> None:
    async with opened(Etcd(etcd.endpoints), max_events=10) as store, opened(Etcd(etcd.endpoints)) as other:
        start = await store.revision()
        async with store.watch(root, start) as slow, other.watch(root, start) as quick:
            for index in range(100):
                await store.create(f"{root}{index}", b"")
            events = await take(quick, 100)
            assert await take(slow, 100) == events


async def test_an_object_too_large_for_etcd_is_refused_with_advice(etcd: Cluster, root: str) -> None:
    async with opened(Etcd(etcd.endpoints)) as store:
        with pytest.raises(StoreError, match="--max-request-bytes"):
            await store.create(root + "a", b"x" * 2_000_000)


async def test_when_the_space_is_used_up_the_advice_says_how_to_go_on(tmp_path: Path, root: str) -> None:
    if binary() is None:
        pytest.skip(WHY_SKIPPED)
    with Cluster(tmp_path, 1, "--quota-backend-bytes=1000000") as small:
        async with opened(Etcd(small.endpoints)) as store:
            with pytest.raises(StoreUnavailable, match="--quota-backend-bytes"):
                await fill(store, root)
            assert (await store.list(root)).items


async def fill(store: Store, root: str) -> None:
    """Write more than a small etcd takes; it counts what it holds ten times a second."""
    for index in range(1000):
        await store.create(f"{root}{index}", b"x" * 20_000)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Cluster]:
    """An etcd that speaks TLS only, and only to those with a certificate."""
    if binary() is None:
        pytest.skip(WHY_SKIPPED)
    cert, key = authority.sign("server")
    options = (f"--cert-file={cert}", f"--key-file={key}", f"--trusted-ca-file={authority.ca}", "--client-cert-auth")
    with Cluster(tmp_path_factory.mktemp("secure"), 1, *options, scheme="https") as cluster:
        yield cluster


async def test_with_certificates_both_sides_know_each_other(secure: Cluster, authority: Authority, root: str) -> None:
    cert, key = authority.sign("client")
    async with opened(Etcd(secure.endpoints), tls=Tls(authority.ca, cert, key)) as store:
        item = await store.create(root + "a", value("one"))
        async with store.watch(root, item.revision - 1) as batches:
            assert [event.item for event in await take(batches, 1)] == [item]


async def test_strangers_are_turned_away(secure: Cluster, authority: Authority, tmp_path: Path) -> None:
    strangers = Authority(tmp_path / "theirs")
    without_certificate = Tls(authority.ca)
    with_a_foreign_certificate = Tls(authority.ca, *strangers.sign("client"))
    trusting_another_authority = Tls(strangers.ca, *authority.sign("other"))

    async def is_turned_away(tls: Tls | None) -> None:
        with pytest.raises(CannotOpen, match="no etcd member answers"):
            await EtcdStore.open(secure.endpoints, tls=tls, timeout=0.5)

    ways = (without_certificate, with_a_foreign_certificate, trusting_another_authority, None)
    await asyncio.gather(*map(is_turned_away, ways))


async def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotOpen, match=r"missing\.pem cannot be read: No such file or directory"):
        await EtcdStore.open(["127.0.0.1:1"], tls=Tls(tmp_path / "missing.pem"))
