"""An API server with some controllers, in the test's own event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.client import Client, Missing
from moorage.client.clock import Clock
from moorage.controllers.frame.controller import Context, Controller
from tests.controllers.waiting import eventually, started
from tests.plane import api_server, read


@asynccontextmanager
async def cluster(
    directory: Path, *made: Callable[[Context], Controller], clock: Clock | None = None
) -> AsyncIterator[Client]:
    """Start a server and these controllers, and give a client for the test."""
    async with api_server(directory) as server, started(server.client("controllers"), clock, *made):
        yield server.client("test")


@asynccontextmanager
async def controllers(client: Client, *made: Callable[[Context], Controller]) -> AsyncIterator[None]:
    """Start controllers that find what is there already."""
    async with started(client, None, *made):
        yield


async def gone(client: Client, kind: str, name: str, api_version: str = "v1", namespace: str = "default") -> None:
    """Wait until an object is no more."""

    async def missing() -> bool:
        try:
            await read(client, kind, name, namespace, api_version)
        except Missing:
            return True
        return False

    await eventually(missing)


async def becomes(
    client: Client,
    kind: str,
    name: str,
    check: Callable[[Data], Any],
    api_version: str = "v1",
    namespace: str = "default",
) -> Data:
    """Wait until an object is there and as it should be."""

    async def there() -> Data | None:
        try:
            data = await read(client, kind, name, namespace, api_version)
        except Missing:
            return None
        return data if check(data) else None

    found: Data = await eventually(there)
    return found


async def change(
    client: Client, kind: str, name: str, patch: Data, api_version: str = "v1", subresource: str = ""
) -> None:
    """Patch an object in the default namespace, or one that is in none."""
    await client.patch(kinds.row(api_version, kind), "default", name, patch, subresource=subresource)


async def remove(client: Client, kind: str, name: str, api_version: str = "v1", **options: Any) -> None:
    """Delete an object in the default namespace, or one that is in none."""
    await client.delete(kinds.row(api_version, kind), "default", name, **options)
