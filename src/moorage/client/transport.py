"""The transport of a client's requests: within the process, or over HTTPS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    retry_after: float = 0
    """How many seconds to wait before the next attempt, 0 when the server does not say."""


class Transport(Protocol):
    """A connection to an API server. Every method raises client.Unavailable while the server cannot be reached."""

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        """The answer to one request; `target` is path and query, percent-encoded."""

    def stream(self, target: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The answer to a GET as it comes, in chunks that may end anywhere. Raises ApiError unless it is a 200."""

    async def close(self) -> None:
        """Release everything."""
