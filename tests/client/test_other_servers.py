"""Beside an API server that has a kind in an older version only, or not at all, components work all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from moorage.api import kinds
from moorage.api.resource import DeviceTaintRule
from moorage.client import Client, Informer, Missing
from moorage.client.clock import ManualClock
from moorage.client.transport import Answer, Transport
from tests.plane import api_server, create, eventually

RULES = kinds.row("resource.k8s.io/v1", "DeviceTaintRule")
RULE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "broken"},
    "spec": {"deviceSelector": {"pool": "p"}, "taint": {"key": "broken", "effect": "NoExecute"}},
}
NOT_FOUND = (
    b'{"kind":"Status","code":404,"reason":"NotFound","message":"the server could not find the requested resource"}'
)


class Other:
    """A server that does not have what begins with some paths."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.absent: tuple[str, ...] = ()
        self.refused = 0

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        if target.startswith(self.absent):
            self.refused += 1
            return Answer(404, NOT_FOUND)
        return await self._transport.request(method, target, body, content_type)

    def stream(self, target: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        assert not target.startswith(self.absent)
        return self._transport.stream(target)

    async def close(self) -> None:
        await self._transport.close()


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Other]:
    async with api_server(tmp_path) as server:
        client = server.client("tests")
        await create(client, RULE)
        yield Other(client.transport)


async def test_a_kind_in_an_older_version_is_found_and_written_there(other: Other) -> None:
    other.absent = ("/apis/resource.k8s.io/v1/", "/apis/resource.k8s.io/v1beta2/")
    client = Client(other)
    rules: Informer[DeviceTaintRule] = Informer(client, RULES)
    task = asyncio.create_task(rules.run())
    await rules.synced.wait()
    assert [rule.metadata.name for rule in rules] == ["broken"]
    await client.patch(RULES, "", "broken", {"metadata": {"labels": {"seen": "yes"}}})

    async def is_told() -> bool:
        rule = rules.get("", "broken")
        return rule is not None and rule.metadata.labels == {"seen": "yes"}

    await eventually(is_told)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_kind_that_the_server_does_not_have_is_empty(other: Other, caplog: pytest.LogCaptureFixture) -> None:
    other.absent = ("/apis/resource.k8s.io/",)
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    rules: Informer[DeviceTaintRule] = Informer(Client(other), RULES, clock=clock)
    task = asyncio.create_task(rules.run())
    await rules.synced.wait()
    assert not len(rules)
    for _ in range(3):
        asked = other.refused

        async def asked_again(before: int = asked) -> bool:
            clock.advance(30)
            return other.refused > before

        await eventually(asked_again)
    assert len(caplog.records) == 1, "it is said once, not each time"
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_when_no_version_is_there_the_next_try_begins_with_the_first(other: Other) -> None:
    client = Client(other)
    other.absent = ("/apis/resource.k8s.io/",)
    with pytest.raises(Missing):
        await client.list(RULES)
    other.absent = ("/apis/resource.k8s.io/v1beta2/", "/apis/resource.k8s.io/v1alpha3/")
    assert len((await client.list(RULES)).items) == 1
