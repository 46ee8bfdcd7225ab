"""Device taint eviction: who must give a tainted device back, and what rules say that they did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.client import Client
from moorage.client.clock import ManualClock, timestamp
from moorage.controllers.nodes.devicetaints import DeviceTaintEviction
from moorage.controllers.nodes.devicetaintstatus import Impact, eviction_condition
from tests.controllers.nodes.evicting import (
    POD,
    clock_of_today,
    condition,
    evicted,
    ready_node,
    recorded,
    resident,
    running,
    stay,
    timedelta,
)
from tests.controllers.waiting import eventually, read
from tests.plane import api_server, create

API = "resource.k8s.io/v1"
SLICE, CLAIM, RULE = (kinds.row(API, name) for name in ("ResourceSlice", "ResourceClaim", "DeviceTaintRule"))
DRIVER = "gpu.example.com"


def device_taint(clock: ManualClock, value: str = "", key: str = "broken", effect: str = "NoExecute") -> Data:
    return {"key": key, "value": value, "effect": effect, "timeAdded": timestamp(clock.now())}


def inventory(*devices: Data, name: str = "slice", generation: int = 1) -> Data:
    pool = {"name": "pool", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "a", "devices": list(devices)}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


async def holder(client: Client, name: str, device: str, *tolerations: Data) -> None:
    """A pod on node a that holds a device."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    manifest = {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": name}}
    await create(client, {**manifest, "spec": {"devices": {"requests": [request]}}})
    uses = [{"name": "gpu", "resourceClaimName": name}]
    created = await resident(client, name, "a", resourceClaims=uses)
    result = {"request": "gpu", "driver": DRIVER, "pool": "pool", "device": device, "tolerations": list(tolerations)}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": created["metadata"]["uid"]}],
    }
    await client.patch(CLAIM, "default", name, {"status": status}, subresource="status")


async def set_device_taints(client: Client, **taints: list[Data]) -> None:
    """Say which taints the devices of the slice have."""
    devices = [{"name": name, "taints": given} for name, given in taints.items()]
    await client.patch(SLICE, "", "slice", {"spec": {"devices": devices}})


def rule(clock: ManualClock, effect: str = "NoExecute", **selector: str) -> Data:
    spec = {"deviceSelector": selector, "taint": device_taint(clock, effect=effect)}
    return {"apiVersion": API, "kind": "DeviceTaintRule", "metadata": {"name": "rule"}, "spec": spec}


async def reports(client: Client, status: str, reason: str, message: str) -> None:
    """Wait until the rule reports this of its evictions."""

    async def check() -> bool:
        reported = condition(await read(client, "DeviceTaintRule", "rule", api_version=API), "EvictionInProgress")
        assert (reported.get("status"), reported.get("reason"), reported.get("message")) == (status, reason, message)
        return True

    await eventually(check)


async def test_a_taint_in_a_slice_evicts_the_pod_that_holds_the_device(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, DeviceTaintEviction) as controllers:
        client = server.client("test")
        await ready_node(client, "a")
        await create(client, inventory({"name": "gpu-0"}, {"name": "gpu-1"}))
        await holder(client, "zero", "gpu-0")
        await holder(client, "one", "gpu-1")
        finalizers = {"metadata": {"finalizers": ["example.com/wait"]}}
        await client.patch(POD, "default", "zero", finalizers)
        await set_device_taints(client, **{"gpu-0": [device_taint(clock)], "gpu-1": []})
        await evicted(client, "zero")
        why = f"device {DRIVER}/pool/gpu-0: taint broken:NoExecute: no toleration for this key"
        await recorded(client, "zero", f"Marking for deletion: {why}")
        disrupted = condition(await read(client, "Pod", "zero"), "DisruptionTarget")
        assert disrupted["reason"] == "DeletionByDeviceTaintManager"
        assert disrupted["message"] == "Device Taint manager: deleting due to NoExecute taint"
        await stay(client, "one")
        value = controllers.context.registry.get_sample_value("device_taint_eviction_controller_pod_deletions_total")
        assert value == 1


async def test_the_smallest_seconds_of_all_tolerations_count_from_when_the_taint_was_added(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, DeviceTaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await create(client, inventory({"name": "gpu-0"}))
        long, short = (
            {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            for seconds in (300, 30)
        )
        await holder(client, "both", "gpu-0", long, short)
        await holder(client, "long", "gpu-0", long)
        forever = {"key": "broken", "operator": "Exists"}
        await holder(client, "forever", "gpu-0", short, forever)
        await holder(client, "other", "gpu-0")
        await set_device_taints(client, **{"gpu-0": [device_taint(clock)]})
        await evicted(client, "other")
        await stay(client, "both")
        clock.advance(31)
        await evicted(client, "both")
        await stay(client, "long")
        clock.advance(300)
        await evicted(client, "long")
        await stay(client, "forever")


async def test_a_taint_that_goes_away_cancels_the_eviction(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, DeviceTaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await create(client, inventory({"name": "gpu-0", "taints": [device_taint(clock)]}))
        await holder(client, "web", "gpu-0", {"operator": "Exists", "tolerationSeconds": 30})
        await holder(client, "other", "gpu-0")
        await evicted(client, "other")
        await create(client, inventory({"name": "gpu-0"}, name="newer", generation=2))
        await recorded(client, "web", "Cancelling deletion")
        clock.advance(60)
        await stay(client, "web")


async def test_numbers_and_versions_are_compared_as_for_nodes(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, DeviceTaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await create(client, inventory({"name": "gpu-0"}))
        tolerated = {"key": "errors", "operator": "Lt", "value": "10"}
        await holder(client, "tolerant", "gpu-0", tolerated)
        await holder(client, "other", "gpu-0")
        await set_device_taints(client, **{"gpu-0": [device_taint(clock, "7", "errors")]})
        await evicted(client, "other")
        await stay(client, "tolerant")
        await set_device_taints(client, **{"gpu-0": [device_taint(clock, "12", "errors")]})
        await evicted(client, "tolerant")


async def test_a_rule_evicts_and_says_so(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, DeviceTaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await create(client, inventory({"name": "gpu-0"}, {"name": "gpu-1"}))
        grace: dict[str, Any] = {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 15}
        await holder(client, "zero", "gpu-0", grace)
        await holder(client, "one", "gpu-1")
        await create(client, rule(clock, driver=DRIVER, pool="pool", device="gpu-0"))
        await reports(client, "True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")
        clock.advance(16)
        await evicted(client, "zero")

        async def completed() -> bool:
            clock.advance(1)
            reported = condition(await read(client, "DeviceTaintRule", "rule", api_version=API), "EvictionInProgress")
            return bool(reported["reason"] == "Completed")

        await eventually(completed)
        await reports(client, "False", "Completed", "1 pod evicted since starting the controller.")
        await stay(client, "one")


async def test_a_rule_that_is_deleted_cancels_its_evictions(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, DeviceTaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await holder(client, "zero", "gpu-0", {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 15})
        await create(client, rule(clock, driver=DRIVER))
        await reports(client, "True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")
        await client.delete(RULE, "", "rule")
        await recorded(client, "zero", "Cancelling deletion")
        clock.advance(30)
        await stay(client, "zero")


async def test_a_rule_without_effect_only_says_what_it_would_do(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, DeviceTaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await create(client, inventory({"name": "gpu-0"}, {"name": "gpu-1"}))
        await holder(client, "zero", "gpu-0")
        await create(client, rule(clock, "None", driver=DRIVER))
        message = (
            "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the "
            "effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to "
            "trigger an update."
        )
        await reports(client, "False", "NoEffect", message)
        await stay(client, "zero")
        changed = {"spec": {"taint": device_taint(clock)}}
        await client.patch(RULE, "", "rule", changed)
        await evicted(client, "zero")


async def test_a_restart_does_not_give_more_time(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await ready_node(client, "a")
        await create(client, inventory({"name": "gpu-0", "taints": [device_taint(clock)]}))
        await holder(client, "web", "gpu-0", {"operator": "Exists", "tolerationSeconds": 60})
        clock.advance(timedelta(seconds=61).total_seconds())
        async with running(server, clock, DeviceTaintEviction):
            await evicted(client, "web")


@pytest.mark.parametrize(
    ("effect", "impact", "reason", "message"),
    [
        ("NoExecute", Impact(0, 0, 0, 0, 0), "NotStarted", ""),
        ("NoExecute", Impact(0, 0, 3, 2, 1), "PodsPendingEviction",
         "3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller."),
        ("NoExecute", Impact(0, 0, 0, 0, 2), "Completed", "2 pods evicted since starting the controller."),
        ("NoSchedule", Impact(0, 0, 3, 2, 0), "OtherEffect", "Eviction only happens for the NoExecute effect."),
    ],
)  # fmt: skip
def test_what_a_rule_says(effect: str, impact: Impact, reason: str, message: str) -> None:
    condition = eviction_condition(effect, impact)
    assert (condition["reason"], condition["message"]) == (reason, message)
