"""A server that answers, for the tests that ask one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.apiserver.asked import Asked
from tests.plane import api_server


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asked]:
    async with api_server(tmp_path) as server:
        yield Asked(server.transport("tests"))
