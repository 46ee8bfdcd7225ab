"""Leader election by leases: one of several processes works, and another takes over when it stops or crashes."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Literal, TypeVar
from uuid import uuid4

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data, ObjectMeta, Wire
from moorage.client.client import Client
from moorage.client.clock import Clock, timestamp
from moorage.client.errors import ApiError, Conflict, Exists, Forbidden, Missing, Unavailable
from moorage.logs import Log

_LOG = Log(__name__)
_LEASE = kinds.row("coordination.k8s.io/v1", "Lease")
SCHEDULER_LEASE, CONTROLLERS_LEASE = "moorage-scheduler", "moorage-controllers"
_JITTER = 1.2
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The lease that candidates compete for, and its times in seconds."""

    name: str
    namespace: str = "kube-system"
    lease_duration: float = 15.0
    """Without a renewal for so long, others may take over."""
    renew_deadline: float = 10.0
    """Without a successful renewal for so long, a leader stops; in the rest of the lease it ends its work."""
    retry_period: float = 2.0
    """How often a lease is renewed, or asked for."""
    owns_store: bool = False
    """Whether nobody can write what this process cannot write, as on a full disk: then it leads all the same."""

    @property
    def key(self) -> tuple[str, str]:
        """The namespace and the name of the lease."""
        return self.namespace, self.name

    def problem(self) -> str:
        """What is wrong with the times, in the words of Kubernetes; empty when nothing is."""
        if self.retry_period <= 0:
            return "retryPeriod must be greater than zero"
        if self.lease_duration < 1:
            return "leaseDuration must be at least one second"
        if self.lease_duration <= self.renew_deadline:
            return "leaseDuration must be greater than renewDeadline"
        if self.renew_deadline <= self.retry_period * _JITTER:
            return f"renewDeadline must be greater than {_JITTER} times retryPeriod"
        return ""


class LeadershipLost(Exception):
    """Another process leads now, or may: the work was cancelled."""


def identity() -> str:
    """A name that no other process has."""
    return f"{socket.gethostname()}_{uuid4()}"


async def lead(
    client: Client,
    terms: LeaseTerms,
    identity: str,
    clock: Clock,
    run: Callable[[], Awaitable[None]],
    waiting: Callable[[str], None] = lambda _: None,
) -> None:
    """Wait for a lease, run something while it is held, and release it when that ends or this is cancelled.

    Whoever is waited for is passed to `waiting`. When the lease is lost, the work is cancelled, and once it has ended
    LeadershipLost is raised. Raises Forbidden when the first attempt to get the lease is.
    """
    candidacy = _Candidacy(client, terms, identity, clock)
    await candidacy.acquire(waiting)
    _LOG.info("Became leader", lease=terms.key, identity=identity)
    keeping = asyncio.create_task(candidacy.keep(), name=f"lease {terms.name}")
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
        _LOG.warning("Lost leadership", lease=terms.key, identity=identity)
        raise LeadershipLost(f"{identity} leads no longer as {terms.name}")


class _Candidacy:
    """A lease as one candidate sees it.

    It has expired once it was seen unchanged for its duration: clocks of different machines are never compared.
    """

    def __init__(self, client: Client, terms: LeaseTerms, identity: str, clock: Clock) -> None:
        self._client = client
        self._terms = terms
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

    async def acquire(self, waiting: Callable[[str], None]) -> None:
        """Wait until this candidate holds the lease, and tell for whom."""
        told, allowed = "", False
        while True:
            try:
                if await self._answered(self._try()):
                    return
                allowed = True
            except ApiError as error:
                if isinstance(error, Forbidden) and not allowed:
                    raise
                _LOG.warning("Lease not acquired", lease=self._terms.key, err=error)
            if self._holder not in ("", told):
                told = self._holder
                _LOG.info("Waiting for the lease", lease=self._terms.key, holder=told)
                waiting(told)
            await self._clock.sleep(self._terms.retry_period * random.uniform(1, 1 + _JITTER))

    async def keep(self) -> None:
        """Renew the lease until it is lost."""
        begun = self._clock.monotonic()
        while not self.lost.is_set():
            timer = self._clock.call_later(self._deadline - self._clock.monotonic(), self.lost.set)
            try:
                await self._clock.sleep(begun + self._terms.retry_period - self._clock.monotonic())
                begun = self._clock.monotonic()
                await self._answered(self._renew())
            except ApiError as error:
                _LOG.warning("Lease not renewed", lease=self._terms.key, err=error)
            finally:
                timer.cancel()

    async def release(self) -> None:
        """Release the lease, so that the next candidate can take it at once."""
        try:
            async with asyncio.timeout(self._terms.renew_deadline):
                while True:
                    try:
                        return await self._write("", 1, self._transitions)
                    except Conflict:
                        # A renewal that was cancelled may have reached the server all the same.
                        await self._look()
                    if self._holder != self._identity:
                        return None
        except (ApiError, TimeoutError) as error:
            _LOG.warning("Lease not released", lease=self._terms.key, err=error)

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
        valid = self._seen + (self._spec.get("leaseDurationSeconds") or self._terms.lease_duration)
        if self._holder not in ("", self._identity) and self._clock.monotonic() < valid:
            return False
        # A lease can be deleted after it was read; one that cannot be created has no namespace.
        with suppress(Conflict, Exists, *([Missing] if self._data else [])):
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

    async def _answered(self, asking: Coroutine[None, None, _Answer]) -> _Answer:
        """What comes of something that is asked. Raises Unavailable when it takes so long that others may take over."""
        seconds, task = self._terms.renew_deadline / 2, asyncio.ensure_future(asking)

        def give_up() -> None:
            task.cancel()

        timer = self._clock.call_later(seconds, give_up)
        try:
            await asyncio.wait({task})
        finally:
            timer.cancel()
            task.cancel()
            await asyncio.wait({task})
        if task.cancelled():
            raise Unavailable(504, "Timeout", f"no answer within {seconds:g} s")
        return task.result()

    async def _look(self) -> None:
        try:
            lease = _lease(await self._client.get(_LEASE, *self._terms.key))
        except Missing:
            lease = {}
        if lease.get("spec") != self._data.get("spec"):
            self._seen = self._clock.monotonic()
        self._data = lease

    async def _hold(self) -> None:
        # The holder counts from before its request, others from when they see it: the holder gives up first.
        deadline = self._clock.monotonic() + self._terms.renew_deadline
        changes = self._data and self._holder != self._identity
        try:
            await self._write(self._identity, ceil(self._terms.lease_duration), self._transitions + bool(changes))
        except Unavailable:
            if not self._terms.owns_store:
                raise
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
            new = {"metadata": {"name": self._terms.name}, "spec": spec}
            answer = await self._client.create(_LEASE, new, self._terms.namespace)
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
