"""Candidates for a lease, each with a clock and a way to the server of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta

from moorage.api.meta import Data
from moorage.client import Client, Forbidden, Unavailable
from moorage.client.clock import ManualClock
from moorage.client.leases import LeaseTerms, lead
from moorage.client.transport import Answer, Transport
from tests.plane import read

START = datetime(2026, 1, 1, tzinfo=UTC)
NAME = "moorage-scheduler"
TERMS = LeaseTerms(NAME)


class Way:
    """The way of one candidate to the server, which can be cut, or hold answers back."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.cut = self.refused = self.full = False
        self.requests, self.answers = asyncio.Event(), asyncio.Event()
        """Whether requests pass, and answers; what is held back comes late."""
        self.requests.set()
        self.answers.set()
        self.busy = 0
        self.asked = 0

    def lose_answers(self, *, but_later: bool = False) -> None:
        """Let what is under way never be answered, and what is asked from now on only with `but_later`."""
        self.answers = asyncio.Event()
        if but_later:
            self.answers.set()

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        self.asked += 1
        if self.cut:
            raise Unavailable(503, "", "cut")
        if self.refused:
            raise Forbidden(403, "Forbidden", "not you")
        if self.full and method != "GET":
            raise Unavailable(507, "InsufficientStorage", "full")
        await self.requests.wait()
        self.busy += 1
        try:
            answer = await self._inner.request(method, target, body, content_type)
        finally:
            self.busy -= 1
        if method != "GET":
            await self.answers.wait()
        return answer

    def stream(self, target: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(target)

    async def close(self) -> None:
        return None


class Election:
    """Candidates with clocks of their own, and an eye on who leads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.leading: list[str] = []
        self.most = 0
        self.candidates: list[Candidate] = []

    def stand(self, name: str, skew: timedelta = timedelta(0), slow: float = 0, terms: LeaseTerms = TERMS) -> Candidate:
        """Let somebody be a candidate."""
        candidate = Candidate(self, name, Way(self._client.transport), ManualClock(START + skew), slow, terms)
        self.candidates.append(candidate)
        return candidate

    async def passes(self, seconds: float) -> None:
        """Let time pass for everybody."""
        await self._settle()
        for _ in range(round(seconds * 4)):
            for candidate in self.candidates:
                candidate.clock.advance(0.25)
            await self._settle()

    async def _settle(self) -> None:
        quiet = 0
        while quiet < 2:
            for _ in range(10):
                await asyncio.sleep(0)
            asked = sum(candidate.way.asked for candidate in self.candidates)
            while any(candidate.way.busy for candidate in self.candidates):
                await asyncio.sleep(0.0005)
            for _ in range(10):
                await asyncio.sleep(0)
            quiet = quiet + 1 if asked == sum(candidate.way.asked for candidate in self.candidates) else 0

    async def lease(self) -> Data:
        """What the lease says."""
        spec: Data = (await read(self._client, "Lease", NAME, "kube-system", "coordination.k8s.io/v1"))["spec"]
        return spec


class Candidate:
    """Somebody who would lead."""

    def __init__(
        self, election: Election, name: str, way: Way, clock: ManualClock, slow: float, terms: LeaseTerms
    ) -> None:
        self._election = election
        self.slow = slow
        self.name, self.way, self.clock = name, way, clock
        self.finish = asyncio.Event()
        self.error: Exception | None = None
        self.waited_for: list[str] = []
        working = lead(Client(way), terms, name, clock, self._run, self.waited_for.append)
        self.task = asyncio.create_task(working)

    @property
    def leads(self) -> bool:
        """Whether its work runs."""
        return self.name in self._election.leading

    async def _run(self) -> None:
        leading = self._election.leading
        leading.append(self.name)
        self._election.most = max(self._election.most, len(leading))
        try:
            await self.finish.wait()
            if self.error:
                raise self.error
        finally:
            try:
                if self.slow:
                    await self.clock.sleep(self.slow)
            finally:
                leading.remove(self.name)

    async def ended(self) -> None:
        """Wait until it is a candidate no more, and let go of its error."""
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def held(client: Client) -> AsyncIterator[Election]:
    """An election in which two never lead at the same time."""
    election = Election(client)
    yield election
    for candidate in election.candidates:
        candidate.slow = 0
        candidate.task.cancel()
        candidate.clock.advance(0)
    await asyncio.gather(*(candidate.task for candidate in election.candidates), return_exceptions=True)
    assert election.most <= 1
