"""Events: what happened to an object, said once and counted when it happens again."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from moorage.api import kinds
from moorage.api.meta import Object
from moorage.client.client import Client, Data
from moorage.client.clock import Clock, timestamp
from moorage.client.errors import ApiError, Exists, Missing, TooManyRequests, Unavailable
from moorage.client.priority import let_others_go_first
from moorage.client.workqueue import WorkQueue

_LOG = logging.getLogger(__name__)
_EVENT = kinds.row("v1", "Event")
_KEPT = 4096
_WAITING = 20_000
_SENDERS = 4
_MESSAGE, _NAME = 1024, 253
_PAUSES = (0.1, 0.5, 2.0, 5.0, 10.0, 10.0)
"""How long to wait for a server that does not answer, before an event is given up."""
_SIMILAR, _SIMILAR_TIME = 10, timedelta(minutes=10)
"""From so many messages about the same within this time on, they are counted together, as in Kubernetes."""
_PATIENCE = 0.5
"""How many seconds an event steps aside for more urgent work."""
NORMAL, WARNING = "Normal", "Warning"

_What = tuple[str, ...]
_V = TypeVar("_V")


class Source(NamedTuple):
    """Who says an event: a component, and the machine that it is on when it has one on each."""

    component: str
    host: str = ""


@dataclass(slots=True, eq=False)
class _Told:
    """An event as it was last told."""

    data: Data
    first: datetime
    last: datetime
    count: int = 0
    waiting: bool = False
    sent: bool = False


@dataclass(slots=True)
class _Similar:
    """Different messages about the same."""

    last: datetime
    messages: set[str] = field(default_factory=set)


class Recorder:
    """Says events in the name of a component, and drops the newest when the server cannot keep up.

    They are sent in the background: work never waits for them. The same event again within the memory of the recorder
    counts up the one that is there.
    """

    def __init__(self, client: Client, component: str, clock: Clock | None = None) -> None:
        self.source = Source(component)
        self._clock = clock or Clock()
        self._told: OrderedDict[_What, _Told] = OrderedDict()
        self._similar: OrderedDict[_What, _Similar] = OrderedDict()
        self._outbox = _Outbox(client, self._clock)

    def named(self, component: str, host: str = "") -> Recorder:
        """The same recorder in the name of another component."""
        other = copy(self)
        other.source = Source(component, host)
        return other

    @property
    def dropped(self) -> int:
        """How many were not sent because too many were waiting, or the server did not answer."""
        return self._outbox.dropped

    def event(
        self, about: Object, type_: str, reason: str, message: str, action: str = "",
        *, part: str = "", at: datetime | None = None,
    ) -> None:  # fmt: skip
        """Say that something happened to an object, or to a part of it, now unless it was at another time."""
        metadata, kind, now = about.metadata, kinds.of(about), at or self._clock.now()
        place = kind.kind, metadata.namespace, metadata.name, metadata.uid, part
        what = (*place, *self.source, type_, reason)
        message, combined = self._combined(what, message, now)
        told = _recall(self._told, (*what, "" if combined else message), lambda: self._new(about, part, now))
        told.count += 1
        told.last = now
        told.data |= {"reason": reason, "message": message, "type": type_, "action": action}
        self._outbox.put(told)

    def _combined(self, what: _What, message: str, now: datetime) -> tuple[str, bool]:
        similar = _recall(self._similar, what, lambda: _Similar(now))
        if now - similar.last > _SIMILAR_TIME:
            similar.messages.clear()
        similar.last = now
        many = len(similar.messages) >= _SIMILAR - 1 and message not in similar.messages
        if many:
            message = f"(combined from similar events): {message}"
        else:
            similar.messages.add(message)
        return message if len(message) <= _MESSAGE else message[: _MESSAGE - 1] + "…", many

    def _new(self, about: Object, part: str, now: datetime) -> _Told:
        metadata, kind = about.metadata, kinds.of(about)
        number = f".{self._outbox.number():016x}"
        name = metadata.name[: _NAME - len(number)].rstrip("-.") + number
        involved = {
            "apiVersion": kind.api_version, "kind": kind.kind, "namespace": metadata.namespace,
            "name": metadata.name, "uid": metadata.uid, "resourceVersion": metadata.resource_version,
        }  # fmt: skip
        component, host = self.source
        return _Told({
            "metadata": {"name": name, "namespace": metadata.namespace or "default"},
            "involvedObject": involved | ({"fieldPath": part} if part else {}),
            "source": {"component": component} | ({"host": host} if host else {}),
            "reportingComponent": component, "reportingInstance": host,
        }, now, now)  # fmt: skip

    async def run(self) -> None:
        """Send what is said, in all names, for ever."""
        await self._outbox.run()


class _Outbox:
    """Events that are to be sent."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._queue: WorkQueue[_Told] = WorkQueue(clock)
        self._waiting = 0
        self._number = 0
        self.dropped = 0

    def number(self) -> int:
        """A number that no other event has, and greater than those of earlier ones: lists are sorted by name."""
        self._number = max(self._number + 1, time.time_ns())
        return self._number

    def put(self, told: _Told) -> None:
        """Send an event soon, as it is then."""
        if told.waiting:
            return
        if self._waiting >= _WAITING:
            self.dropped += 1
            return
        told.waiting = True
        self._waiting += 1
        self._queue.add(told)

    async def run(self) -> None:
        """Send for ever."""
        async with asyncio.TaskGroup() as senders:
            for _ in range(_SENDERS):
                senders.create_task(self._send_all())

    async def _send_all(self) -> None:
        while True:
            told = await self._queue.take()
            try:
                await let_others_go_first(_PATIENCE)
                told.waiting = False
                self._waiting -= 1
                await self._send(told)
            finally:
                self._queue.done(told)

    async def _send(self, told: _Told) -> None:
        for pause in _PAUSES:
            try:
                await self._write(told)
            except (Unavailable, TooManyRequests) as error:
                await asyncio.sleep(max(pause, error.retry_after) * random.uniform(0.5, 1.5))
            except ApiError as error:
                _LOG.debug("event about %s not recorded: %s", told.data["involvedObject"], error)
                return
            else:
                return
        self.dropped += 1

    async def _write(self, told: _Told) -> None:
        namespace, name = told.data["metadata"]["namespace"], told.data["metadata"]["name"]
        counted = {"count": told.count, "lastTimestamp": timestamp(told.last), "message": told.data["message"]}
        if told.sent:
            with suppress(Missing):
                await self._client.patch(_EVENT, namespace, name, counted)
                return
        first = {"firstTimestamp": timestamp(told.first)}
        try:
            await self._client.create(_EVENT, {**told.data, **first, **counted}, namespace)
        except Exists:
            # The answer to the first try was lost, not the event.
            await self._client.patch(_EVENT, namespace, name, counted)
        told.sent = True


def _recall(known: OrderedDict[_What, _V], what: _What, make: Callable[[], _V]) -> _V:
    """What is known under a key, or new; those that were not asked for the longest time are forgotten."""
    if what in known:
        known.move_to_end(what)
        return known[what]
    made = known[what] = make()
    if len(known) > _KEPT:
        known.popitem(last=False)
    return made
