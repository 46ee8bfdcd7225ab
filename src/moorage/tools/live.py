"""Reads from a running cluster what placement depends on: in pages, several kinds at a time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from moorage.api.kinds import Kind
from moorage.client import ApiError, Client, Expired, Forbidden, Missing, TooManyRequests, Unavailable
from moorage.client.backoff import Backoff
from moorage.client.clock import Clock
from moorage.client.errors import first_of
from moorage.features import ALL_ON, Gate, Gates
from moorage.tools.cluster import Cluster
from moorage.tools.snapshot import KINDS, ReducedPage, SnapshotWriter, reduce_page
from moorage.tools.snapshot.fields import upgrade_page
from moorage.tools.snapshot.file import add_items, bring_into_order

_PAGE_SIZE = 1000
_AT_ONCE = 4
"""How many kinds are read at a time."""
_ATTEMPTS = 6
"""How often a page is asked for while the server has too much to do."""
_BACKOFF = Backoff(first=1.0, last=30.0)
_NODE_LEASES = "kube-node-lease"
_GATE = re.compile(rb'^kubernetes_feature_enabled\{name="([^"]*)"[^}]*\} ([\d.]+)', re.MULTILINE)

Take = Callable[[Kind, ReducedPage], None]


class ReadProgress(Protocol):
    """Hears how far the reading of a kind is."""

    def __call__(self, resource: str, done: int, total: int | None) -> None:
        """So many objects have been read, of so many in all if that is known."""


@dataclass(slots=True)
class LiveReader:
    """Reads a running cluster."""

    client: Client
    progress: ReadProgress | None = None
    clock: Clock = field(default_factory=Clock)
    unread: dict[str, str] = field(default_factory=dict)
    """The resources that may not be read, and what the server says to that."""

    async def cluster(self, only: Container[str] | None = None) -> Cluster:
        """Everything that placement depends on, or only some kinds of it."""
        cluster = Cluster(is_complete=only is None)

        def take(kind: Kind, page: ReducedPage) -> None:
            cluster.problems += page.problems
            add_items(cluster, kind, page.items, kind.resource)

        await self._read_all(_chosen(only), take)
        bring_into_order(cluster)
        cluster.unread = self.unread
        return cluster

    async def write(self, writer: SnapshotWriter) -> None:
        """Write everything that placement depends on."""
        await self._read_all(KINDS, writer.add)
        writer.end(dict.fromkeys(self.unread, "may not be listed"))

    async def gates(self) -> Gates | None:
        """The gates that the API server says are on, None when it does not say."""
        found = await self._told()
        return None if found is None else _on(found)

    async def placing_gates(self) -> tuple[Gates | None, bool]:
        """The gates by which pods are placed and evicted, None when that is not known; whether attach mode has them.

        Beside an API server that does not know all gates only attach mode applies rules, and it has them on.
        """
        found = await self._told()
        if found is not None:
            return (_on(found), False) if len(found) == len(Gate) else (ALL_ON, True)
        return (ALL_ON, True) if await self._is_stock() else (None, False)

    async def _is_stock(self) -> bool:
        """Whether the API server says that it is another than ours."""
        from moorage.componentmetrics import is_moorage  # slow to import, and seldom needed

        try:
            version: Any = msgspec.json.decode(await self._get("/version"))["gitVersion"]
        except (msgspec.DecodeError, UnicodeError, KeyError, TypeError):
            return False
        return not is_moorage(str(version))

    async def _told(self) -> dict[Gate, bool] | None:
        """Whether each gate that the API server knows is on; None when it says nothing of gates."""
        found = dict(_GATE.findall(await self._get("/metrics")))
        known = ((gate, found.get(gate.value.encode())) for gate in Gate)
        return {gate: float(value) != 0 for gate, value in known if value is not None} if found else None

    async def _get(self, path: str) -> bytes:
        try:
            answer = await self.client.transport.request("GET", path)
        except ApiError:
            return b""
        return answer.body if answer.status == 200 else b""

    async def _read_all(self, kinds: tuple[Kind, ...], take: Take) -> None:
        waiting = iter(kinds)
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_AT_ONCE):
                    tasks.create_task(self._read_some(waiting, take))
        except ExceptionGroup as group:
            raise first_of(group) from None
        if len(self.unread) == len(kinds):
            raise Forbidden(403, "Forbidden", f"nothing may be read: {next(iter(self.unread.values()))}")

    async def _read_some(self, waiting: Iterator[Kind], take: Take) -> None:
        for kind in waiting:
            try:
                await self._read_any_version(kind, take)
            except Forbidden as error:
                self.unread[kind.resource] = str(error)

    async def _read_any_version(self, kind: Kind, take: Take) -> None:
        for version in ("", *reversed(kind.older_versions)):
            with suppress(Missing):
                await self._read(kind, version, take)
                return
        # The server does not have the kind, so there are no objects of it.

    async def _read(self, kind: Kind, version: str, take: Take) -> None:
        continue_, done = "", 0
        while True:
            body = await self._page(kind, version, continue_)
            try:
                page = reduce_page(kind, upgrade_page(kind, version, body) if version else body)
            except (msgspec.DecodeError, UnicodeError) as error:
                raise Unavailable(502, "BadGateway", f"the list of {kind.resource} cannot be read: {error}") from None
            take(kind, page)
            done += page.size
            if self.progress is not None:
                self.progress(kind.resource, done, None if page.remaining is None else done + page.remaining)
            continue_ = page.continue_
            if not continue_:
                return

    async def _page(self, kind: Kind, version: str, continue_: str) -> bytes:
        namespace = _NODE_LEASES if kind.kind == "Lease" else ""
        attempt = 0
        while True:
            try:
                return await self.client.page(kind, namespace, limit=_PAGE_SIZE, continue_=continue_, version=version)
            except Expired as error:
                # The rest is read as it is now: other kinds are of other moments anyway.
                if not error.continue_ or error.continue_ == continue_:
                    raise
                continue_ = error.continue_
            except TooManyRequests as error:
                attempt += 1
                if attempt == _ATTEMPTS:
                    raise TooManyRequests(
                        error.code, error.reason, f"{kind.resource} cannot be listed, asked {_ATTEMPTS} times: {error}"
                    ) from None
                await self.clock.sleep(error.retry_after or _BACKOFF.delay(attempt))


def _on(gates: dict[Gate, bool]) -> Gates:
    return Gates(frozenset(gate for gate, is_on in gates.items() if is_on))


def _chosen(only: Container[str] | None) -> tuple[Kind, ...]:
    return tuple(kind for kind in KINDS if only is None or kind.kind in only)


async def read_live(client: Client, only: Container[str] | None = None) -> Cluster:
    """Everything that placement depends on, or only some kinds of it."""
    return await LiveReader(client).cluster(only)
