"""Whether the API server of the cluster answers: without it, what the page shows is the last that was known."""

from __future__ import annotations

import asyncio

from moorage.client import ApiError, Client

LOOK_SECONDS = 3.0
_UNAVAILABLE = 500


class ServerReach:
    """Asks the API server for its version now and then, once somebody has opened a page."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.problem = ""
        """Why it does not answer; empty when it does."""
        self._looking: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to look, unless that has begun already."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="page reach")

    async def stop(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    answer = await self._client.transport.request("GET", "/version")
                # A server that refuses to say its version is there.
                self.problem = f"it says {answer.status}" if answer.status >= _UNAVAILABLE else ""
            except TimeoutError:
                self.problem = f"no answer within {LOOK_SECONDS:g} s"
            except ApiError as error:
                self.problem = str(error)
            await asyncio.sleep(LOOK_SECONDS)
