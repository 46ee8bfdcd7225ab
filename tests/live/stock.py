"""A cluster as others run it: an API server, a scheduler and controllers that know nothing of the four enhancements."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.apiserver.run import APIServer
from moorage.client import Client, Missing
from moorage.client.clock import Clock
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import POD
from moorage.controllers.hollow import HollowNodes
from moorage.controllers.nodes.devicetaints import DeviceTaintEviction
from moorage.controllers.nodes.tainteviction import TaintEviction
from moorage.controllers.run import CONTROLLERS, prepare
from moorage.features import NONE_ON
from moorage.match.tolerations import Tolerations
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from tests.plane import api_server


class StockTaintEviction(Controller):
    """Judges pods as kube-controller-manager does: by their native tolerations alone. Keys are pods."""

    name = "stock-taint-eviction"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods, self._nodes = context.informers.of(Pod), context.informers.of(Node)
        self._since: dict[str, datetime] = {}
        self._pods.on_change(lambda _, new: self.enqueue(new) if new else None)
        self._nodes.on_change(self._node_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        for pod in self._pods:
            self.enqueue(pod)

    async def reconcile(self, key: Key) -> None:
        pod = self._pods.get(*key)
        node = self._nodes.get("", pod.spec.node_name) if pod else None
        if pod is None or node is None:
            return
        grace = Tolerations(pod.spec.tolerations, NONE_ON).grace_seconds(node.spec.taints)
        if grace is None:
            self._since.pop(pod.metadata.uid, None)
            return
        since = self._since.setdefault(pod.metadata.uid, self.clock.now())
        left = grace - (self.clock.now() - since).total_seconds()
        if left > 0:
            self.queue.add_after(key, left)
            return
        with suppress(Missing):
            await self.client.delete(POD, *key, uid=pod.metadata.uid)


@asynccontextmanager
async def stock_cluster(
    directory: Path,
    clock: Clock | None = None,
    plugins: tuple[str, ...] = (),
    clients: Callable[[APIServer, str], Client] = APIServer.client,
) -> AsyncIterator[APIServer]:
    """All gates off, and nobody who reads rules in annotations but for hollow kubelets.

    `clients` makes the client of each component, by its name.
    """
    async with api_server(directory, NONE_ON, clock, plugins) as server:
        ours = (TaintEviction, DeviceTaintEviction)
        makers = [*(each for each in CONTROLLERS if each not in ours), HollowNodes]
        controllers = prepare(clients(server, "kube-controller-manager"), NONE_ON, makers, clock=clock)
        evictor = prepare(clients(server, StockTaintEviction.name), NONE_ON, [StockTaintEviction], clock=clock)
        scheduler = Scheduler(clients(server, "kube-scheduler"), NONE_ON, Configuration(), clock=clock)
        await controllers.start()
        await evictor.start()
        scheduling = asyncio.create_task(scheduler.run())
        try:
            yield server
        finally:
            scheduling.cancel()
            await asyncio.gather(scheduling, return_exceptions=True)
            await evictor.stop()
            await controllers.stop()
