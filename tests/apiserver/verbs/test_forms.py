"""Tables and bare metadata, of lists, objects and watches, in the versions that clients know."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from moorage.apiserver.http.messages import Request
from moorage.apiserver.run import APIServer
from tests.apiserver.asked import Data
from tests.plane import api_server

NAMESPACES = "/api/v1/namespaces"


async def answer(server: APIServer, path: str, form: str) -> Data:
    kind, _, version = form.partition("/")
    accept = f"application/json;as={kind};g=meta.k8s.io;v={version}"
    response = await server.transport("tests").respond(Request.of("GET", path, [("Accept", accept)], b""))
    body = response.body if response.stream is None else await anext(aiter(response.stream))
    assert isinstance(body, bytes)
    data: Data = msgspec.json.decode(body.splitlines()[-1])
    return data


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_tables_and_metadata_are_given_in_the_version_that_was_asked_for(tmp_path: Path, version: str) -> None:
    async with api_server(tmp_path) as server:
        for path, form in (
            (NAMESPACES, "Table"),
            (f"{NAMESPACES}/default", "Table"),
            (NAMESPACES, "PartialObjectMetadataList"),
            (f"{NAMESPACES}/default", "PartialObjectMetadata"),
        ):
            data = await answer(server, path, f"{form}/{version}")
            assert (data["kind"], data["apiVersion"]) == (form, f"meta.k8s.io/{version}")


async def test_the_mark_that_ends_the_first_events_of_a_watch_has_the_form_of_the_others(tmp_path: Path) -> None:
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with api_server(tmp_path) as server:
        mark = await answer(server, f"{NAMESPACES}?{query}", "PartialObjectMetadata/v1")
        assert (mark["type"], mark["object"]["kind"]) == ("BOOKMARK", "PartialObjectMetadata")
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        mark = await answer(server, f"{NAMESPACES}?{query}", "Table/v1")
        assert (mark["type"], mark["object"]["kind"]) == ("BOOKMARK", "Table")
        assert mark["object"]["columnDefinitions"] is None
        assert mark["object"]["rows"][0]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_the_first_table_of_a_watch_has_the_heads_of_the_columns(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        only = await answer(server, f"{NAMESPACES}?watch=true&fieldSelector=metadata.name=default", "Table/v1")
        assert [each["name"] for each in only["object"]["columnDefinitions"]] == ["Name", "Status", "Age"]
