"""A private cluster: a real API server, scheduler and controllers in this process, on a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from moorage.api.meta import Object
from moorage.api.pod import Pod
from moorage.apiserver.local import private_server
from moorage.client import Client
from moorage.client.clock import Clock
from moorage.client.events import Recorder
from moorage.controllers.cluster.garbage import GarbageCollector
from moorage.controllers.cluster.serviceaccounts import ServiceAccounts
from moorage.controllers.frame.controller import Context
from moorage.controllers.nodes.lifecycle import NodeLifecycle
from moorage.controllers.run import CONTROLLERS, Controllers, Make
from moorage.controllers.storage.provisioner import Provisioner
from moorage.features import Gates
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from moorage.store.memory import MemoryStore
from moorage.tools.simulation.kubelets import SnapshotKubelets, SteadyNodes
from moorage.tools.simulation.loading import LoadedSnapshot
from moorage.tools.simulation.provisioning import AnyProvisioner
from moorage.tools.simulation.replacements import Replacements
from moorage.tools.simulation.virtualtime import VirtualClock

_AGENT = "moorage-simulation"
_SEED = 1
_NOT_NEEDED = (GarbageCollector, NodeLifecycle, Provisioner, ServiceAccounts)
_QUIET_SECONDS = 60.0
"""How long nothing may have changed, and no timer run, for the cluster to be at rest."""
_LOOK_SECONDS = 1.0
_FAR_AWAY = 86_400.0
"""Seconds of a timer that is not worth mentioning."""


class NotedEvent(NamedTuple):
    """An event of the cluster."""

    at: float
    about: Object
    reason: str
    message: str


class NotingRecorder(Recorder):
    """Passes events on in this process instead of storing them."""

    def __init__(self, client: Client, clock: Clock, note: Callable[[NotedEvent], None]) -> None:
        super().__init__(client, _AGENT, clock)
        self._now = clock
        self._note = note

    def event(
        self, about: Object, type_: str, reason: str, message: str, action: str = "",  # noqa: ARG002
        *, part: str = "", at: datetime | None = None,  # noqa: ARG002
    ) -> None:  # fmt: skip
        """Pass on that something happened to an object."""
        self._note(NotedEvent(self._now.monotonic(), about, reason, message))


class PrivateCluster:
    """A cluster that runs until it is stopped. Its components can be restarted with other gates."""

    def __init__(self, snapshot: LoadedSnapshot, store: MemoryStore, clock: VirtualClock) -> None:
        self.clock = clock
        self.snapshot = snapshot
        self.on_event: Callable[[NotedEvent], None] = lambda _: None
        self.on_pod: Callable[[Pod | None, Pod | None], None] = lambda _, __: None
        """Called with a pod before and after a change."""
        self.gates = Gates()
        self.strange: list[str] = []
        """The names of schedulers that are not ours, as whose pods ours places them."""
        self._store = store
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, gates: Gates, configuration: Configuration) -> None:
        """Start all components; those that run are stopped first, and the new ones read everything again."""
        await self.stop()
        self.gates = gates
        configuration = self._for_all_schedulers(configuration)
        self.client = Client(private_server(self._store, gates, self.clock, _AGENT))
        recorder = NotingRecorder(self.client, self.clock, self.on_event)
        scheduler = Scheduler(self.client, gates, configuration, clock=self.clock, seed=_SEED, recorder=recorder)
        # One cache for the scheduler and all controllers: what is stored is decoded once.
        self.informers = scheduler.handle.informers
        self.scheduler = scheduler
        context = Context(self.client, self.informers, recorder, gates, self.clock)
        controllers = Controllers(context, [make(context) for make in self._makers()])
        self.pods = self.informers.of(Pod)
        # The first list is no change.
        await self.informers.start()
        self.pods.on_change(self.on_pod)
        self._tasks = [
            asyncio.create_task(scheduler.run(), name="scheduler"),
            asyncio.create_task(controllers.run(), name="controllers"),
        ]

    def _for_all_schedulers(self, configuration: Configuration) -> Configuration:
        """A configuration with a profile for each scheduler that a pod names: those of others place as the first."""
        own = {spec.scheduler_name for spec in configuration.specs}
        self.strange = sorted(self.snapshot.schedulers - own)
        first = configuration.specs[0]
        more = (msgspec.structs.replace(first, scheduler_name=name) for name in self.strange)
        return replace(configuration, specs=(*configuration.specs, *more))

    def _makers(self) -> list[Make]:
        snapshot = self.snapshot
        return [
            *(make for make in CONTROLLERS if make not in _NOT_NEEDED),
            partial(GarbageCollector, assumed=frozenset(snapshot.absent)),
            SteadyNodes,
            AnyProvisioner,
            partial(SnapshotKubelets, found=snapshot.found),
            partial(Replacements, absent=snapshot.absent),
        ]

    async def stop(self) -> None:
        """Stop all components."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    async def rest(self, until: float) -> bool:
        """Let time pass until nothing happens any more, or until a time; False when something still would."""
        revision, since = await self._store.revision(), self.clock.monotonic()
        while True:
            for task in self._tasks:
                if task.done():
                    task.result()
            now = self.clock.monotonic()
            if (latest := await self._store.revision()) != revision:
                revision, since = latest, now
            timer = self.clock.next_timer()
            is_quiet = now - max(since, self.clock.rang) >= _QUIET_SECONDS
            if is_quiet and (timer is None or now + timer > until):
                return timer is None or timer > _FAR_AWAY
            if now >= until:
                return False
            await asyncio.sleep(min(_LOOK_SECONDS, until - now))
