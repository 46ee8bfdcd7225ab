"""Who asks for YAML is answered in YAML."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from moorage.apiserver.http.messages import Request, Response
from tests.apiserver.asked import JSON, YAML
from tests.plane import api_server

MAPS = "/api/v1/namespaces/default/configmaps"
TEXTS = {"yes": "no", "number": "007", "time": "2026-01-01T00:00:00Z", "lines": "a\n b\n", "umlaut": "Größe " * 40}

Asking = Callable[..., Awaitable[Response]]


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asking]:
    async with api_server(tmp_path) as server:

        async def asked(method: str, path: str, accept: str = YAML, sent: Any = None) -> Response:
            body = msgspec.json.encode(sent) if sent is not None else b""
            headers = [("Accept", accept), ("Content-Type", JSON)]
            return await server.transport("tests").respond(Request.of(method, path, headers, body))

        await asked("POST", MAPS, sent={"metadata": {"name": "texts"}, "data": TEXTS})
        yield asked


def whole(response: Response) -> bytes:
    return response.body if isinstance(response.body, bytes) else b"".join(response.body)


@pytest.mark.parametrize("path", [f"{MAPS}/texts", MAPS, f"{MAPS}/missing", "/api", "/apis/apps/v1", "/nowhere"])
async def test_yaml_says_what_json_says(ask: Asking, path: str) -> None:
    in_yaml, in_json = await ask("GET", path), await ask("GET", path, JSON)
    assert in_yaml.status == in_json.status
    assert (dict(in_yaml.headers)["Content-Type"], dict(in_json.headers)["Content-Type"]) == (YAML, JSON)
    assert yaml.safe_load(whole(in_yaml)) == msgspec.json.decode(whole(in_json))


async def test_what_is_written_is_told_in_yaml_with_its_warnings(ask: Asking) -> None:
    container = {"name": "a", "image": "a", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [container]}}
    made = await ask("POST", "/api/v1/namespaces/default/pods", sent=pod)
    assert made.status == 201
    assert "Warning" in dict(made.headers)
    assert yaml.safe_load(whole(made))["metadata"]["name"] == "web"


async def test_texts_are_plain_to_read(ask: Asking) -> None:
    text = whole(await ask("GET", f"{MAPS}/texts")).decode()
    assert TEXTS["umlaut"].strip() in text
    assert text.startswith("apiVersion: v1\n")


async def test_a_stream_of_changes_is_not_to_be_had_in_yaml(ask: Asking) -> None:
    refused = await ask("GET", f"{MAPS}?watch=1")
    assert refused.status == 406
    assert "application/json" in yaml.safe_load(whole(refused))["message"]


async def test_what_is_no_json_stays_as_it_is(ask: Asking) -> None:
    assert whole(await ask("GET", "/healthz")) == b"ok"
