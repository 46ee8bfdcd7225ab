"""A pod that lacks devices is told which device has which taint, is in use, or is not what which selector demands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.api.pod import Pod
from moorage.scheduler.devices import shortages
from moorage.scheduler.explaining import EXAMINED
from moorage.scheduler.framework import Explained
from tests.plane import create
from tests.scheduler.devices import devicekit as kit
from tests.scheduler.devices.devices_on_table import DevicesOnTable, everything, exactly, ways
from tests.scheduler.stage import stage

Data = dict[str, Any]
LESS = {"key": "hours", "operator": "Lt", "value": "100"}
MORE = {**LESS, "value": "1000"}
LARGE = "device.attributes['gpu.example.com'].size > 40"
GPU = "device a/gpu-0"
TAINTED = f"taint hours=900: 900 is not less than 100 ({GPU})"


def explained(shop: DevicesOnTable, given: Pod) -> list[Explained]:
    return list(shop.plugin.explain(shop.begin(given), shop.table.alive.nonzero()[0]))


def told(shop: DevicesOnTable, given: Pod) -> dict[str, int]:
    return {each.text: each.nodes for each in explained(shop, given)}


def gpus(**spec: Any) -> Data:
    return kit.resource_slice("a", *(kit.device(f"gpu-{at}", kit.taint("900"), size=24) for at in range(2)), **spec)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (exactly(tolerations=[LESS]), f"request gpu: {TAINTED}"),
        (exactly(3, tolerations=[LESS]), f"request gpu for 3 devices: {TAINTED}"),
        (everything(tolerations=[LESS]), f"request gpu: {TAINTED}"),
        (exactly(), f"request gpu: taint hours=900: no toleration for this key ({GPU})"),
        (exactly(3, tolerations=[MORE]), "request gpu for 3 devices: the node has fewer devices"),
        (exactly(selector=LARGE), f"request gpu: `{LARGE}` does not select {GPU}"),
        (exactly(class_name="large"), f"request gpu: `{LARGE}` of class large does not select {GPU}"),
        (ways("large", "gpu"), f"request any/way-0: `{LARGE}` of class large does not select {GPU}"),
    ],
)
def test_which_device_and_which_taint_or_selector(request_: Data, why: str) -> None:
    shop = DevicesOnTable("a", "b", "c", classes=(kit.device_class(), kit.device_class("large", LARGE)))
    shop.offer(gpus())
    given = shop.ask(kit.claim("web", request_))
    words = told(shop, given)
    assert words.pop(why) == 1
    assert [*words.values()] == [2]
    assert next(iter(words)).endswith(": the node has no devices")


def test_devices_that_others_have_are_no_secret_and_the_words_do_not_depend_on_which() -> None:
    shop = DevicesOnTable("a")
    shop.offer(kit.resource_slice("a", kit.device("gpu-0"), kit.device("gpu-1")))
    shop.choose(shop.ask(kit.claim("one", exactly())), "a")
    both = shop.ask(kit.claim("both", exactly(2)))
    assert told(shop, both) == {"request gpu for 2 devices: devices are in use by other claims": 1}
    shop.choose(shop.ask(kit.claim("two", exactly())), "a")
    assert told(shop, both) == {"request gpu for 2 devices: devices are in use by other claims": 1}


def test_a_pool_that_is_being_updated_is_named() -> None:
    shop = DevicesOnTable("a")
    shop.offer(gpus(count=2))
    assert told(shop, shop.ask(kit.claim("web", exactly()))) == {
        "request gpu: resource pool gpu.example.com/a is being updated": 1
    }


def test_requests_that_only_fail_together() -> None:
    shop = DevicesOnTable("a")
    shop.offer(kit.resource_slice("a", kit.device("gpu-0")))
    two = kit.claim("web", exactly(), exactly(name="more"))
    assert told(shop, shop.ask(two)) == {"each request could have devices, but not all of them together": 1}


def test_the_number_of_devices_that_are_looked_at_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number}" for number in range(EXAMINED)]
    shop = DevicesOnTable(*names)
    shop.offer(
        *(kit.resource_slice(name, *(kit.device(f"g{at}", kit.taint("900")) for at in range(9))) for name in names)
    )
    monkeypatch.setattr(shortages, "LOOKS", 100)
    words = explained(shop, shop.ask(kit.claim("web", exactly(tolerations=[LESS]))))
    assert sum(each.nodes for each in words) == EXAMINED
    assert sum(each.nodes for each in words if "hours=900" in each.text) == 10
    assert {each.text for each in words if "hours=900" not in each.text} == {"other devices"}


async def test_the_event_of_a_pod_says_it_after_the_words_of_kubernetes(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for name in ("a", "b"):
            await here.node(name, {"place": name})
        for each in (kit.device_class(), gpus(), kit.claim("web", exactly(tolerations=[LESS]))):
            await create(here.client, each)
        await here.pod("web", **kit.using("web"))
        message = await here.unschedulable("web", "2 cannot allocate all claims")
        none = "request gpu: the node has no devices on 1 node"
        assert message.endswith(f"Why: request gpu: {TAINTED} on 1 node; {none}.")
