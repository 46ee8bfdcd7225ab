"""Informers know what is there and hear of every change, whatever happens to the server and the way to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.pod import Pod
from moorage.apiserver.run import start
from moorage.client import Client, Informer, Informers, Missing, Unavailable, errors
from moorage.client.clock import Clock
from moorage.client.https import HTTPSTransport
from moorage.client.kubeconfig import load
from moorage.client.transport import Answer
from moorage.features import ALL_ON
from tests.client.conftest import Connect
from tests.client.nowait import NoWait
from tests.plane import Data, api_server, create, eventually, pod
from tests.store.proxy import Proxy

_POD = kinds.row("v1", "Pod")
Heard = list[tuple[str | None, str | None]]


def _name(item: Pod | None) -> str | None:
    return item.metadata.name if item else None


def _told(pods: Informer[Pod]) -> Heard:
    heard: Heard = []
    pods.on_change(lambda old, new: heard.append((_name(old), _name(new))))
    return heard


class Mirror:
    """What a handler knows when it believes every word: it must never be contradicted."""

    def __init__(self, pods: Informer[Pod]) -> None:
        self.known: dict[str, Pod] = {}
        self.pods = pods
        self.wrong: list[str] = []
        pods.on_change(self._heard)

    def _heard(self, old: Pod | None, new: Pod | None) -> None:
        name = _name(old) or _name(new) or ""
        before = self.known.pop(name, None)
        if (old is None) != (before is None) or (old and before and old.metadata.uid != before.metadata.uid):
            self.wrong.append(f"{name}: {before} before, {old} told")
        if new is not None:
            if before and int(before.metadata.resource_version) >= int(new.metadata.resource_version):
                self.wrong.append(f"{name} went back")
            self.known[name] = new

    async def equals(self, client: Client) -> bool:
        listed = [msgspec.json.decode(item, type=Pod) for item in (await client.list(_POD)).items]
        there = {item.metadata.name: item for item in listed}
        return self.known == there == {item.metadata.name: item for item in self.pods}


async def test_an_informer_follows_additions_changes_and_deletions(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        await create(client, pod("before"))
        informers = Informers(client)
        pods = informers.of(Pod)
        assert informers.of(Pod) is pods
        pods.index("app", lambda item: [item.metadata.labels.get("app", "")])
        heard = _told(pods)
        await informers.start()
        assert [item.metadata.name for item in pods] == ["before"]

        await create(client, pod("after", labels={"app": "web"}))

        async def there() -> bool:
            return pods.get("default", "after") is not None

        await eventually(there)
        assert [item.metadata.name for item in pods.by("app", "web")] == ["after"]
        await client.patch(_POD, "default", "after", {"metadata": {"labels": {"app": "db"}}})

        async def moved() -> bool:
            return not list(pods.by("app", "web")) and bool(list(pods.by("app", "db")))

        await eventually(moved)
        await client.delete(_POD, "default", "after", grace=0)

        async def gone() -> bool:
            return len(pods) == 1

        await eventually(gone)
        assert heard == [(None, "before"), (None, "after"), ("after", "after"), ("after", None)]
        await informers.stop()


async def test_components_of_one_process_share_the_objects_that_they_hear_of(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        several = [Informers(server.client(component)) for component in ("scheduler", "controllers")]
        first, second = (informers.of(Pod) for informers in several)
        for informers in several:
            await informers.start()
        for number in range(20):
            await create(server.client("tests"), pod(f"web-{number}"))

        async def known() -> bool:
            return len(first) == len(second) == 20

        await eventually(known)
        shared = [item for item in first if second.get("default", item.metadata.name) is item]
        assert len(shared) == 20
        for informers in several:
            await informers.stop()


async def test_a_change_between_list_and_watch_is_not_missed(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        listing = await client.list(_POD)
        await create(client, pod("between"))
        async with aclosing(client.watch(_POD, after=listing.revision)) as watch:
            (change,) = await anext(watch)
        assert (change.type, msgspec.json.decode(change.object)["metadata"]["name"]) == ("ADDED", "between")


async def test_one_who_has_written_can_wait_until_it_is_seen(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        informers = Informers(client)
        pods = informers.of(Pod)
        await informers.start()

        async def write(number: int) -> None:
            created = await create(client, pod(f"p{number}"))
            assert await pods.caught_up(created["metadata"]["resourceVersion"])
            assert pods.get("default", f"p{number}")

        await asyncio.gather(*(write(number) for number in range(50)))
        assert not await pods.caught_up("999999999", 0.01)
        assert not await pods.caught_up("no number")
        await informers.stop()


async def test_a_server_that_restarts_is_listed_anew_and_no_deletion_is_lost(tmp_path: Path) -> None:
    first = await start(tmp_path, "sqlite", ALL_ON, "127.0.0.1", 0)
    port = int(first.url.rpartition(":")[2])
    client = Client(HTTPSTransport(load(first.kubeconfig), "test"))
    for name in ("kept", "deleted", "replaced"):
        await create(client, pod(name))
    informers = Informers(client)
    pods = informers.of(Pod)
    mirror, heard = Mirror(pods), _told(pods)
    await informers.start()
    await pods.caught_up((await create(client, pod("last")))["metadata"]["resourceVersion"])
    old = pods.get("default", "replaced")
    heard.clear()
    await first.stop(1)
    # A second server makes the changes, and a third does not remember them.
    for _ in range(2):
        async with api_server(tmp_path) as between:
            own = between.client("test")
            with suppress(Missing):
                await own.delete(_POD, "default", "deleted", grace=0)
            await own.delete(_POD, "default", "replaced", grace=0)
            await create(own, pod("replaced"))
    last = await start(tmp_path, "sqlite", ALL_ON, "127.0.0.1", port)

    async def same() -> bool:
        try:
            return await mirror.equals(client)
        except Unavailable:
            return False

    await eventually(same)
    assert sorted(heard, key=str) == sorted([("replaced", None), (None, "replaced"), ("deleted", None)], key=str)
    new = pods.get("default", "replaced")
    assert old is not None
    assert new is not None
    assert old.metadata.uid != new.metadata.uid
    assert mirror.wrong == []
    await informers.stop()
    await client.close()
    await last.stop(1)


async def test_connections_that_are_cut_in_the_middle_of_a_watch_lose_nothing(tmp_path: Path) -> None:
    dice = random.Random(7)
    async with api_server(tmp_path) as server, Proxy(server.url.removeprefix("https://")) as proxy:
        kubeconfig = tmp_path / "through-the-proxy"
        kubeconfig.write_text(server.kubeconfig.read_text().replace(server.url, f"https://{proxy.endpoint}"))
        client, own = Client(HTTPSTransport(load(kubeconfig), "test")), server.client("writer")
        informers = Informers(client)
        pods = informers.of(Pod)
        mirror = Mirror(pods)
        await informers.start()
        alive: set[str] = set()
        for number in range(150):
            name = f"p{dice.randrange(12)}"
            if name not in alive:
                await create(own, pod(name))
                alive.add(name)
            elif dice.random() < 0.4:
                await own.delete(_POD, "default", name, grace=0)
                alive.remove(name)
            else:
                await own.patch(_POD, "default", name, {"metadata": {"labels": {"n": str(number)}}})
            if number % 15 == 0:
                await proxy.cut()
                proxy.mend()
        await eventually(lambda: mirror.equals(own))
        assert mirror.wrong == []
        await informers.stop()
        await client.close()


class Played:
    """A server that is played by the test: what it lists, and what its watches say."""

    def __init__(self, *watches: list[Data | Exception | str]) -> None:
        self.objects: list[Data] = []
        self.listings: list[list[Data]] = []
        """What is listed first, before `objects`."""
        self.lists = 0
        self.watches = list(watches)
        self.after: list[str] = []
        self.played = asyncio.Event()

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        self.lists += 1
        items = self.listings.pop(0) if self.listings else self.objects
        listed = {"metadata": {"resourceVersion": "10"}, "items": items}
        return Answer(200, msgspec.json.encode(listed))

    @asynccontextmanager
    async def stream(self, target: str) -> AsyncIterator[AsyncIterator[bytes]]:
        self.after.append(target.partition("resourceVersion=")[2].partition("&")[0])
        yield self._said()

    async def _said(self) -> AsyncIterator[bytes]:
        if not self.watches:
            self.played.set()
            await asyncio.Event().wait()
        for line in self.watches.pop(0):
            if isinstance(line, Exception):
                raise line
            yield line.encode() if isinstance(line, str) else msgspec.json.encode(line) + b"\n"

    async def close(self) -> None:
        return None


def _object(name: str, revision: int, uid: str = "", **more: Any) -> Data:
    metadata = {"name": name, "namespace": "default", "uid": uid or name, "resourceVersion": str(revision)}
    return {"metadata": {**metadata, **more.pop("metadata", {})}, **more}


def _event(type_: str, name: str, revision: int, uid: str = "", **more: Any) -> Data:
    return {"type": type_, "object": _object(name, revision, uid, **more)}


_UNREADABLE: Data = {"spec": {"nodeName": 7}}
_GONE: Exception = errors.of(410, b'{"message":"too old","reason":"Expired"}')


async def _played(
    server: Played, clock: Clock | None = None, **indexes: Callable[[Pod], list[str]]
) -> tuple[Informer[Pod], Heard]:
    pods: Informer[Pod] = Informer(Client(server), _POD, clock=clock)
    for name, keys in indexes.items():
        pods.index(name, keys)
    heard = _told(pods)
    task = asyncio.create_task(pods.run())
    await asyncio.wait_for(server.played.wait(), 120)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return pods, heard


async def test_events_are_told_in_the_order_in_which_they_came() -> None:
    events = [
        _event("ADDED", "a", 11), _event("ADDED", "b", 12), _event("MODIFIED", "a", 13), _event("DELETED", "b", 14),
        _event("ADDED", "b", 15, "another"), _event("DELETED", "a", 16),
    ]  # fmt: skip
    _, heard = await _played(Played([*events]))
    assert heard == [(None, "a"), (None, "b"), ("a", "a"), ("b", None), (None, "b"), ("a", None)]


async def test_a_watch_goes_on_where_the_last_one_ended() -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "30", "creationTimestamp": None}}}
    server = Played([_event("ADDED", "a", 11)], [bookmark], [Unavailable(503, "", "cut")], ['{"type":"ADDED","obj'])
    pods, heard = await _played(server)
    assert server.after == ["10", "11", "30", "30", "30"]
    assert server.lists == 1
    assert heard == [(None, "a")]
    assert await pods.caught_up("30")


async def test_a_revision_too_old_leads_to_a_new_list_and_deletions_are_told() -> None:
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
    server = Played([_event("ADDED", "b", 11), error], [_GONE])
    server.objects = [_object("a", 5)]
    pods, heard = await _played(server)
    assert server.lists == 3
    assert heard == [(None, "a"), (None, "b"), ("b", None)]
    assert len(pods) == 1


async def test_an_object_that_was_replaced_is_told_as_deleted_and_added() -> None:
    server = Played([_event("MODIFIED", "a", 12, "second")])
    server.objects = [_object("a", 5, "first", metadata={"labels": {"app": "x"}})]
    pods, heard = await _played(server, app=lambda item: list(item.metadata.labels.values()))
    assert heard == [(None, "a"), ("a", None), (None, "a")]
    assert list(pods.by("app", "x")) == []


async def test_an_object_that_cannot_be_read_is_left_out_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Played([_event("ADDED", "worse", 11, **_UNREADABLE), _event("ADDED", "good", 12)])
    server.objects = [_object("bad", 5, **_UNREADABLE), _object("fine", 6)]
    pods, heard = await _played(server)
    assert heard == [(None, "fine"), (None, "good")]
    assert (
        '"Object cannot be read" resource="pods" object="default/bad" err="spec.nodeName: expected a string'
        in caplog.text
    )
    assert await pods.caught_up("12")


async def test_of_an_object_that_becomes_unreadable_the_last_readable_state_is_kept() -> None:
    spec: Data = {"spec": {"nodeName": "n"}}
    server = Played([_event("MODIFIED", "a", 11, **_UNREADABLE)], [_GONE], [_event("DELETED", "b", 21, **_UNREADABLE)])
    server.listings = [
        [_object("a", 5, **spec), _object("b", 6, **spec)],
        [_object("a", 11, **_UNREADABLE), _object("b", 6, **_UNREADABLE)],
    ]
    pods, heard = await _played(server)
    kept = pods.get("default", "a")
    assert kept
    assert kept.spec.node_name == "n"
    assert heard == [(None, "a"), (None, "b"), ("b", None)]


async def test_an_unreadable_object_in_the_place_of_another_ends_the_other() -> None:
    server = Played([_event("MODIFIED", "a", 11, "second", **_UNREADABLE)])
    server.objects = [_object("a", 5, "first")]
    pods, heard = await _played(server)
    assert heard == [(None, "a"), ("a", None)]
    assert len(pods) == 0


async def test_an_event_that_is_no_object_at_all_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    strange = {"type": "ADDED", "object": {"metadata": "strange"}}
    _, heard = await _played(Played([strange, _event("ADDED", "a", 11)]))
    assert heard == [(None, "a")]
    assert "Object cannot be read" in caplog.text


async def test_fields_that_are_null_count_as_absent() -> None:
    server = Played()
    server.objects = [_object("a", 5, metadata={"labels": None}, spec={"tolerations": None})]
    pods, _ = await _played(server)
    assert [item.spec.tolerations for item in pods] == [()]


async def test_an_index_holds_what_is_there_and_nothing_else() -> None:
    def labelled(*apps: str) -> Data:
        return {"metadata": {"labels": {app: app for app in apps}}}

    server = Played([
        _event("ADDED", "a", 11, **labelled("x", "y")), _event("ADDED", "b", 12, **labelled("y")),
        _event("MODIFIED", "a", 13, **labelled("y", "z")),
        # A watch of selected objects tells the last state of one that is selected no longer: its labels are others.
        _event("DELETED", "b", 14, **labelled("other")),
    ])  # fmt: skip
    pods, _ = await _played(server, app=lambda item: list(item.metadata.labels))
    assert {key: [_name(item) for item in pods.by("app", key)] for key in ("x", "y", "z", "other")} == {
        "x": [], "y": ["a"], "z": ["a"], "other": [],
    }  # fmt: skip
    assert set(pods.index_keys("app")) == {"y", "z"}


async def test_a_handler_that_fails_keeps_the_news_from_nobody(caplog: pytest.LogCaptureFixture) -> None:
    server = Played([_event("ADDED", "a", 11)])
    pods: Informer[Pod] = Informer(Client(server), _POD)

    def fail(*_: Any) -> None:
        raise ValueError("my own fault")

    batches: list[int] = []
    pods.on_change(fail)
    pods.on_batch(fail)
    heard = _told(pods)
    pods.on_batch(lambda: batches.append(len(pods)))
    task = asyncio.create_task(pods.run())
    await asyncio.wait_for(server.played.wait(), 120)
    task.cancel()
    assert heard == [(None, "a")]
    assert batches == [0, 1]
    assert "my own fault" in caplog.text


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_hot_loop() -> None:
    ends: list[list[Data | Exception | str]] = [[]] * 4 + [[_GONE]] * 8
    await _played(Played(*ends), clock := NoWait())
    assert clock.waits[0] == 0
    assert all(0.05 <= wait <= 15 for wait in clock.waits[1:])
    assert max(clock.waits[-2:]) > 5


async def test_an_event_makes_the_next_attempt_quick_again() -> None:
    cut = Unavailable(503, "", "cut")
    later = Unavailable(503, "", "later", retry_after=33)
    await _played(Played([cut], [cut], [cut], [_event("ADDED", "a", 11), cut], [later]), clock := NoWait())
    assert [wait > 0 for wait in clock.waits] == [False, True, True, False, True]
    assert clock.waits[-1] == 33


async def test_an_error_nobody_thought_of_does_not_end_an_informer(caplog: pytest.LogCaptureFixture) -> None:
    _, heard = await _played(Played([ValueError("a bug")], [_event("ADDED", "a", 11)]))
    assert heard == [(None, "a")]
    assert "a bug" in caplog.text


async def test_informers_that_are_asked_for_later_can_be_started_later() -> None:
    server = Played()
    informers = Informers(Client(server))
    informers.kind(_POD)
    await informers.start()
    informers.kind(kinds.row("v1", "ConfigMap"))
    await informers.start()
    assert server.lists == 2
    await informers.stop()


class Refusing(Played):
    """A server that lets nobody list anything."""

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        self.lists += 1
        if self.lists == 3:
            self.played.set()
            await asyncio.Event().wait()
        return Answer(403, b'{"reason":"Forbidden","message":"not you"}')


@pytest.mark.parametrize(
    ("kind", "said", "is_optional"),
    [
        (kinds.row("resource.k8s.io/v1", "ResourceSlice"), ['"Resource may not be listed, taken for empty"'], True),
        (kinds.row("v1", "Pod"), ['"Watch failed"'] * 2, False),
    ],
)
async def test_devices_that_may_not_be_listed_count_as_absent_and_other_kinds_do_not(
    kind: Kind, said: list[str], is_optional: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = Refusing()
    informer: Informer[Any] = Informer(Client(server), kind, clock=NoWait())
    task = asyncio.create_task(informer.run())
    await asyncio.wait_for(server.played.wait(), 120)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert informer.synced.is_set() is is_optional
    assert [record.getMessage().partition(" resource=")[0] for record in caplog.records] == said


async def test_whoever_follows_a_kind_that_is_absent_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    client, kind = Client(Refusing()), kinds.row("resource.k8s.io/v1", "DeviceTaintRule")
    informers: list[Informer[Any]] = [Informer(client, kind, clock=NoWait()) for _ in range(2)]
    tasks = [asyncio.create_task(each.run()) for each in informers]
    for each in informers:
        await each.synced.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(caplog.records) == 1
