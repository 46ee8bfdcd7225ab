"""Pods are made for owners at once, and without haste when they are refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.api.workload import ReplicaSet
from moorage.client import Client, Informer, Informers, Invalid, Missing
from moorage.client.clock import ManualClock
from moorage.client.events import Recorder
from moorage.controllers.frame.pods import POD
from moorage.controllers.owners.podcontrol import PodControl, index_by_owner
from tests.controllers.waiting import read_all
from tests.plane import api_server, create

OWNER = {
    "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
    "spec": {
        "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "pause"}]},
        },
    },
}  # fmt: skip
GOOD: Data = OWNER["spec"]["template"]  # type: ignore[index]
BAD: Data = {**GOOD, "spec": {**GOOD["spec"], "restartPolicy": "Sometimes"}}
NAMED = {"generateName": "web-"}


class Counting(Client):
    """Counts the pods that it is asked to create."""

    created = 0

    async def create(self, kind: Any, data: Any, namespace: str = "") -> bytes:
        self.created += kind is POD
        return await super().create(kind, data, namespace)


class Nursery(NamedTuple):
    """What makes pods, whose pods they are, and who sees them."""

    client: Counting
    pod_control: PodControl
    owner: ReplicaSet
    pods: Informer[Pod]


@asynccontextmanager
async def nursery(directory: Path, clock: ManualClock) -> AsyncIterator[Nursery]:
    async with api_server(directory) as server:
        client = Counting(server.client("test").transport)
        informers = Informers(client)
        pods = informers.of(Pod)
        index_by_owner(pods)
        await informers.start()
        recorder = Recorder(client, "test", clock)
        telling = asyncio.create_task(recorder.run())
        owner = msgspec.json.decode(msgspec.json.encode(await create(client, OWNER)), type=ReplicaSet)
        yield Nursery(client, PodControl(client, pods, recorder, clock=clock), owner, pods)
        telling.cancel()
        await informers.stop()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


async def test_a_refused_template_costs_one_request_however_many_pods_are_missing(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with nursery(tmp_path, clock) as (client, pod_control, owner, _):
        with pytest.raises(Invalid, match=r'^Pod "web-" is invalid: spec.restartPolicy: Unsupported value') as refused:
            await pod_control.create_many(owner, BAD, [NAMED] * 100)
        assert client.created == 1
        for _ in range(5):
            with pytest.raises(Invalid) as again:
                await pod_control.create(owner, BAD, NAMED)
            assert str(again.value) == str(refused.value)
        assert client.created == 1


async def test_waits_double_up_to_half_a_minute_and_end_with_success_or_a_new_generation(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with nursery(tmp_path, clock) as (client, pod_control, owner, _):
        waits = []
        for _ in range(11):
            with pytest.raises(Invalid):
                await pod_control.create(owner, BAD, NAMED)
            waits.append(pod_control.seconds_to_wait(owner))
            clock.advance(waits[-1])
        assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
        assert client.created == 11
        await pod_control.create(owner, GOOD, NAMED)
        with pytest.raises(Invalid):
            await pod_control.create(owner, BAD, NAMED)
        assert pod_control.seconds_to_wait(owner) == 0.1
        metadata = msgspec.structs.replace(owner.metadata, generation=2)
        assert pod_control.seconds_to_wait(msgspec.structs.replace(owner, metadata=metadata)) == 0


async def test_the_informer_knows_what_was_done_when_it_is_done(tmp_path: Path, clock: ManualClock) -> None:
    async with nursery(tmp_path, clock) as (_, pod_control, owner, pods):
        await pod_control.create_many(owner, GOOD, [NAMED] * 20)
        mine = list(pods.by("owner", owner.metadata.uid))
        assert len(mine) == 20
        await pod_control.delete_many(owner, mine[:15])
        assert len(list(pods.by("owner", owner.metadata.uid))) == 5
        await pod_control.delete(owner, mine[0])


async def test_a_pod_that_was_replaced_by_another_of_its_name_is_not_deleted(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with nursery(tmp_path, clock) as (client, pod_control, owner, pods):
        name = await pod_control.create(owner, GOOD, {"name": "web-0"})
        old = pods.get("default", name)
        assert old is not None
        await pod_control.delete(owner, old)
        await pod_control.create(owner, GOOD, {"name": "web-0", "labels": {"more": "labels"}})
        with pytest.raises(Exception, match=r"(?i)precondition|uid"):
            await pod_control.delete(owner, old)
        assert (await read_all(client, "Pod"))[0]["metadata"]["labels"] == {"app": "web", "more": "labels"}


async def test_a_name_that_was_generated_and_is_taken_is_generated_again(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nursery(tmp_path, clock) as (_, pod_control, owner, _):
        names = iter(("web-a", "web-a", "web-b"))
        monkeypatch.setattr("moorage.registry.metadata.generated_name", lambda _: next(names))
        assert await pod_control.create(owner, GOOD, NAMED) == "web-a"
        assert await pod_control.create(owner, GOOD, NAMED) == "web-b"


async def test_an_owner_whose_namespace_is_gone_has_to_wait_as_well(tmp_path: Path, clock: ManualClock) -> None:
    async with nursery(tmp_path, clock) as (_, pod_control, owner, _):
        metadata = msgspec.structs.replace(owner.metadata, namespace="nowhere")
        with pytest.raises(Missing):
            await pod_control.create(msgspec.structs.replace(owner, metadata=metadata), GOOD, NAMED)
        assert pod_control.seconds_to_wait(owner) == 0.1
