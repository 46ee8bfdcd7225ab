"""What is long to write about the server itself is written beside the event loop, and clients cannot make it longer."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from moorage.apiserver import metrics
from moorage.apiserver.describe import openapi
from moorage.apiserver.describe.models import Models
from moorage.client.transport import Transport
from tests.plane import api_server


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Transport]:
    async with api_server(tmp_path) as running:
        yield running.transport("tests")


async def test_methods_that_clients_invent_are_counted_as_one(ask: Transport) -> None:
    for method in ("PROPFIND", "LOCK", "X", "Y" * 1000):
        await ask.request(method, "/api/v1/namespaces/default/configmaps")
    text = (await ask.request("GET", "/metrics")).body.decode()
    counted = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
    assert [line.rpartition(" ")[2] for line in counted if 'verb="other"' in line] == ["4.0"]


async def test_metrics_and_descriptions_are_written_in_threads(ask: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def noted(work: Callable[..., Any]) -> Callable[..., Any]:
        def note(*args: Any) -> Any:
            threads.append(threading.current_thread())
            return work(*args)

        return note

    openapi.description.cache_clear()
    monkeypatch.setattr(metrics, "generate_latest", noted(generate_latest))
    monkeypatch.setattr(openapi, "Models", noted(Models))
    for path in ("/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"):
        assert (await ask.request("GET", path)).status == 200
    assert len(threads) == 2
    assert threading.current_thread() not in threads


async def test_a_path_below_the_metrics_is_not_worth_writing_them(
    ask: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(metrics, "generate_latest")
    assert (await ask.request("GET", "/metrics/more")).status == 404
