"""Leader election by leases: one of several processes works, and another takes over when it stops or crashes."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal
from uuid import uuid4

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data, ObjectMeta, Wire
from moorage.client.client import Client
from moorage.client.clock import Clock, timestamp
from moorage.client.errors import ApiError, Conflict, Exists, Missing, Unavailable
from moorage.logs import Log

_LOG = Log(__name__)
_LEASE = kinds.row("coordination.k8s.io/v1", "Lease")
_NAMESPACE = "kube-system"
LEASE_DURATION = 15
"""Seconds without a renewal after which others may take over."""
RENEW_DEADLINE = 10.0
"""Seconds without a successful renewal after which a leader stops; in the rest of the lease it ends its work."""
RETRY_PERIOD = 2.0
_JITTER = 1.2


class LeadershipLost(Exception):
    """Another process leads now, or may: the work was cancelled."""


def identity() -> str:
    """A name that no other process has."""
    return f"{socket.gethostname()}_{uuid4()}"


async def lead(client: Client, name: str, identity: str, clock: Clock, run: Callable[[], Awaitable[None]]) -> None:
    """Wait for a lease, run something while it is held, and release it when that ends or this is cancelled.

    When the lease is lost, the work is cancelled, and once it has ended LeadershipLost is raised.
    """
    candidacy = _Candidacy(client, name, identity, clock)
    await candidacy.acquire()
    _LOG.info("Became leader", lease=(_NAMESPACE, name), identity=identity)
    keeping = asyncio.create_task(candidacy.keep(), name=f"lease {name}")
    losing = asyncio.create_task(candidacy.lost.wait())
    working = asyncio.ensure_future(run())
    try:
        try:
            await asyncio.wait({working, losing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # The lease is renewed until the work has ended: no other process may begin before.
            working.cancel()
            await asyncio.wait({working})
    finally:
        keeping.cancel()
        losing.cancel()
        if working.done() and not candidacy.lost.is_set():
            await asyncio.wait({keeping})
            await candidacy.release()
    if not working.cancelled():
        working.result()
    if candidacy.lost.is_set():
        _LOG.warning("Lost leadership", lease=(_NAMESPACE, name), identity=identity)
        raise LeadershipLost(f"{identity} leads no longer as {name}")


class _Candidacy:
    """A lease as one candidate sees it.

    It has expired once it was seen unchanged for its duration: clocks of different machines are never compared.
    """

    def __init__(self, client: Client, name: str, identity: str, clock: Clock) -> None:
        self._client = client
        self._name = name
        self._identity = identity
        self._clock = clock
        self._data: Data = {}
        """The lease as it was last read; empty when there was none."""
        self._seen = 0.0
        """When it was first read in this state."""
        self._deadline = 0.0
        """Until when the lease must have been renewed, or the leadership is lost."""
        self.lost = asyncio.Event()
        """Set when the leadership is lost."""

    async def acquire(self) -> None:
        """Wait until this candidate holds the lease."""
        while True:
            try:
                if await self._try():
                    return
            except ApiError as error:
                _LOG.warning("Lease not acquired", lease=(_NAMESPACE, self._name), err=error)
            await self._clock.sleep(RETRY_PERIOD * random.uniform(1, 1 + _JITTER))

    async def keep(self) -> None:
        """Renew the lease until it is lost."""
        while not self.lost.is_set():
            timer = self._clock.call_later(self._deadline - self._clock.monotonic(), self.lost.set)
            try:
                await self._clock.sleep(RETRY_PERIOD)
                await self._renew()
            except ApiError as error:
                _LOG.warning("Lease not renewed", lease=(_NAMESPACE, self._name), err=error)
            finally:
                timer.cancel()

    async def release(self) -> None:
        """Release the lease, so that the next candidate can take it at once."""
        try:
            async with asyncio.timeout(RENEW_DEADLINE):
                while True:
                    try:
                        return await self._write("", 1, self._transitions)
                    except Conflict:
                        # A renewal that was cancelled may have reached the server all the same.
                        await self._look()
                    if self._holder != self._identity:
                        return None
        except (ApiError, TimeoutError) as error:
            _LOG.warning("Lease not released", lease=(_NAMESPACE, self._name), err=error)

    @property
    def _spec(self) -> Data:
        spec: Data = self._data.get("spec") or {}
        return spec

    @property
    def _holder(self) -> str:
        return self._spec.get("holderIdentity") or ""

    @property
    def _transitions(self) -> int:
        return self._spec.get("leaseTransitions") or 0

    async def _try(self) -> bool:
        await self._look()
        valid = self._seen + (self._spec.get("leaseDurationSeconds") or LEASE_DURATION)
        if self._holder not in ("", self._identity) and self._clock.monotonic() < valid:
            return False
        with suppress(Conflict, Exists, Missing):
            await self._hold()
        return self._clock.monotonic() < self._deadline

    async def _renew(self) -> None:
        while True:
            try:
                return await self._hold()
            except (Conflict, Exists, Missing):
                await self._look()
            if self._holder not in ("", self._identity):
                return self.lost.set()

    async def _look(self) -> None:
        try:
            lease = _lease(await self._client.get(_LEASE, _NAMESPACE, self._name))
        except Missing:
            lease = {}
        if lease.get("spec") != self._data.get("spec"):
            self._seen = self._clock.monotonic()
        self._data = lease

    async def _hold(self) -> None:
        # The holder counts from before its request, others from when they see it: the holder gives up first.
        deadline = self._clock.monotonic() + RENEW_DEADLINE
        changes = self._data and self._holder != self._identity
        await self._write(self._identity, LEASE_DURATION, self._transitions + bool(changes))
        self._deadline = deadline

    async def _write(self, holder: str, duration: int, transitions: int) -> None:
        now = timestamp(self._clock.now(), micro=True)
        ours = holder and holder == self._holder
        spec = {
            **self._spec,
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "acquireTime": self._spec.get("acquireTime") if ours else now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        if self._data:
            answer = await self._client.update(_LEASE, {**self._data, "spec": spec})
        else:
            answer = await self._client.create(_LEASE, {"metadata": {"name": self._name}, "spec": spec}, _NAMESPACE)
        self._data = _lease(answer)


class _LeaseSpec(Wire):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class _Lease(Wire):
    kind: Literal["Lease"]
    metadata: ObjectMeta
    spec: _LeaseSpec | None = None


def _lease(answer: bytes) -> Data:
    """The lease in an answer. Raises Unavailable when it is none, as a proxy gives while the server is away."""
    try:
        msgspec.json.decode(answer, type=_Lease)
        lease: Data = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Unavailable(502, "BadGateway", f"the answer is no lease: {error}") from None
    return lease
