"""Lists and watches are made while they are read: a client that does not read holds little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from moorage.apiserver.base import pacing
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.run import APIServer
from moorage.store.protocol import HEAD, Item
from tests.plane import api_server

MAPS = "/api/v1/namespaces/default/configmaps"
COUNT = 300


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
