"""Why a pod is not placed is written one by one, and what is out of date by then is not written at all."""

from __future__ import annotations

import asyncio
from typing import Any

from moorage.api.pod import Pod
from moorage.client import Client
from moorage.client.clock import Clock
from moorage.features import ALL_ON
from moorage.scheduler.statuswriter import StatusWriter
from moorage.scheduler.table.shape import Shapes


class SlowClient(Client):
    """Holds every write until it is let go."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.go = asyncio.Semaphore(0)

    async def patch(self, *what: Any, **how: Any) -> bytes:
        self.written.append(what[3]["status"]["conditions"][0]["message"])
        await self.go.acquire()
        return b""


async def test_of_a_thousand_reasons_the_first_and_the_last_are_written() -> None:
    client = SlowClient()
    writer = StatusWriter(client, Clock())
    info = Shapes(ALL_ON).assigned(Pod())
    tasks = [asyncio.create_task(writer.write(info, f"reason {number}", "")) for number in range(1000)]
    while sum(task.done() for task in tasks) < 999:
        await asyncio.sleep(0)
    assert client.written == ["reason 0"]
    client.go.release()
    client.go.release()
    await asyncio.gather(*tasks)
    assert client.written == ["reason 0", "reason 999"]
    client.go.release()
    await writer.write(info, "reason 1000", "")
    assert client.written[2:] == ["reason 1000"]
