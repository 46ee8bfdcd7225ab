"""Writes into pods why they are not placed: one write at a time for each pod, the newest reason last."""

from __future__ import annotations

from typing import NamedTuple

from moorage.api import kinds
from moorage.client import ApiError, Client, Missing
from moorage.client.client import STRATEGIC
from moorage.client.clock import Clock
from moorage.client.errors import is_race
from moorage.logs import Log
from moorage.scheduler.failures import unschedulable_status
from moorage.scheduler.table.shape import PodInfo

_LOG = Log(__name__)
_POD = kinds.row("v1", "Pod")


class _Reason(NamedTuple):
    info: PodInfo
    message: str
    nominated: str


class StatusWriter:
    """A pod that is tried again and again, faster than can be written, is told only the last reason."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._newest: dict[str, _Reason | None] = {}
        """What is to be written of the pods that are being written, by uid; None when nothing more is."""

    async def write(self, info: PodInfo, message: str, nominated: str) -> None:
        """Write why a pod is not placed, unless it says so already; whoever writes it already goes on with this."""
        is_being_written = info.uid in self._newest
        self._newest[info.uid] = _Reason(info, message, nominated)
        if is_being_written:
            return
        try:
            while (newest := self._newest[info.uid]) is not None:
                self._newest[info.uid] = None
                await self._write(newest)
        finally:
            del self._newest[info.uid]

    async def _write(self, reason: _Reason) -> None:
        info = reason.info
        status = unschedulable_status(info.pod, reason.message, reason.nominated, self._clock.now())
        if not status:
            return
        patch = {"metadata": {"uid": info.uid}, "status": status}
        try:
            await self._client.patch(_POD, *info.key, patch, subresource="status", form=STRATEGIC)
        except Missing:
            return
        except ApiError as error:
            _LOG.warning("Pod status not written", benign=is_race(error), pod=info.key, err=error)
