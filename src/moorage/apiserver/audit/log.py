"""The audit log as the API server knows it: each request is noted as soon as it is answered."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from moorage.apiserver.access.rbac import Decision
from moorage.apiserver.audit.events import COMPLETE, RECEIVED, STARTED, AuditedRequest, new_id
from moorage.apiserver.audit.policy import METADATA_OF_ALL, AuditLevel, AuditPolicy
from moorage.apiserver.audit.writer import AuditWriter
from moorage.apiserver.base.users import User
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.request.routes import Route

NOBODY = User("")
"""The sender of a request that was not authenticated."""


class AuditSettings(NamedTuple):
    """Where the audit log is, and what is written to it."""

    file: Path
    policy: AuditPolicy = METADATA_OF_ALL
    max_bytes: int = 100 << 20
    max_backups: int = 0
    """How many rotated files are kept; 0 keeps all."""


class AuditLog(Collector):
    """Writes down requests as its policy says."""

    def __init__(self, settings: AuditSettings) -> None:
        self._policy = settings.policy
        self.notes_arrivals = settings.policy.may_write(RECEIVED)
        """Whether some requests are written down before anything is made of them."""
        self._writer = AuditWriter(settings.file, settings.max_bytes, settings.max_backups)

    def received(self, route: Route, request: Request, sender: User) -> None:
        """Write down a request of which only the head is known."""
        treatment = self._policy.treatment(sender, route)
        if treatment.level is not AuditLevel.NONE and RECEIVED not in treatment.omitted:
            name, now = new_id(), time.time()
            request.audit_id = name
            self._writer.put(
                AuditedRequest(name, treatment, route, request, None, sender, None, None, RECEIVED, now, now)
            )

    def note(
        self, route: Route, request: Request, response: Response, sender: User, decision: Decision | None, start: float
    ) -> None:
        """Write down a request that was answered, and began at `start`; of a watch also that it has ended."""
        treatment = self._policy.treatment(sender, route)
        if treatment.level is AuditLevel.NONE:
            return
        name = request.audit_id or new_id()
        impersonated = request.user if request.user is not None and request.user is not sender else None
        received = time.time() - (time.perf_counter() - start)

        def note(stage: str) -> None:
            if stage not in treatment.omitted:
                self._writer.put(
                    AuditedRequest(
                        name, treatment, route, request, response, sender, impersonated, decision, stage,
                        received, time.time(),
                    )
                )  # fmt: skip

        if response.stream is None:
            note(COMPLETE)
        else:
            response.stream = _AuditedStream(response.stream, note)

    def collect(self) -> Iterator[Metric]:
        """How many events were written and lost."""
        written = CounterMetricFamily("apiserver_audit_event", "Events that were written to the audit log.")
        written.add_metric([], self._writer.written)
        lost = CounterMetricFamily("apiserver_audit_error", "Events that the audit log has lost.", labels=["plugin"])
        lost.add_metric(["log"], self._writer.errors)
        yield from (written, lost)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class _AuditedStream:
    """A stream whose start and end are noted. Whoever iterates over it does so over the stream itself."""

    def __init__(self, stream: AsyncIterator[bytes], note: Callable[[str], None]) -> None:
        self._stream = stream
        self._note = note

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._note(STARTED)
        return self._stream

    async def __anext__(self) -> bytes:
        return await anext(self._stream)

    async def aclose(self) -> None:
        """End the stream."""
        try:
            close = getattr(self._stream, "aclose", None)
            if close is not None:
                await close()
        finally:
            self._note(COMPLETE)
