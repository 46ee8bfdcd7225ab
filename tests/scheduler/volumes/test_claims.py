"""Pods with claims on a real API server: the scheduler, the binder and a provisioner meet only there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from moorage.api.claims import BOUND_BY_CONTROLLER, SELECTED_NODE
from moorage.client.clock import ManualClock
from moorage.controllers.storage.ephemeralvolumes import EphemeralVolumes
from moorage.controllers.storage.provisioner import PROVISIONER, Provisioner
from moorage.controllers.storage.volumebinder import VolumeBinder
from moorage.features import ALL_ON, Gate, Gates
from moorage.scheduler.plugins.volumebinding import NONE_TO_BIND, OUT_OF_REACH, UNBOUND
from moorage.scheduler.plugins.volumerestrictions import CLAIM_IN_USE
from tests.controllers.small_cluster import becomes, change, controllers, remove
from tests.plane import Data, create, eventually, read, read_all
from tests.scheduler.stage import Stage, stage
from tests.scheduler.volumes.storage import (
    NOW,
    WAIT,
    affinity,
    claim_data,
    class_data,
    ephemeral,
    on,
    uses,
    volume_data,
)

HOST = "kubernetes.io/hostname"
MADE = "made"


@asynccontextmanager
async def storage(directory: Path, *nodes: str, gates: Gates = ALL_ON) -> AsyncIterator[Stage]:
    """Some nodes, the classes, and everybody who works on claims."""
    async with stage(directory, gates) as here, working(here):
        await prepare(here, *nodes)
        yield here


def working(here: Stage) -> Any:
    return controllers(here.server.client("controllers"), VolumeBinder, Provisioner, EphemeralVolumes)


async def prepare(here: Stage, *nodes: str) -> None:
    for each in (class_data(), class_data(NOW, "Immediate"), class_data(MADE, provisioner=PROVISIONER)):
        await create(here.client, each)
    for number, name in enumerate(nodes):
        await here.node(name, {"zone": f"z{number}", "kernel": f"6.{number}.0"})


async def put_volume(here: Stage, name: str, storage_class: str = WAIT, size: str = "5Gi", **spec: Any) -> None:
    await create(here.client, volume_data(name, storage_class, size, **spec))


async def put_claim(here: Stage, name: str, storage_class: str = WAIT, size: str = "1Gi", **spec: Any) -> None:
    await create(here.client, claim_data(name, storage_class, size, **spec))


async def bound(here: Stage, name: str) -> Data:
    return await becomes(
        here.client, "PersistentVolumeClaim", name, lambda data: data["status"].get("phase") == "Bound"
    )


async def selected_node(here: Stage, name: str) -> str:
    """The node for which a volume is to be made; waits until one is chosen."""

    async def chosen() -> str:
        data = await read(here.client, "PersistentVolumeClaim", name)
        return str(data["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))

    return str(await eventually(chosen))


async def test_a_pod_lands_where_the_volume_is(tmp_path: Path) -> None:
    async with storage(tmp_path, "a", "b", "c") as here:
        await put_volume(here, "local", **affinity(on(HOST, "b")))
        await put_claim(here, "mine")
        await here.pod("web", volumes=uses("mine"))
        assert await here.node_of("web") == "b"
        mine = await bound(here, "mine")
        assert mine["spec"]["volumeName"] == "local"
        assert SELECTED_NODE not in mine["metadata"]["annotations"]
        local = await read(here.client, "PersistentVolume", "local")
        assert local["spec"]["claimRef"]["uid"] == mine["metadata"]["uid"]
        assert local["metadata"]["annotations"] == {BOUND_BY_CONTROLLER: "yes"}
        await here.pod("second", volumes=uses("mine"))
        assert await here.node_of("second") == "b"


AFFINITIES = {
    Gate.SEMVER: on("kernel", "6.0.5", operator="SemverGt"),
    Gate.CEL: {"matchCELExpressions": ["node.labels['zone'] == 'z1'"]},
}


@pytest.mark.parametrize("gate", AFFINITIES)
@pytest.mark.parametrize("waits", [True, False], ids=["found for the pod", "bound before"])
async def test_a_gate_that_is_off_never_places_a_pod_more_widely(tmp_path: Path, gate: Gate, waits: bool) -> None:
    storage_class = WAIT if waits else NOW
    async with storage(tmp_path, "a", "b", gates=Gates(ALL_ON.on - {gate})) as here:
        await put_volume(here, "picky", storage_class, **affinity(AFFINITIES[gate]))
        await put_claim(here, "mine", storage_class)
        await here.pod("web", volumes=uses("mine"))
        reason = NONE_TO_BIND if waits else OUT_OF_REACH
        said = await here.unschedulable("web", reason)
        assert said.startswith(f"0/2 nodes are available: 2 {reason}.")
        await here.restart(ALL_ON)
        assert await here.node_of("web") == "b"
        assert (await bound(here, "mine"))["spec"]["volumeName"] == "picky"


async def test_two_pods_never_get_the_same_volume(tmp_path: Path) -> None:
    async with storage(tmp_path, "a", "b") as here:
        await put_volume(here, "only", **affinity(on(HOST, "a")))
        for name in ("one", "two"):
            await put_claim(here, name)
        for name in ("one", "two"):
            await here.pod(name, volumes=uses(name))

        async def winners() -> list[str]:
            pods = await read_all(here.client, "Pod")
            return [each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")]

        (winner,) = await eventually(winners)
        assert await here.node_of(winner) == "a"
        loser = "two" if winner == "one" else "one"
        await here.unschedulable(loser, NONE_TO_BIND)
        await put_volume(here, "more", **affinity(on(HOST, "b")))
        assert await here.node_of(loser) == "b"


async def test_many_pods_each_get_a_volume_of_their_own(tmp_path: Path) -> None:
    async with storage(tmp_path, "a", "b", "c") as here:
        for number in range(12):
            await put_volume(here, f"volume-{number}", **affinity(on(HOST, "abc"[number % 3])))
            await put_claim(here, f"claim-{number}")
        for number in range(12):
            await here.pod(f"pod-{number}", volumes=uses(f"claim-{number}"))
        where = {number: await here.node_of(f"pod-{number}") for number in range(12)}
        given = {number: (await bound(here, f"claim-{number}"))["spec"]["volumeName"] for number in range(12)}
        assert len(set(given.values())) == 12
        for number, name in given.items():
            assert where[number] == "abc"[int(name.removeprefix("volume-")) % 3]


async def test_a_volume_is_made_where_the_pod_goes(tmp_path: Path) -> None:
    async with storage(tmp_path, "a", "b", "c") as here:
        topology = {"matchLabelExpressions": [{"key": "zone", "values": ["z2"]}]}
        await create(here.client, class_data("zoned", provisioner=PROVISIONER, allowedTopologies=[topology]))
        await put_claim(here, "mine", "zoned")
        await here.pod("web", volumes=uses("mine"))
        assert await here.node_of("web") == "c"
        mine = await bound(here, "mine")
        assert mine["metadata"]["annotations"][SELECTED_NODE] == "c"
        made = await read(here.client, "PersistentVolume", mine["spec"]["volumeName"])
        assert made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] == [on(HOST, "c")]


async def test_a_pod_waits_for_claims_that_should_be_bound(tmp_path: Path) -> None:
    async with storage(tmp_path, "a") as here:
        await here.pod("web", volumes=uses("mine"))
        await here.unschedulable("web", 'persistentvolumeclaim "mine" not found')
        await put_claim(here, "mine", NOW)
        await here.unschedulable("web", UNBOUND)
        await put_volume(here, "late", NOW)
        assert await here.node_of("web") == "a"


async def test_an_ephemeral_volume_comes_with_the_pod(tmp_path: Path) -> None:
    async with storage(tmp_path, "a") as here:
        web = await here.pod("web", volumes=[ephemeral("scratch", MADE)])
        assert await here.node_of("web") == "a"
        made = await bound(here, "web-scratch")
        assert made["metadata"]["ownerReferences"][0]["uid"] == web["metadata"]["uid"]


async def test_a_claim_for_one_pod_is_free_for_the_next_when_that_is_gone(tmp_path: Path) -> None:
    async with storage(tmp_path, "a", "b") as here:
        await put_claim(here, "mine", MADE, accessModes=["ReadWriteOncePod"])
        await here.pod("first", volumes=uses("mine"))
        node = await here.node_of("first")
        await here.pod("second", volumes=uses("mine"))
        await here.unschedulable("second", f"2 {CLAIM_IN_USE}")
        await here.delete("first")
        assert await here.node_of("second") == node


async def test_a_more_important_pod_gets_the_claim_for_one_pod(tmp_path: Path) -> None:
    async with storage(tmp_path, "a", "b") as here:
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
        await create(here.client, {**head, "value": 1000})
        await put_claim(here, "mine", MADE, accessModes=["ReadWriteOncePod"])
        await here.pod("first", volumes=uses("mine"), terminationGracePeriodSeconds=0)
        node = await here.node_of("first")
        await here.pod("urgent", volumes=uses("mine"), priorityClassName="high")
        assert await here.node_of("urgent") == node
        assert "first" not in [each["metadata"]["name"] for each in await read_all(here.client, "Pod")]


async def test_a_pod_that_waits_too_long_for_its_volume_is_tried_again(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        here.scheduler.handle.clock = clock
        await prepare(here, "a")
        await put_volume(here, "local")
        await change(here.client, "PersistentVolume", "local", {"status": {"phase": "Available"}}, subresource="status")
        await put_claim(here, "mine")
        await here.pod("web", volumes=uses("mine"))

        async def given_up() -> bool:
            clock.advance(601)
            return any("context deadline exceeded" in each["message"] for each in await here.events("web"))

        await eventually(given_up)
        assert not (await here.get("web"))["spec"].get("nodeName")
        async with working(here):
            assert await here.node_of("web") == "a"


async def test_another_node_is_chosen_when_a_volume_cannot_be_made(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await prepare(here, "a")
        await put_claim(here, "mine", MADE)
        await here.pod("web", volumes=uses("mine"))
        assert await selected_node(here, "mine") == "a"
        await here.node("b")
        await here.taint("a", {"key": "full", "effect": "NoSchedule"})
        await change(here.client, "PersistentVolumeClaim", "mine", {"metadata": {"annotations": {SELECTED_NODE: None}}})
        assert await selected_node(here, "mine") == "b"
        async with working(here):
            assert await here.node_of("web") == "b"
        assert any('provisioning failed for PVC "mine"' in each["message"] for each in await here.events("web"))


async def test_a_scheduler_that_starts_again_goes_on_where_it_was(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await prepare(here, "a", "b", "c")
        for name in "ab":
            await put_volume(here, name, **affinity(on(HOST, name)))
            await change(
                here.client, "PersistentVolume", name, {"status": {"phase": "Available"}}, subresource="status"
            )
        await put_claim(here, "found")
        await put_claim(here, "made", MADE)
        await here.pod("web", volumes=uses("found", "made"))
        node = await selected_node(here, "made")
        await here.restart()
        async with working(here):
            assert await here.node_of("web") == node
        assert (await bound(here, "found"))["spec"]["volumeName"] == node


async def test_a_pod_that_is_deleted_meanwhile_holds_nothing_back(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await prepare(here, "a", "b")
        await put_claim(here, "mine", MADE)
        await here.pod("web", volumes=uses("mine"))
        await selected_node(here, "mine")
        await here.delete("web")
        await remove(here.client, "PersistentVolumeClaim", "mine")
        async with working(here):
            await put_claim(here, "mine", MADE)
            await here.pod("web", volumes=uses("mine"))
            assert await here.node_of("web") == (await bound(here, "mine"))["metadata"]["annotations"][SELECTED_NODE]
