"""A kubelet for tests: it places pods where they say they belong, and makes them run, unless told otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.client import Client, Conflict, Informers, Missing
from moorage.client.clock import Clock, timestamp
from tests.controllers.waiting import awaited

POD = kinds.row("v1", "Pod")


def ready(clock: Clock, status: str = "True") -> Data:
    """The condition of a pod that serves, since now."""
    return {"type": "Ready", "status": status, "lastTransitionTime": timestamp(clock.now())}


class Kubelet:
    """Runs every pod that `runs` says yes to, and ends what is deleted."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self.client = client
        self.clock = clock or Clock()
        self.runs: Callable[[Pod], bool] = lambda _: True
        self.ends: Callable[[Pod], bool] = lambda _: True
        self.informers = Informers(client)
        self.pods = self.informers.of(Pod)
        self.pods.on_change(lambda _, new: self._changed.put_nowait(new) if new else None)
        self._changed: asyncio.Queue[Pod] = asyncio.Queue()
        self._is_busy = False

    def is_idle(self) -> bool:
        """Whether it has looked at all pods that have changed."""
        return self._changed.empty() and not self._is_busy

    async def run(self) -> None:
        """Look at each pod that changes."""
        while True:
            pod = await self._changed.get()
            self._is_busy = True
            with suppress(Missing, Conflict):
                await self._tend(pod)
            self._is_busy = False

    def look_again(self) -> None:
        """Look at all pods, because what one may do has changed."""
        for pod in self.pods:
            self._changed.put_nowait(pod)

    async def _tend(self, pod: Pod) -> None:
        metadata = pod.metadata
        if metadata.deletion_timestamp is not None:
            if self.ends(pod):
                await self.client.delete(POD, metadata.namespace, metadata.name, uid=metadata.uid, grace=0)
            return
        if pod.status.phase != "Pending" or not self.runs(pod):
            return
        if not pod.spec.node_name and (node := _place(pod)):
            await self.client.bind(metadata.namespace, metadata.name, metadata.uid, node)
        await self.set_status(metadata.name, phase="Running", conditions=[ready(self.clock)])

    async def set_status(self, name: str, **status: Any) -> None:
        """Say what a pod does."""
        await self.client.patch(POD, "default", name, {"status": status}, subresource="status")

    async def unready(self, name: str) -> None:
        """Have a pod run and not serve."""
        await self.set_status(name, phase="Running", conditions=[ready(self.clock, "False")])

    async def finish(self, name: str, phase: str = "Succeeded", exit_code: int = 0, *conditions: Data) -> None:
        """Have a pod end."""
        terminated = {"exitCode": exit_code, "finishedAt": timestamp(self.clock.now())}
        container = {
            "name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0,
            "state": {"terminated": terminated},
        }  # fmt: skip
        reported = [ready(self.clock, "False"), *conditions]
        await self.set_status(name, phase=phase, containerStatuses=[container], conditions=reported)

    async def fail(self, name: str, exit_code: int = 1, *conditions: Data) -> None:
        """Have a pod end badly."""
        await self.finish(name, "Failed", exit_code, *conditions)


def _place(pod: Pod) -> str:
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            return field.values[0]
    return ""


@asynccontextmanager
async def kubelet(client: Client, clock: Clock | None = None) -> AsyncIterator[Kubelet]:
    """A kubelet that works while the block does."""
    worker = Kubelet(client, clock)
    await worker.informers.start()
    task = asyncio.create_task(worker.run())
    try:
        with awaited(worker.informers, worker.is_idle, worker.clock):
            yield worker
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await worker.informers.stop()
