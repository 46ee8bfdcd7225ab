"""A cluster under constant change, on a real API server: no overcommit, no forbidden placement, nobody forgotten."""

from __future__ import annotations

import asyncio
import math
import os
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from moorage.api.pod import Pod
from moorage.client import Client, Missing, Unavailable
from moorage.client.clock import FastClock
from moorage.client.transport import Answer, Transport
from moorage.controllers.cluster.garbage import GarbageCollector
from moorage.controllers.nodes.devicetaints import DeviceTaintEviction
from moorage.controllers.nodes.podgc import PodGC
from moorage.controllers.nodes.tainteviction import TaintEviction
from moorage.controllers.run import Controllers, Make, prepare
from moorage.controllers.storage.ephemeralvolumes import EphemeralVolumes
from moorage.controllers.storage.protection import ClaimProtection, VolumeProtection
from moorage.controllers.storage.provisioner import Provisioner
from moorage.controllers.storage.resourceclaims import PodClaims, ResourceClaims
from moorage.controllers.storage.volumebinder import VolumeBinder
from moorage.features import ALL_ON
from moorage.scheduler.config import Configuration
from tests.plane import api_server, eventually
from tests.scheduler.invariants import at_rest
from tests.scheduler.memory_size import weight
from tests.scheduler.placement_checker import PlacementChecker
from tests.scheduler.random_changes import RandomChanges
from tests.scheduler.stage import POD, Stage

SECONDS = int(os.environ.get("MOORAGE_SOAK_SECONDS", "300"))
SEED = int(os.environ.get("MOORAGE_SOAK_SEED", "1"))
CONTROLLERS: tuple[Make, ...] = (
    TaintEviction, DeviceTaintEviction, PodGC, GarbageCollector, PodClaims, ResourceClaims, EphemeralVolumes,
    VolumeBinder, Provisioner, ClaimProtection, VolumeProtection,
)  # fmt: skip
_STEPS = 3
"""How much happens in a second."""
_PAUSE = 20
"""After so many seconds it is quiet for a while."""
_CHANGES = 6
"""How many things happen then, one at a time: nobody else tells those who wait for them."""
_TROUBLE = 0.01
"""How many of the scheduler's requests are lost, and how many answers to them."""
_PATIENCE = 30
"""How many seconds of its clock a cluster has to come to rest: more than the longest backoff."""


class Shaky:
    """A way to the server on which requests are lost now and then, and answers."""

    def __init__(self, way: Transport, chance: random.Random) -> None:
        self._way, self._chance = way, chance
        self.is_calm = True

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        trouble = 1.0 if self.is_calm else self._chance.random()
        if trouble < _TROUBLE:
            raise Unavailable(503, "", "the request was lost")
        answer = await self._way.request(method, target, body, content_type)
        if trouble < 2 * _TROUBLE:
            raise Unavailable(503, "", "the answer was lost")
        return answer

    def stream(self, target: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._way.stream(target)

    async def close(self) -> None:
        await self._way.close()


class Soak:
    """A scheduler, the controllers that it depends on, and somebody who ends pods, all on one fast clock."""

    def __init__(self, here: Stage, clock: FastClock, chance: random.Random, shaky: Shaky) -> None:
        self.here, self.clock, self.chance, self.shaky = here, clock, chance, shaky
        self.churn = RandomChanges(here.client, chance)
        self.witness = PlacementChecker(here.server.client("witness"))
        self.controllers = self._prepared()

    def _prepared(self) -> Controllers:
        return prepare(self.here.server.client("controllers"), ALL_ON, CONTROLLERS, clock=self.clock)

    async def restart(self) -> None:
        """Start everything anew that keeps something in mind."""
        await self.controllers.stop()
        await self.here.restart()
        self.controllers = self._prepared()
        await self.controllers.start()

    async def second(self) -> None:
        """Let things happen for a second."""
        await asyncio.gather(*(self.churn.step() for _ in range(_STEPS)))
        await self.clock.run_fast(1)

    async def pause(self) -> None:
        """Come to rest, again and again after a change."""
        self.shaky.is_calm = True
        await self.rest()
        for _ in range(_CHANGES):
            await self.churn.change()
            await self.rest()
        self.shaky.is_calm = False

    async def rest(self) -> None:
        """Wait until what must be done is done; the clock goes on for a while, so that no backoff stands in the way."""
        for _ in range(_PATIENCE):
            with suppress(AssertionError):
                if await at_rest(self.here):
                    return
            await self.clock.run_fast(1)
        await eventually(lambda: at_rest(self.here))


async def end_pods(client: Client) -> None:
    """Do what kubelets do with pods that are to end."""
    async for batch in client.watch(POD, after="0"):
        for change in batch:
            pod = msgspec.json.decode(change.object, type=Pod)
            if change.type == "MODIFIED" and pod.metadata.deletion_timestamp is not None and pod.spec.node_name:
                with suppress(Missing):
                    await client.delete(POD, pod.metadata.namespace, pod.metadata.name, uid=pod.metadata.uid, grace=0)


@asynccontextmanager
async def soak(directory: Path) -> AsyncIterator[Soak]:
    clock, chance = FastClock(), random.Random(SEED)
    async with api_server(directory, clock=clock) as server, asyncio.TaskGroup() as tasks:
        shaky = Shaky(server.client("scheduler").transport, chance)
        here = Stage(server, ALL_ON, Configuration(), clock, Client(shaky))
        it = Soak(here, clock, chance, shaky)
        await here.start()
        await it.controllers.start()
        beside = [tasks.create_task(each) for each in (it.witness.run(), end_pods(server.client("kubelets")))]
        try:
            await it.churn.begin()
            shaky.is_calm = False
            yield it
        finally:
            for task in beside:
                task.cancel()
            await it.controllers.stop()
            await here.stop()


@pytest.mark.parametrize("restarts", [False, True], ids=["steady", "restarted"])
async def test_a_cluster_under_constant_change(tmp_path: Path, restarts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five minutes of a clock that runs fast, and a third of that with restarts; seldom more than half a minute.

    MOORAGE_SOAK_SECONDS lets it go on for longer (5000 take about five minutes), MOORAGE_SOAK_SEED lets other things
    happen.
    """
    # That everything is tried again at last must not hide that somebody was forgotten.
    monkeypatch.setattr("moorage.scheduler.queue.LONGEST_WAIT", math.inf)
    async with soak(tmp_path) as it:
        kept, seconds = [], SECONDS // 3 if restarts else SECONDS
        for second in range(1, seconds + 1):
            await it.second()
            if restarts and it.chance.random() < 0.05:
                await it.restart()
            if second % _PAUSE == 0 or second == seconds:
                await it.pause()
                kept.append(weight(it.here.scheduler, *it.controllers.controllers))
        witness = it.witness
        assert len(witness.bound) > seconds / 3
        assert min(witness.allocations, witness.volumes_given) > seconds / 20
        if not restarts:
            third = len(kept) // 3
            assert max(kept[-third:]) < 1.3 * max(kept[:third])
