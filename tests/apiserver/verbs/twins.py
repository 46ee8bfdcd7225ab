"""Two servers that are asked the same: one that stores by recipes, and one that always goes the long way."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from moorage.apiserver.base.recipes import Recipes
from moorage.apiserver.run import APIServer
from moorage.client.clock import ManualClock
from tests.apiserver.asked import Asked, Data
from tests.plane import api_server

START = datetime(2026, 1, 1, tzinfo=UTC)
OWN = re.compile(rb'^{"metadata":{"resourceVersion":"\d+"|"uid":"(?!00000000)[^"]*"')


class _Twin:
    """A server of its own, asked without the UIDs, generated names and revisions of its objects."""

    def __init__(self, server: APIServer) -> None:
        self._ask = Asked(server.transport("tests"))

    async def __call__(self, method: str, path: str, sent: Data | None) -> tuple[int, bytes]:
        answer = await self._ask(method, path, sent)
        return answer.status, re.sub(rb"(?i)\bweb-[a-z0-9]{5}\b", b"", OWN.sub(b"", answer.body))


class Twins:
    """Asks both, and fails when they answer differently."""

    def __init__(self, fast: APIServer, slow: APIServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self._fast, self._slow = _Twin(fast), _Twin(slow)
        self._monkeypatch = monkeypatch
        self.replayed = 0
        """How many writes were stored by a recipe."""

    async def __call__(self, method: str, path: str, sent: Data | None) -> int:
        """The code of both answers."""
        get = Recipes.get

        def counted(recipes: Recipes, sort: Any) -> Any:
            found: Any = get(recipes, sort)
            self.replayed += found is not None
            return found

        with self._monkeypatch.context() as patched:
            patched.setattr(Recipes, "get", counted)
            outcome = await self._fast(method, path, sent)
        with self._monkeypatch.context() as patched:
            patched.setattr(Recipes, "get", lambda *_: None)
            assert await self._slow(method, path, sent) == outcome, (method, path, sent)
        return outcome[0]


@asynccontextmanager
async def twins(folder: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> AsyncIterator[Twins]:
    """Both servers, while they run."""
    async with api_server(folder / "fast", clock=clock) as fast, api_server(folder / "slow", clock=clock) as slow:
        yield Twins(fast, slow, monkeypatch)
