"""Pods get the devices that their claims ask for, on nodes that have them, and wait when there are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.api import kinds
from moorage.api.pod import Pod
from moorage.api.resource import DeviceTaintRule
from moorage.client import Client, Conflict, Unavailable
from moorage.controllers.run import prepare
from moorage.controllers.storage.resourceclaims import PodClaims, ResourceClaims
from moorage.features import ALL_ON, NONE_ON
from moorage.scheduler import scheduler as scheduling
from moorage.scheduler.config import Configuration, ProfileSpec
from moorage.scheduler.devices import writing
from moorage.scheduler.devices.writing import ClaimWriter
from moorage.scheduler.framework import Cycle
from moorage.scheduler.plugins.defaultbinder import DefaultBinder
from moorage.scheduler.plugins.dynamicresources import DynamicResources
from moorage.scheduler.table.shape import PodInfo
from tests.plane import Data, create, eventually, read, read_all
from tests.scheduler.devices.devicekit import (
    DRIVER,
    V1,
    claim,
    device,
    device_class,
    request,
    resource_slice,
    taint,
    using,
)
from tests.scheduler.stage import NODE, Stage, stage

CLAIM = kinds.row(V1, "ResourceClaim")
SLICE = kinds.row(V1, "ResourceSlice")
RULE = kinds.row(V1, "DeviceTaintRule")
EXAMPLES = Path(__file__).parents[3] / "examples"


async def put(here: Stage, *manifests: Data) -> None:
    for manifest in manifests:
        await create(here.client, manifest)


async def status_of(here: Stage, name: str) -> Data:
    return dict((await read(here.client, "ResourceClaim", name, api_version=V1)).get("status") or {})


async def devices_of(here: Stage, name: str) -> list[str]:
    """The devices that a claim was given; waits for it."""

    async def given() -> list[str]:
        results = ((await status_of(here, name)).get("allocation") or {}).get("devices", {}).get("results", [])
        return [each["device"] for each in results]

    return list(await eventually(given))


async def test_a_pod_goes_where_the_device_is_and_its_claim_says_so(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for name in ("plain", "fast"):
            await here.node(name)
        await put(here, device_class(), resource_slice("fast", device("gpu-0")))
        tolerations = [{"key": "hours", "operator": "Exists"}]
        await put(here, claim("mine", request(tolerations=tolerations)))
        made = await here.pod("web", **using("mine"))
        assert await here.node_of("web") == "fast"
        found = await read(here.client, "ResourceClaim", "mine", api_version=V1)
        assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        allocation = found["status"]["allocation"]
        assert allocation.pop("allocationTimestamp")
        field = {"key": "metadata.name", "operator": "In", "values": ["fast"]}
        result = {"request": "gpu", "driver": DRIVER, "pool": "fast", "device": "gpu-0", "tolerations": tolerations}
        assert allocation == {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
        assert found["status"]["reservedFor"] == [
            {"resource": "pods", "name": "web", "uid": made["metadata"]["uid"]},
        ]


async def test_no_device_is_given_twice_in_a_burst_and_one_that_is_given_back_is_given_again(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for name in ("a", "b"):
            await here.node(name)
            await put(here, resource_slice(name, device("gpu-0"), device("gpu-1")))
        await put(here, device_class())
        names = [f"pod-{number}" for number in range(6)]
        await asyncio.gather(*(put(here, claim(name)) for name in names))
        await asyncio.gather(*(here.pod(name, **using(name)) for name in names))

        async def four() -> list[str]:
            pods = await read_all(here.client, "Pod")
            placed = [each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")]
            return placed if len(placed) == 4 else []

        placed = await eventually(four)
        given = [await status_of(here, name) for name in placed]
        results = [each["allocation"]["devices"]["results"][0] for each in given]
        assert len({(each["pool"], each["device"]) for each in results}) == 4
        waiting = sorted(set(names) - set(placed))
        why = await here.unschedulable(waiting[0])
        assert why.startswith(
            "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: "
        )
        await here.delete(placed[0])
        free = {"status": {"allocation": None, "reservedFor": None}}
        await here.client.patch(CLAIM, "default", placed[0], free, subresource="status")

        async def one_more() -> bool:
            pods = await read_all(here.client, "Pod")
            return sum(bool(each["spec"].get("nodeName")) for each in pods) == 4

        await eventually(one_more)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"operator": "Gt", "value": "24"}, "fresh"),
        ({"operator": "Lt", "value": "5"}, "worn"),
        ({"operator": "Gt", "value": "5"}, "aging"),
        ({"operator": "Equal", "value": "2"}, "worn"),
    ],
)
async def test_tolerations_decide_which_device_a_claim_gets(tmp_path: Path, wanted: Data, expected: str) -> None:
    async with stage(tmp_path) as here:
        await here.node("only")
        offered = device("worn", taint("2")), device("aging", taint("8")), device("fresh", taint("30"))
        tolerations = [{"key": "hours", **wanted}]
        await put(here, device_class(), resource_slice("only", *offered), claim("c", request(tolerations=tolerations)))
        await here.pod("web", **using("c"))
        assert await devices_of(here, "c") == [expected]


async def test_a_gt_toleration_on_a_device_counts_only_with_its_gate(tmp_path: Path) -> None:
    async with stage(tmp_path, NONE_ON) as here:
        await here.node("only")
        await put(here, device_class(), resource_slice("only", device("gpu-0", taint("30"))))
        await put(here, claim("c", request(tolerations=[{"key": "hours", "operator": "Gt", "value": "24"}])))
        await here.pod("web", **using("c"))
        await here.unschedulable("web", "cannot allocate all claims")
        await here.restart(ALL_ON)
        assert await here.node_of("web") == "only"


async def test_a_taint_rule_keeps_devices_back_until_it_is_removed(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only")
        await put(here, device_class(), resource_slice("only", device("gpu-0"), device("gpu-1")), claim("c"))
        selector = {"driver": DRIVER, "pool": "only"}
        spec = {"deviceSelector": selector, "taint": taint("x", "NoExecute", "broken")}
        await put(here, {"apiVersion": V1, "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec})

        async def known() -> int:
            return len(here.scheduler.handle.informers.of(DeviceTaintRule))

        await eventually(known)
        await here.pod("web", **using("c"))
        await here.unschedulable("web", "cannot allocate all claims")
        await here.client.patch(RULE, "", "r", {"spec": {"deviceSelector": {**selector, "device": "gpu-0"}}})
        assert await here.node_of("web") == "only"
        assert await devices_of(here, "c") == ["gpu-1"]


async def example(here: Stage, name: str, *left_out: str) -> list[Data]:
    """Create what an example holds; its nodes are made ready."""
    manifests = list(yaml.safe_load_all((EXAMPLES / name / "manifests.yaml").read_text()))
    for manifest in manifests:
        if manifest["metadata"]["name"] in left_out:
            continue
        if manifest["kind"] == "Node":
            await here.node(manifest["metadata"]["name"], taints=manifest.get("spec", {}).get("taints"))
        else:
            await create(here.client, manifest)
    return manifests


def _only(manifests: list[Data], kind: str) -> Data:
    """The first manifest of a kind."""
    return next(each for each in manifests if each["kind"] == kind)


async def test_story_4_a_claim_gets_a_gpu_of_a_node_that_is_reliable_enough(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("gpu-node-00", taints=[taint("940", key="node.kubernetes.io/sla")])
        unreliable = device("gpu-node-00-device-0", taint("940", key="node.kubernetes.io/sla"))
        made = await example(here, "thresholds-4-gpu-claims", "dra-workload")
        await put(
            here, resource_slice("gpu-node-00", unreliable, driver=_only(made, "ResourceSlice")["spec"]["driver"])
        )
        await create(here.client, _only(made, "Pod"))
        assert await here.node_of("dra-workload") == "gpu-node-01"
        assert await devices_of(here, "gpu-claim-high-sla") == ["gpu-node-01-device-0"]


async def test_story_4_a_claim_waits_until_a_device_is_reliable_enough(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        made = await example(here, "thresholds-4-gpu-claims", "dra-workload")
        offered = (await read(here.client, "ResourceSlice", "gpu-node-01-slice", api_version=V1))["spec"]["devices"]
        offered[0]["taints"][0]["value"] = "950"
        await here.client.patch(SLICE, "", "gpu-node-01-slice", {"spec": {"devices": offered}})
        await here.taint("gpu-node-01")
        await create(here.client, _only(made, "Pod"))
        await here.unschedulable("dra-workload", "1 cannot allocate all claims")
        offered[0]["taints"][0]["value"] = "951"
        await here.client.patch(SLICE, "", "gpu-node-01-slice", {"spec": {"devices": offered}})
        assert await here.node_of("dra-workload") == "gpu-node-01"


async def test_story_5_training_gets_the_aging_device_and_inference_waits_for_a_fresh_one(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        made = await example(here, "thresholds-5-error-budget", "critical-inference")
        node, offered = _only(made, "Node")["metadata"]["name"], _only(made, "ResourceSlice")["spec"]
        assert await devices_of(here, "training-gpu-claim") == [offered["devices"][0]["name"]]
        await here.pod("critical-inference", **using("inference-gpu-claim"))
        await here.unschedulable("critical-inference", "1 cannot allocate all claims")
        budget = "device.example.com/error-budget-in-hours"
        fresh = device("new", taint("25", key=budget))
        await put(here, resource_slice(node, fresh, name="fresh", driver=offered["driver"]))
        assert await devices_of(here, "inference-gpu-claim") == ["new"]


async def test_story_5_a_device_without_any_budget_left_is_given_to_nobody(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only")
        worn = device("worn", taint("0"))
        tolerations = [{"key": "hours", "operator": "Gt", "value": "1", "effect": "NoSchedule"}]
        await put(here, device_class(), resource_slice("only", worn), claim("c", request(tolerations=tolerations)))
        await here.pod("batch", **using("c"))
        await here.unschedulable("batch", "1 cannot allocate all claims")


@asynccontextmanager
async def claim_controllers(here: Stage) -> AsyncIterator[None]:
    controllers = prepare(here.server.client("controllers"), ALL_ON, (PodClaims, ResourceClaims))
    await controllers.start()
    try:
        yield
    finally:
        await controllers.stop()


async def test_pods_with_a_claim_template_wait_for_their_claims_and_then_get_one_each(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only")
        await put(here, device_class(), resource_slice("only", device("gpu-0"), device("gpu-1")))
        template = claim("one") | {"kind": "ResourceClaimTemplate"}
        template["spec"] = {"spec": template["spec"]}
        await put(here, template)
        use = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
        await here.pod("first", **use)

        async def gated() -> bool:
            return [each.gated for each in here.scheduler.queue.pods.values()] == [
                'pod "default/first": ResourceClaim not created yet'
            ]

        await eventually(gated)
        async with claim_controllers(here):
            await here.pod("second", **use)
            assert {await here.node_of("first"), await here.node_of("second")} == {"only"}
            claims = await read_all(here.client, "ResourceClaim", api_version=V1)
            given = [each["status"]["allocation"]["devices"]["results"][0]["device"] for each in claims]
            assert sorted(given) == ["gpu-0", "gpu-1"]
            await here.pod("third", **use)
            await here.unschedulable("third", "cannot allocate all claims")
            await here.delete("first")
            assert await here.node_of("third") == "only"


async def test_pods_that_share_a_claim_go_to_one_node_and_are_all_named_in_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for name in ("a", "b"):
            await here.node(name)
            await put(here, resource_slice(name, device("gpu-0")))
        await put(here, device_class(), claim("ours"))
        names = [f"pod-{number}" for number in range(12)]
        await asyncio.gather(*(here.pod(name, **using("ours")) for name in names))
        assert len({await here.node_of(name) for name in names}) == 1
        reserved = (await status_of(here, "ours"))["reservedFor"]
        assert sorted(each["name"] for each in reserved) == sorted(names)


async def test_a_pod_waits_for_a_claim_and_for_a_class_that_do_not_exist_yet(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only")
        await put(here, resource_slice("only", device("gpu-0")))
        await here.pod("web", **using("later"))
        why = await here.unschedulable("web")
        assert why.startswith('0/1 nodes are available: could not find ResourceClaim "default/later".')
        await put(here, claim("later"))
        await here.unschedulable("web", "request gpu: device class gpu does not exist")
        await put(here, device_class())
        assert await here.node_of("web") == "only"


async def test_a_claim_that_nobody_uses_is_allocated_anew_when_its_devices_are_in_the_wrong_place(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as here:
        for name in ("wrong", "right"):
            await here.node(name, {"place": name})
            await put(here, resource_slice(name, device(f"gpu-{name}")))
        await put(here, device_class(), claim("c"))
        await here.pod("first", nodeSelector={"place": "wrong"}, **using("c"))
        assert await devices_of(here, "c") == ["gpu-wrong"]
        await here.node_of("first")
        await here.pod("second", nodeSelector={"place": "right"}, **using("c"))
        await here.unschedulable("second", "1 resourceclaim not available on the node")
        assert (await status_of(here, "c"))["allocation"], "it is in use, so it stays"
        await here.delete("first")
        await here.client.patch(CLAIM, "default", "c", {"status": {"reservedFor": None}}, subresource="status")
        assert await here.node_of("second") == "right"
        assert await devices_of(here, "c") == ["gpu-right"]


async def test_a_node_that_becomes_able_to_reach_devices_is_found_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("far")
        await here.node("near", {"zone": "b"})
        requirement = {"key": "zone", "operator": "In", "values": ["a"]}
        place = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
        await put(here, device_class(), resource_slice("", device("net-0"), name="net", nodeSelector=place), claim("c"))
        await here.pod("web", **using("c"))
        await here.unschedulable("web", "2 cannot allocate all claims")
        await here.client.patch(NODE, "", "near", {"metadata": {"labels": {"zone": "a"}}})
        assert await here.node_of("web") == "near"
        assert (await status_of(here, "c"))["allocation"]["nodeSelector"] == place


async def test_a_pod_that_cannot_be_bound_gives_its_claim_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bind = DefaultBinder.bind
    failures = [Conflict(409, "Conflict", "not now") for _ in range(2)]

    async def fail_first(self: DefaultBinder, *given: Any) -> None:
        if failures:
            raise failures.pop()
        await bind(self, *given)

    monkeypatch.setattr(DefaultBinder, "bind", fail_first)
    async with stage(tmp_path, configuration=Configuration(first_backoff=0.05)) as here:
        await here.node("only")
        await put(here, device_class(), resource_slice("only", device("gpu-0")), claim("c"))
        made = await here.pod("web", **using("c"))
        assert await here.node_of("web") == "only"
        reserved = (await status_of(here, "c"))["reservedFor"]
        assert [each["uid"] for each in reserved] == [made["metadata"]["uid"]]
        assert await devices_of(here, "c") == ["gpu-0"]


async def test_an_answer_that_is_lost_neither_loses_a_device_nor_gives_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = Client.patch
    lost: list[Any] = []

    async def forgetful(self: Client, kind: Any, *given: Any, **options: Any) -> bytes:
        answer = await patch(self, kind, *given, **options)
        if kind is CLAIM and len(lost) < 2:
            lost.append(answer)
            raise Unavailable(503, "ServiceUnavailable", "gone")
        return answer

    monkeypatch.setattr(Client, "patch", forgetful)
    async with stage(tmp_path) as here:
        await here.node("only")
        await put(
            here, device_class(), resource_slice("only", device("gpu-0"), device("gpu-1")), claim("c"), claim("d")
        )
        await here.pod("web", **using("c"))
        await here.pod("other", **using("d"))
        assert {await here.node_of("web"), await here.node_of("other")} == {"only"}
        assert sorted(await devices_of(here, "c") + await devices_of(here, "d")) == ["gpu-0", "gpu-1"]
        assert len(lost) == 2


async def test_a_claim_that_changes_while_it_is_written_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = ClaimWriter.write
    changed: list[bytes] = []

    async def meddled(self: ClaimWriter, latest: Any, *given: Any) -> Any:
        if not changed:
            changed.append(await self._client.patch(CLAIM, "default", "c", {"metadata": {"labels": {"a": "b"}}}))
        return await attempt(self, latest, *given)

    monkeypatch.setattr(ClaimWriter, "write", meddled)
    async with stage(tmp_path) as here:
        await here.node("only")
        await put(here, device_class(), resource_slice("only", device("gpu-0")), claim("c"))
        await here.pod("web", **using("c"))
        assert await here.node_of("web") == "only"
        assert (await read(here.client, "ResourceClaim", "c", api_version=V1))["metadata"]["labels"] == {"a": "b"}
        assert changed


async def test_a_pod_that_is_gone_before_it_is_tried_takes_no_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = DynamicResources.warm
    begun = asyncio.Event()

    def endless(self: DynamicResources, info: PodInfo) -> Iterator[None]:
        begun.set()
        while info.key[1] == "gone" and self.handle.informers.of(Pod).get(*info.key) is not None:
            yield
        yield from warm(self, info)

    reserved: list[str] = []
    reserve = DynamicResources.reserve

    def noted(self: DynamicResources, cycle: Cycle, node: str) -> str:
        reserved.append(cycle.pod.key[1])
        return reserve(self, cycle, node)

    monkeypatch.setattr(DynamicResources, "warm", endless)
    monkeypatch.setattr(DynamicResources, "reserve", noted)
    monkeypatch.setattr(scheduling, "SLICE_SECONDS", 0.0)
    async with stage(tmp_path) as here:
        await here.node("only")
        await put(here, device_class(), resource_slice("only", device("gpu-0")), claim("c"))
        await here.pod("gone", **using("c"))
        await begun.wait()
        await here.delete("gone")
        await here.pod("web", **using("c"))
        assert await here.node_of("web") == "only"
    assert reserved == ["web"]


async def test_many_claims_are_written_at_a_time_but_not_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = ClaimWriter.write
    now, most = 0, 0

    async def watched(self: ClaimWriter, *given: Any) -> Any:
        nonlocal now, most
        now += 1
        most = max(most, now)
        try:
            return await attempt(self, *given)
        finally:
            now -= 1

    monkeypatch.setattr(ClaimWriter, "write", watched)
    monkeypatch.setattr(writing, "_AT_ONCE", 3)
    async with stage(tmp_path) as here:
        await here.node("only")
        await put(here, device_class(), resource_slice("only", *(device(f"gpu-{number}") for number in range(12))))
        await here.stop()
        for number in range(12):
            await put(here, claim(f"c{number}"))
            await here.pod(f"p{number}", **using(f"c{number}"))
        await here.restart()
        assert {await here.node_of(f"p{number}") for number in range(12)} == {"only"}
    assert most == 3


async def test_profiles_do_not_give_the_same_device_to_two_claims(tmp_path: Path) -> None:
    configuration = Configuration((ProfileSpec(), ProfileSpec("other")))
    async with stage(tmp_path, configuration=configuration) as here:
        await here.node("only")
        await put(here, device_class(), resource_slice("only", device("gpu-0"), device("gpu-1")))
        for name, scheduler in (("c", "default-scheduler"), ("d", "other")):
            await put(here, claim(name))
            await here.pod(name, schedulerName=scheduler, **using(name))
        assert sorted(await devices_of(here, "c") + await devices_of(here, "d")) == ["gpu-0", "gpu-1"]


async def test_devices_that_are_in_use_are_known_after_a_restart(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only")
        await put(here, device_class(), resource_slice("only", device("gpu-0")), claim("c"), claim("d"))
        await here.pod("first", **using("c"))
        await here.node_of("first")
        await here.restart()
        await here.pod("second", **using("d"))
        await here.unschedulable("second", "cannot allocate all claims")
        await here.pod("plain")
        assert await here.node_of("plain") == "only"
