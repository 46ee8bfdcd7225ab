"""Honest users beside an attack: an administrator who reads and a tenant who writes, in a process of their own."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

PAUSE = 0.02
PATIENCE = 60.0


@dataclass
class Seen:
    """What honest users were answered."""

    freeze: float = 0.0
    """The longest that the administrator waited for an answer, in seconds."""
    served: int = 0
    failed: int = 0


class Honest:
    """One user with a connection, who asks one question again and again."""

    def __init__(self, port: int, authority: str, token: str) -> None:
        self.port = port
        self.trust = ssl.create_default_context(cafile=authority)
        self.token = token
        self.connection: http.client.HTTPSConnection | None = None
        self.longest = 0.0
        self.served = self.failed = self.count = 0

    def ask(self, method: str, path: str, body: str | None = None) -> None:
        head = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/merge-patch+json"}
        start = time.perf_counter()
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
        self.longest = max(self.longest, time.perf_counter() - start)
        self.served += served
        self.failed += not served

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


def _main(port: int, authority: str, administrator: str, tenant: str, stop: Event, told: Connection) -> None:
    reader, writer = Honest(port, authority, administrator), Honest(port, authority, tenant)
    reader.read()
    writer.write()
    reader.longest = 0
    told.send(None)
    threads = [threading.Thread(target=_until, args=(stop, act)) for act in (reader.read, writer.write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.send(Seen(reader.longest, reader.served + writer.served, reader.failed + writer.failed))


@contextmanager
def canary(port: int, authority: str, administrator: str, tenant: str) -> Iterator[Seen]:
    """Ask until the block ends; what was seen is filled in then."""
    context = get_context("spawn")
    stop, (told, tell) = context.Event(), context.Pipe(duplex=False)
    process = context.Process(target=_main, args=(port, authority, administrator, tenant, stop, tell))
    process.start()
    told.recv()
    seen = Seen()
    try:
        yield seen
    finally:
        stop.set()
        last = told.recv()
        seen.freeze, seen.served, seen.failed = last.freeze, last.served, last.failed
        process.join()
