"""Every verb of the client, and every error it can end in, both ways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.client import (
    ApiError,
    Client,
    Conflict,
    Exists,
    Expired,
    Forbidden,
    Invalid,
    Missing,
    TooManyRequests,
    Unavailable,
    errors,
)
from moorage.client.client import JSON_PATCH, STRATEGIC, path
from moorage.client.transport import Answer
from tests.client.conftest import Connect
from tests.plane import api_server, create, node, pod, read

_POD, _NODE = kinds.row("v1", "Pod"), kinds.row("v1", "Node")
_CONFIG_MAP = kinds.row("v1", "ConfigMap")
_DEPLOYMENT = kinds.row("apps/v1", "Deployment")


def _config(name: str, **data: str) -> Data:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


async def test_objects_are_made_read_changed_and_deleted(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        config = msgspec.json.decode(await client.create(_CONFIG_MAP, {"metadata": {"name": "a"}}, "default"))
        assert config["kind"] == "ConfigMap"
        config["data"] = {"one": "1"}
        changed = msgspec.json.decode(await client.update(_CONFIG_MAP, config))
        assert changed["metadata"]["resourceVersion"] != config["metadata"]["resourceVersion"]
        await client.patch(_CONFIG_MAP, "default", "a", {"data": {"two": "2"}})
        await client.patch(_CONFIG_MAP, "default", "a", {"data": {"three": "3"}}, form=STRATEGIC)
        await client.patch(_CONFIG_MAP, "default", "a", [{"op": "remove", "path": "/data/one"}], form=JSON_PATCH)
        assert (await read(client, "ConfigMap", "a"))["data"] == {"two": "2", "three": "3"}
        await client.delete(_CONFIG_MAP, "default", "a")
        with pytest.raises(Missing, match='configmaps "a" not found'):
            await client.get(_CONFIG_MAP, "default", "a")


async def test_lists_are_selected_by_namespace_labels_and_fields(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        await create(client, pod("a", labels={"app": "web"}))
        await create(client, pod("b", labels={"app": "db"}))

        async def names(**chosen: str) -> list[str]:
            items = (await client.list(_POD, chosen.pop("namespace", ""), **chosen)).items
            return [msgspec.json.decode(item)["metadata"]["name"] for item in items]

        assert await names() == ["a", "b"]
        assert await names(labels="app in (web)") == ["a"]
        assert await names(fields="metadata.name=b") == ["b"]
        assert await names(namespace="kube-system") == []


async def test_a_long_list_comes_in_pages_of_one_revision(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        client.page_size = 2
        for number in range(5):
            last = await create(client, _config(f"c{number}"))
        listing = await client.list(_CONFIG_MAP, "default")
        assert [msgspec.json.decode(item)["metadata"]["name"] for item in listing.items][-5:] == [
            f"c{number}" for number in range(5)
        ]
        assert int(listing.revision) >= int(last["metadata"]["resourceVersion"])


async def test_a_watch_tells_changes_after_a_revision(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        listing = await client.list(_CONFIG_MAP)
        await create(client, _config("a"))
        await client.patch(_CONFIG_MAP, "default", "a", {"data": {"x": "y"}})
        await client.delete(_CONFIG_MAP, "default", "a")
        heard: list[str] = []
        async with aclosing(client.watch(_CONFIG_MAP, "default", after=listing.revision)) as watch:
            while len(heard) < 3:
                heard += [change.type for change in await anext(watch)]
        assert heard == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_pod_is_bound_to_a_node_once(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        await create(client, node("n"))
        created = await create(client, pod("p"))
        uid = created["metadata"]["uid"]
        await client.bind("default", "p", uid, "n")
        assert (await read(client, "Pod", "p"))["spec"]["nodeName"] == "n"
        with pytest.raises(Conflict):
            await client.bind("default", "p", uid, "n")


async def test_an_object_is_deleted_only_when_it_is_the_one_that_was_meant(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        metadata = (await create(client, pod("p")))["metadata"]
        with pytest.raises(Conflict):
            await client.delete(_POD, "default", "p", uid="another")
        with pytest.raises(Conflict):
            await client.delete(_POD, "default", "p", revision="1")
        await client.delete(_POD, "default", "p", uid=metadata["uid"], revision=metadata["resourceVersion"], grace=0)
        with pytest.raises(Missing):
            await client.delete(_POD, "default", "p")


async def test_deleting_says_what_becomes_of_what_is_owned(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        await create(client, _config("a"))
        answer = await client.delete(_CONFIG_MAP, "default", "a", propagation="Foreground")
        assert "foregroundDeletion" in msgspec.json.decode(answer)["metadata"]["finalizers"]


async def test_a_pod_is_evicted_and_a_status_written_through_their_own_doors(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        await create(client, node("n"))
        await client.patch(_NODE, "", "n", {"status": {"phase": "Running"}}, subresource="status")
        assert (await read(client, "Node", "n"))["status"]["phase"] == "Running"
        await create(client, pod("p"))
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
        await client.post(_POD, "default", "p", "eviction", eviction)
        with pytest.raises(Missing):
            await client.get(_POD, "default", "p")


async def test_what_the_server_refuses_is_an_error_of_its_kind(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        config = await create(client, _config("a"))
        with pytest.raises(Exists, match='configmaps "a" already exists'):
            await client.create(_CONFIG_MAP, _config("a"), "default")
        await client.patch(_CONFIG_MAP, "default", "a", {"data": {"x": "y"}})
        with pytest.raises(Conflict, match="the object has been modified"):
            await client.update(_CONFIG_MAP, config)
        with pytest.raises(Invalid, match=r"metadata\.name"):
            await client.create(_CONFIG_MAP, {"metadata": {"name": "Not A Name"}}, "default")
        with pytest.raises(Missing, match='namespaces "nowhere" not found'):
            await client.create(_CONFIG_MAP, {"metadata": {"name": "a"}}, "nowhere")
        with pytest.raises(ApiError, match="namespace of the provided object") as caught:
            await client.create(_CONFIG_MAP, _config("b"))
        assert caught.value.code == 400


async def test_names_are_sent_as_they_are(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        role = kinds.row("rbac.authorization.k8s.io/v1", "ClusterRole")
        await client.create(role, {"metadata": {"name": "system:a b?ü"}, "rules": []})
        assert msgspec.json.decode(await client.get(role, "", "system:a b?ü"))["metadata"]["name"] == "system:a b?ü"


def test_paths_have_group_namespace_name_and_part() -> None:
    assert path(_POD) == "/api/v1/pods"
    assert path(_POD, "a") == "/api/v1/namespaces/a/pods"
    assert path(_DEPLOYMENT, "a", "b", "scale") == "/apis/apps/v1/namespaces/a/deployments/b/scale"
    assert path(_NODE, "ignored", "n") == "/api/v1/nodes/n"


class Canned:
    """A transport that gives prepared answers."""

    def __init__(self, *answers: Answer, chunks: tuple[bytes, ...] = ()) -> None:
        self.targets: list[str] = []
        self._answers = list(answers)
        self._chunks = chunks

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        self.targets.append(target)
        return self._answers.pop(0)

    @asynccontextmanager
    async def stream(self, target: str) -> AsyncIterator[AsyncIterator[bytes]]:
        async def prepared() -> AsyncIterator[bytes]:
            for chunk in self._chunks:
                yield chunk

        yield prepared()

    async def close(self) -> None:
        return None


_GONE = b'{"kind":"Status","message":"too old","reason":"Expired","code":410}'


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (401, ApiError), (403, Forbidden), (404, Missing), (409, Conflict), (410, Expired), (422, Invalid),
        (429, TooManyRequests), (500, Unavailable), (502, Unavailable), (503, Unavailable), (504, Unavailable),
    ],
)  # fmt: skip
def test_a_code_is_an_error(code: int, error: type[ApiError]) -> None:
    caught = errors.of(code, b'{"message":"why","reason":"R","details":{"retryAfterSeconds":3}}', 9)
    assert type(caught) is error
    assert (str(caught), caught.code, caught.reason, caught.retry_after) == ("why", code, "R", 3)


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"", "the server answered 503"), (b"<html>", "<html>"), (b"{}", "the server answered 503"), (b"\xff", "�")],
)
def test_an_answer_that_is_no_status_is_told_as_it_is(body: bytes, message: str) -> None:
    caught = errors.of(503, body, 2)
    assert (str(caught), caught.retry_after) == (message, 2)


async def test_a_list_whose_pages_take_too_long_is_asked_for_in_one_piece() -> None:
    first = b'{"metadata":{"resourceVersion":"5","continue":"more"},"items":[{"a":1}]}'
    whole = b'{"metadata":{"resourceVersion":"9"},"items":[{"a":1},{"b":2}]}'
    transport = Canned(Answer(200, first), Answer(410, _GONE), Answer(200, whole))
    listing = await Client(transport).list(_POD)
    assert (listing.revision, len(listing.items)) == ("9", 2)
    assert transport.targets == [
        "/api/v1/pods?limit=5000", "/api/v1/pods?limit=5000&continue=more", "/api/v1/pods",
    ]  # fmt: skip


async def test_a_list_that_is_gone_from_the_start_is_told() -> None:
    with pytest.raises(Expired):
        await Client(Canned(Answer(410, _GONE))).list(_POD)


async def test_an_empty_list_may_be_null() -> None:
    assert (await Client(Canned(Answer(200, b'{"metadata":{},"items":null}'))).list(_POD)).items == []


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b"\xff\xfe"])
async def test_a_list_that_cannot_be_read_is_no_answer(body: bytes) -> None:
    with pytest.raises(Unavailable, match="the answer cannot be read"):
        await Client(Canned(Answer(200, body))).list(_POD)


_LINES = b'{"type":"ADDED","object":{"a":1}}\n{"type":"BOOKMARK","object":{"b":2}}\n\n{"type":"DELETED","object":{}}\n'


@pytest.mark.parametrize("size", [1, 7, 36, 1000])
async def test_a_watch_is_read_in_whatever_pieces_it_comes(size: int) -> None:
    chunks = tuple(_LINES[at : at + size] for at in range(0, len(_LINES), size))
    heard = [change.type async for batch in Client(Canned(chunks=chunks)).watch(_POD, after="1") for change in batch]
    assert heard == ["ADDED", "BOOKMARK", "DELETED"]


async def test_an_error_in_a_watch_follows_what_was_told_before() -> None:
    watch = Client(Canned(chunks=(_LINES + b'{"type":"ERROR","object":' + _GONE + b"}\n",))).watch(_POD, after="1")
    assert [change.type for change in await anext(watch)] == ["ADDED", "BOOKMARK", "DELETED"]
    with pytest.raises(Expired, match="too old"):
        await anext(watch)


async def test_a_line_that_cannot_be_read_ends_a_watch() -> None:
    watch = Client(Canned(chunks=(b"<html>\n",))).watch(_POD, after="1")
    with pytest.raises(Unavailable, match="the answer cannot be read"):
        await anext(watch)
