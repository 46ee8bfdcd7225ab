"""Events: what happened to an object, said once and counted when it happens again."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from moorage.api import kinds
from moorage.api.meta import Object
from moorage.client.client import Client, Data
from moorage.client.clock import Clock, timestamp
from moorage.client.errors import ApiError, Missing

_LOG = logging.getLogger(__name__)
_EVENT = kinds.row("v1", "Event")
_KEPT = 4096
_WAITING = 20_000
_MESSAGE = 1024
NORMAL, WARNING = "Normal", "Warning"


@dataclass(slots=True)
class _Told:
    name: str
    count: int
    first: datetime
    sent: bool = False


class Recorder:
    """Sends events in the background, and drops the newest when the server cannot keep up: work never waits for them.

    The same event again within the memory of the recorder counts up the one that is there.
    """

    def __init__(self, client: Client, component: str, clock: Clock | None = None) -> None:
        self._client = client
        self._component = component
        self._clock = clock or Clock()
        self._told: OrderedDict[tuple[str, ...], _Told] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, ...], tuple[_Told, Data]] = OrderedDict()
        self._wake = asyncio.Event()
        self._number = 0
        self.dropped = 0
        """How many were not sent because too many were waiting."""

    def event(self, about: Object, type_: str, reason: str, message: str, action: str = "") -> None:
        """Say that something happened to an object."""
        message = message if len(message) <= _MESSAGE else message[: _MESSAGE - 1] + "…"
        metadata, kind = about.metadata, kinds.of(about)
        what = (kind.kind, metadata.namespace, metadata.name, metadata.uid, type_, reason, message)
        now = self._clock.now()
        told = self._told.get(what)
        if told is None:
            self._number += 1
            told = self._told[what] = _Told(f"{metadata.name}.{_hex(now, self._number)}", 0, now)
            if len(self._told) > _KEPT:
                self._told.popitem(last=False)
        self._told.move_to_end(what)
        told.count += 1
        if what not in self._waiting and len(self._waiting) >= _WAITING:
            self.dropped += 1
            return
        self._waiting[what] = told, {
            "metadata": {"name": told.name, "namespace": metadata.namespace or "default"},
            "involvedObject": {
                "apiVersion": kind.api_version, "kind": kind.kind, "namespace": metadata.namespace,
                "name": metadata.name, "uid": metadata.uid, "resourceVersion": metadata.resource_version,
            },
            "reason": reason, "message": message, "type": type_, "action": action,
            "source": {"component": self._component}, "reportingComponent": self._component, "reportingInstance": "",
            "firstTimestamp": timestamp(told.first), "lastTimestamp": timestamp(now), "count": told.count,
        }  # fmt: skip
        self._wake.set()

    async def run(self) -> None:
        """Send what is said, for ever."""
        while True:
            while self._waiting:
                _, (told, data) = self._waiting.popitem(last=False)
                with suppress(asyncio.TimeoutError):
                    await self._send(told, data)
            self._wake.clear()
            await self._wake.wait()

    async def _send(self, told: _Told, data: Data) -> None:
        namespace, name = data["metadata"]["namespace"], data["metadata"]["name"]
        try:
            if told.sent:
                again = {"count": data["count"], "lastTimestamp": data["lastTimestamp"]}
                with suppress(Missing):
                    await self._client.patch(_EVENT, namespace, name, again)
                    return
            await self._client.create(_EVENT, data, namespace)
            told.sent = True
        except ApiError as error:
            _LOG.debug("event about %s/%s not recorded: %s", namespace, name, error)


def _hex(moment: datetime, number: int) -> str:
    return f"{int(moment.timestamp() * 1e6):x}{number % 0x10000:04x}"
