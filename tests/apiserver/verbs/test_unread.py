"""Lists and watches are made while they are read: a client that does not read holds little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import pytest

from moorage.apiserver.base import pacing
from moorage.apiserver.base.objects import decoded
from moorage.apiserver.base.pacing import Round
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.run import APIServer
from moorage.apiserver.verbs import watch
from moorage.apiserver.verbs.read import body_of
from moorage.store.protocol import HEAD, Item
from tests.plane import api_server

MAPS = "/api/v1/namespaces/default/configmaps"
COUNT = 300
T = TypeVar("T")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[APIServer]:
    async with api_server(tmp_path) as running:
        ask = running.transport("tests")
        for number in range(COUNT):
            body = {"metadata": {"name": f"map-{number:03}"}, "data": {"text": "x" * 3000}}
            await ask.request("POST", MAPS, msgspec.json.encode(body), "application/json")
        yield running


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the JSON of an object was made for a client."""
    count = [0]

    def body(item: Item) -> bytes:
        count[0] += 1
        return b"%b%d%b" % (HEAD, item.revision, item.value[len(HEAD) :])

    monkeypatch.setattr(Item, "body", property(body))
    return count


async def get(server: APIServer, target: str, accept: str = "") -> Response:
    headers = [("Accept", accept)] if accept else []
    return await server.transport("tests").respond(Request.of("GET", target, headers))


async def test_a_long_list_is_made_while_it_is_read(server: APIServer, made: list[int]) -> None:
    response = await get(server, MAPS)
    assert not isinstance(response.body, bytes)
    parts = iter(response.body)
    begin = next(parts) + next(parts)
    assert made[0] < 30
    rest = b"".join(parts)
    names = [item["metadata"]["name"] for item in msgspec.json.decode(begin + rest)["items"]]
    assert names[-COUNT:] == [f"map-{number:03}" for number in range(COUNT)]
    assert made[0] == len(names)


@pytest.mark.parametrize("form", ["Table", "PartialObjectMetadataList"])
async def test_so_are_tables_and_metadata(server: APIServer, form: str) -> None:
    response = await get(server, MAPS, f"application/json;as={form};g=meta.k8s.io;v=v1")
    assert not isinstance(response.body, bytes)
    data = msgspec.json.decode(b"".join(response.body))
    assert data["kind"] == form
    assert len(data["rows" if form == "Table" else "items"]) >= COUNT


async def test_a_short_list_has_a_length(server: APIServer) -> None:
    response = await get(server, f"{MAPS}?limit=5")
    assert isinstance(response.body, bytes)
    assert len(msgspec.json.decode(response.body)["items"]) == 5


async def test_the_first_events_of_a_watch_are_made_while_they_are_read(server: APIServer, made: list[int]) -> None:
    response = await get(server, f"{MAPS}?watch=1")
    assert response.stream is not None
    assert made[0] == 0
    piece = await anext(response.stream)
    assert 64 << 10 <= len(piece) < 128 << 10
    assert made[0] < 30
    lines = piece.count(b"\n")
    while lines < COUNT:
        lines += (await anext(response.stream)).count(b"\n")


async def test_a_watcher_that_was_away_gets_changes_in_pieces(server: APIServer) -> None:
    first = msgspec.json.decode((await server.transport("tests").request("GET", f"{MAPS}/map-000")).body)
    response = await get(server, f"{MAPS}?watch=1&resourceVersion={first['metadata']['resourceVersion']}")
    assert response.stream is not None
    seen = 0
    while seen < COUNT - 1:
        piece = await anext(response.stream)
        assert len(piece) < 512 << 10
        seen += piece.count(b"\n")
    assert seen == COUNT - 1


async def test_others_are_served_while_objects_are_compared_with_a_selector(
    server: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "SLICE", -1.0)  # any time is too long
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    await get(server, f"{MAPS}?labelSelector=a=b")
    assert turns >= COUNT // 100
    beside.cancel()


async def test_many_who_list_everything_take_turns(server: APIServer) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    lists = [asyncio.create_task(get(server, MAPS)) for _ in range(20)]
    beside = asyncio.create_task(others())
    await asyncio.gather(*lists)
    assert turns >= 5
    beside.cancel()


async def test_a_list_that_is_too_long_for_yaml_is_refused_with_a_way_out(
    server: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage.apiserver.describe.yamlanswers._LONGEST", 200 << 10)
    response = await get(server, MAPS, "application/yaml")
    assert response.status == 406
    assert isinstance(response.body, bytes)
    assert "with the parameter limit" in msgspec.json.decode(response.body)["message"]
    assert (await get(server, f"{MAPS}?limit=10", "application/yaml")).status == 200


async def test_reviews_documents_and_flow_control_are_counted(server: APIServer) -> None:
    ask = server.transport("tests")
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    await ask.request("POST", path, msgspec.json.encode(review), "application/json")
    await ask.request("GET", "/version")
    await ask.request("GET", "/nowhere/at/all")
    text = (await ask.request("GET", "/metrics")).body.decode()
    counted = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
    assert any('resource="selfsubjectaccessreviews"' in line and 'code="201"' in line for line in counted)
    assert any('subresource="/version"' in line and 'verb="GET"' in line for line in counted)
    assert any('code="404"' in line and 'subresource=""' in line for line in counted)
    assert not any("nowhere" in line for line in counted)
    for name in ("current_executing_requests", "current_inqueue_requests", "rejected_requests_total"):
        assert f'apiserver_flowcontrol_{name}{{priority_level="workload"}} 0.0' in text


@pytest.mark.parametrize(
    ("query", "accept"), [("labelSelector=!a{}", ""), ("a={}", "application/json;as=Table;v=v1;g=meta.k8s.io")]
)
@pytest.mark.parametrize("since", ["", "&resourceVersion={}"])
async def test_what_watches_must_be_told_of_the_past_is_made_in_rounds(
    server: APIServer, monkeypatch: pytest.MonkeyPatch, query: str, accept: str, since: str
) -> None:
    """However many watches begin at once, little is done between two answers to others."""
    monkeypatch.setattr(watch, "_AT_ONCE", 0.0)  # one object in each piece
    moments = count(step=pacing.SLICE / 4)
    monkeypatch.setattr(pacing, "Round", lambda: Round(lambda: next(moments)))
    made, watches = [0], 20

    def counted(work: Callable[..., T]) -> Callable[..., T]:
        def do(*args: Any, **more: Any) -> T:
            made[0] += 1
            return work(*args, **more)

        return do

    monkeypatch.setattr(watch, "decoded", counted(decoded))
    monkeypatch.setattr(watch, "body_of", counted(body_of))
    first = (await get(server, f"{MAPS}/map-000")).body
    assert isinstance(first, bytes)
    revision = msgspec.json.decode(first)["metadata"]["resourceVersion"]

    async def read(number: int) -> int:
        target = f"{MAPS}?watch=1&timeoutSeconds=3600&{query.format(number)}{since.format(revision)}"
        stream = (await get(server, target, accept)).stream
        assert stream is not None
        lines = 0
        async with aclosing(cast(Any, stream)):
            async for piece in stream:
                lines += piece.count(b"\n")
                if lines >= COUNT - 1:
                    break
        return lines

    reading = asyncio.gather(*map(read, range(watches)))
    most = 0
    while not reading.done():
        before = made[0]
        await asyncio.sleep(0)
        most = max(most, made[0] - before)
    assert set(await reading) <= {COUNT - 1, COUNT, COUNT + 1}
    assert made[0] >= watches * (COUNT - 1)
    assert most <= 10
