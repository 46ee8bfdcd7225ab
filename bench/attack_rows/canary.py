"""Honest users beside an attack: an administrator who reads and a tenant who writes, in a process of their own."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

from serving import processor_seconds, waited_seconds

PAUSE = 0.02
PATIENCE = 60.0
FREEZE = 0.25
"""Seconds: an answer that takes longer is slow."""


class SlowAnswer(NamedTuple):
    """An answer to the administrator that took long."""

    start: float
    seconds: float
    processor: float
    """Seconds of processor time that the server used meanwhile."""
    waited: float
    """Seconds in which the event loop of the server, or who asked it, was ready to run and had no processor."""

    @property
    def own(self) -> float:
        """The seconds that a machine with nothing else to do would have needed too."""
        return self.seconds - self.waited

    def overlaps(self, other: SlowAnswer) -> bool:
        """Whether one was waited for while the other was."""
        return self.start < other.start + other.seconds and other.start < self.start + self.seconds


@dataclass
class Seen:
    """What honest users were answered."""

    freeze: float = 0.0
    """The longest that the administrator waited for an answer, in seconds."""
    served: int = 0
    failed: int = 0
    slow: list[SlowAnswer] = field(default_factory=list)


class Honest:
    """One user with a connection, who asks one question again and again."""

    def __init__(self, port: int, authority: str, token: str, server: int) -> None:
        self.port = port
        self.server = server
        self.slow: list[SlowAnswer] = []
        self.trust = ssl.create_default_context(cafile=authority)
        self.token = token
        self.connection: http.client.HTTPSConnection | None = None
        self.longest = 0.0
        self.served = self.failed = self.count = 0

    def ask(self, method: str, path: str, body: str | None = None) -> None:
        head = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/merge-patch+json"}
        start, used, waited = time.monotonic(), processor_seconds(self.server), self._waited()
        try:
            if self.connection is None:
                self.connection = http.client.HTTPSConnection(
                    "127.0.0.1", self.port, context=self.trust, timeout=PATIENCE
                )
            self.connection.request(method, path, body, head)
            answer = self.connection.getresponse()
            answer.read()
            served = answer.status < 400
        except (OSError, http.client.HTTPException):
            served, self.connection = False, None
        taken = time.monotonic() - start
        self.longest = max(self.longest, taken)
        if taken >= FREEZE:
            used, waited = processor_seconds(self.server) - used, self._waited() - waited
            self.slow.append(SlowAnswer(start, taken, used, waited))
        self.served += served
        self.failed += not served

    def _waited(self) -> float:
        own = int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
        return own + waited_seconds(self.server)

    def read(self) -> None:
        self.ask("GET", "/api/v1/namespaces/default")

    def write(self) -> None:
        self.count += 1
        body = json.dumps({"data": {"count": str(self.count)}})
        self.ask("PATCH", "/api/v1/namespaces/honest/configmaps/counter", body)


def _until(stop: Event, act: Callable[[], None]) -> None:
    while not stop.is_set():
        act()
        time.sleep(PAUSE)


def _main(
    port: int, authority: str, administrator: str, tenant: str, server: int, stop: Event, told: Connection
) -> None:
    reader, writer = Honest(port, authority, administrator, server), Honest(port, authority, tenant, server)
    reader.read()
    writer.write()
    reader.longest = 0
    reader.slow.clear()
    told.send(None)
    threads = [threading.Thread(target=_until, args=(stop, act)) for act in (reader.read, writer.write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.send(Seen(reader.longest, reader.served + writer.served, reader.failed + writer.failed, reader.slow))


@contextmanager
def canary(port: int, authority: str, administrator: str, tenant: str, server: int) -> Iterator[Seen]:
    """Ask the server, a process, until the block ends; what was seen is filled in then."""
    context = get_context("spawn")
    stop, (told, tell) = context.Event(), context.Pipe(duplex=False)
    process = context.Process(target=_main, args=(port, authority, administrator, tenant, server, stop, tell))
    process.start()
    told.recv()
    seen = Seen()
    try:
        yield seen
    finally:
        stop.set()
        last = told.recv()
        seen.freeze, seen.served, seen.failed, seen.slow = last.freeze, last.served, last.failed, last.slow
        process.join()
