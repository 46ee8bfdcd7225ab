"""Events: each is recorded once, and counted when it happens again."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from moorage.api import kinds
from moorage.api.meta import Data, Object
from moorage.bounded import Bounded
from moorage.client.backoff import Backoff
from moorage.client.client import Client
from moorage.client.clock import Clock, timestamp
from moorage.client.errors import ApiError, Exists, Missing, TooManyRequests, Unavailable
from moorage.client.priority import let_others_go_first
from moorage.client.workqueue import WorkQueue
from moorage.logs import Log

_LOG = Log(__name__)
_EVENT = kinds.row("v1", "Event")
_KEPT = 4096
_WAITING = 20_000
_SENDERS = 4
_MESSAGE, _NAME = 1024, 253
_BACKOFF, _ATTEMPTS = Backoff(first=0.25, last=10.0), 7
"""How often an event is sent to a server that does not answer, and how long to wait after each attempt."""
_SIMILAR, _SIMILAR_TIME = 10, timedelta(minutes=10)
"""This many messages of one object and reason within this time are combined into one event, as in Kubernetes."""
_PATIENCE = 0.5
"""How many seconds an event waits for more urgent work."""
NORMAL, WARNING = "Normal", "Warning"

_EventKey = tuple[str, ...]


class Reporter(NamedTuple):
    """The component that reports an event, and its node when it runs on every node."""

    component: str
    host: str = ""


@dataclass(slots=True, eq=False)
class _Recorded:
    """An event as it was last recorded."""

    data: Data
    first: datetime
    last: datetime
    count: int = 0
    waiting: bool = False
    sent: bool = False


@dataclass(slots=True)
class _Similar:
    """Different messages of one object and reason."""

    last: datetime
    messages: set[str] = field(default_factory=set)


class Recorder:
    """Records events in the name of a component, and drops the newest when the server cannot keep up.

    They are sent in the background: work never waits for them. An event that is remembered is counted up when it
    happens again.
    """

    def __init__(
        self, client: Client, component: str, clock: Clock | None = None, *, patience: float = _PATIENCE
    ) -> None:
        self.source = Reporter(component)
        self._clock = clock or Clock()
        self._recorded: Bounded[_EventKey, _Recorded] = Bounded(_KEPT)
        self._similar: Bounded[_EventKey, _Similar] = Bounded(_KEPT)
        self._outbox = _Outbox(client, self._clock, patience)

    def named(self, component: str, host: str = "") -> Recorder:
        """The same recorder in the name of another component."""
        other = copy(self)
        other.source = Reporter(component, host)
        return other

    @property
    def dropped(self) -> int:
        """How many were not sent because too many were waiting, or the server did not answer."""
        return self._outbox.dropped

    def event(
        self, about: Object, type_: str, reason: str, message: str, action: str = "",
        *, part: str = "", at: datetime | None = None,
    ) -> None:  # fmt: skip
        """Record that something happened to an object or to a part of it, now unless another time is given."""
        metadata, kind, now = about.metadata, kinds.of(about), at or self._clock.now()
        series = kind.kind, metadata.namespace, metadata.name, metadata.uid, part, *self.source, type_, reason
        message, is_combined = self._combined(series, message, now)
        key = (*series, "" if is_combined else message)
        event = self._recorded.get(key)
        if event is None:
            event = self._new(about, part, now)
            self._recorded.put(key, event)
        event.count += 1
        event.last = now
        event.data |= {"reason": reason, "message": message, "type": type_, "action": action}
        self._outbox.put(event)

    def _combined(self, series: _EventKey, message: str, now: datetime) -> tuple[str, bool]:
        similar = self._similar.get(series)
        if similar is None:
            similar = _Similar(now)
            self._similar.put(series, similar)
        if now - similar.last > _SIMILAR_TIME:
            similar.messages.clear()
        similar.last = now
        many = len(similar.messages) >= _SIMILAR - 1 and message not in similar.messages
        if many:
            message = f"(combined from similar events): {message}"
        else:
            similar.messages.add(message)
        return message if len(message) <= _MESSAGE else message[: _MESSAGE - 1] + "…", many

    def _new(self, about: Object, part: str, now: datetime) -> _Recorded:
        metadata, kind = about.metadata, kinds.of(about)
        number = f".{self._outbox.number():016x}"
        name = metadata.name[: _NAME - len(number)].rstrip("-.") + number
        involved = {
            "apiVersion": kind.api_version, "kind": kind.kind, "namespace": metadata.namespace,
            "name": metadata.name, "uid": metadata.uid, "resourceVersion": metadata.resource_version,
        }  # fmt: skip
        component, host = self.source
        return _Recorded({
            "metadata": {"name": name, "namespace": metadata.namespace or "default"},
            "involvedObject": involved | ({"fieldPath": part} if part else {}),
            "source": {"component": component} | ({"host": host} if host else {}),
            "reportingComponent": component, "reportingInstance": host,
        }, now, now)  # fmt: skip

    async def run(self) -> None:
        """Send the events of all components until cancelled."""
        await self._outbox.run()


class _Outbox:
    """Events that are to be sent."""

    def __init__(self, client: Client, clock: Clock, patience: float) -> None:
        self._client = client
        self._clock = clock
        self._patience = patience
        self._queue: WorkQueue[_Recorded] = WorkQueue(clock)
        self._waiting = 0
        self._number = 0
        self.dropped = 0

    def number(self) -> int:
        """A number that no other event has, and greater than those of earlier ones: lists are sorted by name."""
        self._number = max(self._number + 1, time.time_ns())
        return self._number

    def put(self, event: _Recorded) -> None:
        """Send an event soon, as it is then."""
        if event.waiting:
            return
        if self._waiting >= _WAITING:
            self.dropped += 1
            return
        event.waiting = True
        self._waiting += 1
        self._queue.add(event)

    async def run(self) -> None:
        """Send events until cancelled."""
        async with asyncio.TaskGroup() as senders:
            for _ in range(_SENDERS):
                senders.create_task(self._send_all())

    async def _send_all(self) -> None:
        while True:
            event = await self._queue.take()
            try:
                await let_others_go_first(self._patience)
                event.waiting = False
                self._waiting -= 1
                await self._send(event)
            finally:
                self._queue.done(event)

    async def _send(self, event: _Recorded) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._write(event)
            except (Unavailable, TooManyRequests) as error:
                await self._clock.sleep(max(_BACKOFF.delay(attempt), error.retry_after) * random.uniform(0.5, 1.5))
            except ApiError as error:
                about = event.data["involvedObject"]
                _LOG.info("Event not recorded", v=4, kind=about.get("kind"), name=about.get("name"), err=error)
                return
            else:
                return
        self.dropped += 1

    async def _write(self, event: _Recorded) -> None:
        namespace, name = event.data["metadata"]["namespace"], event.data["metadata"]["name"]
        counted = {"count": event.count, "lastTimestamp": timestamp(event.last), "message": event.data["message"]}
        if event.sent:
            with suppress(Missing):
                await self._client.patch(_EVENT, namespace, name, counted)
                return
        first = {"firstTimestamp": timestamp(event.first)}
        try:
            await self._client.create(_EVENT, {**event.data, **first, **counted}, namespace)
        except Exists:
            # An earlier attempt created it, and only the answer was lost.
            await self._client.patch(_EVENT, namespace, name, counted)
        event.sent = True
