"""Requests as bytes on TLS connections: whole, in pieces or cut off, and what comes back."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import NamedTuple

from attack_rows.frame import NO_ANSWER, Site
from fuzzing.asking import CUT, SLOWLY, Asked

PATIENCE = 90.0
_WATCHED = 0.3
"""Seconds for which a watch is read."""
_PIECES = 8
_NO_BODY = (204, 304)


class Told(NamedTuple):
    """An answer, or why there was none."""

    status: int
    text: str


class Line:
    """One connection, opened again whenever the last answer ended it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._trust = ssl.create_default_context(cafile=site.authority)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, asked: Asked) -> Told:
        """Send a request and read the answer. A request that was cut off gets none, and status 0 with no text."""
        used = self._streams is not None
        try:
            told = await asyncio.wait_for(self._exchange(asked), PATIENCE)
        except TimeoutError:
            told = Told(NO_ANSWER, f"nothing within {PATIENCE:.0f} s")
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            told = Told(NO_ANSWER, repr(error))
        if told.status == NO_ANSWER:
            await self.close()
            if used and told.text and asked.delivery != CUT:
                # An idle connection may end at any time, with the answer to the last request or a moment later.
                return await self.ask(asked)
        return told

    async def close(self) -> None:
        if self._streams:
            self._streams[1].close()
            with suppress(OSError):
                await self._streams[1].wait_closed()
            self._streams = None

    async def _exchange(self, asked: Asked) -> Told:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.site.port, ssl=self._trust)
        reader, writer = self._streams
        content = asked.head(f"127.0.0.1:{self.site.port}", self.site.token(asked.user)) + asked.body
        if asked.delivery == CUT:
            writer.write(content[: len(content) * 2 // 3])
            await self._drained(writer)
            await self.close()
            return Told(NO_ANSWER, "")
        size = len(content) // _PIECES + 1 if asked.delivery == SLOWLY else len(content)
        for start in range(0, len(content), size):
            writer.write(content[start : start + size])
            await self._drained(writer)
            if asked.delivery == SLOWLY:
                await asyncio.sleep(0.02)
        return await self._answer(reader, asked)

    async def _drained(self, writer: asyncio.StreamWriter) -> None:
        # The server may refuse a request by its headers and stop reading: the answer is there nevertheless.
        with suppress(ConnectionError):
            await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader, asked: Asked) -> Told:
        status = 100
        while status == 100:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status = int(head.split(" ", 2)[1])
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])
        }
        if asked.method == "HEAD" or status in _NO_BODY:
            content = b""
        elif "content-length" in headers:
            content = await reader.readexactly(int(headers["content-length"]))
        else:
            content = await self._streamed(reader, asked)
        if headers.get("connection") == "close" or status == 101:
            await self.close()
        return Told(status, content.decode("utf-8", "replace"))

    async def _streamed(self, reader: asyncio.StreamReader, asked: Asked) -> bytes:
        """Chunks until the last one, or for a moment when they may come for long."""
        content = b""
        try:
            async with asyncio.timeout(_WATCHED if asked.watching else None):
                while size := int((await reader.readline()).split(b";")[0], 16):
                    content += (await reader.readexactly(size + 2))[:-2]
                await reader.readline()
        except TimeoutError:
            if not asked.watching:
                raise
            await self.close()
        return content
