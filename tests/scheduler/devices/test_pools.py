"""Devices in pools, what claims hold already, and what is decided before nodes are asked."""

from __future__ import annotations

import gc
from typing import cast

import msgspec
import pytest

from moorage.api.decode import convert
from moorage.api.resource import (
    AllocationResult,
    Device,
    ResourceClaimStatus,
    ResourceSlice,
)
from moorage.match.devices import DeviceExpression
from moorage.match.verdict import MATCH, Verdict
from moorage.scheduler.devices import inventory, pools
from moorage.scheduler.devices.pools import MOST_SELECTORS, Traits
from moorage.scheduler.plugins.dynamicresources import DynamicResources
from tests.scheduler.devices.devicekit import DRIVER, Data, claim, device, device_class, resource_slice, taint, using
from tests.scheduler.devices.devices_on_table import (
    ELSEWHERE,
    IS_A100,
    NOT_ENOUGH,
    DevicesOnTable,
    exactly,
    place,
    plain,
    ways,
)
from tests.scheduler.plugin_on_table import pod


class Asked:
    """An expression that counts how often it is evaluated."""

    def __init__(self, number: int) -> None:
        self.digest = number.to_bytes(16, "big")
        self.times = 0

    def verdict(self, _: object) -> Verdict:
        self.times += 1
        return MATCH


def test_the_more_devices_there_are_the_fewer_verdicts_are_kept_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    monkeypatch.setattr(pools, "_known_traits", dict.fromkeys(range(10)))
    monkeypatch.setattr(pools, "_VERDICTS", 6_000)
    traits = Traits(DRIVER, Device(name="a"))
    asked = [Asked(number) for number in range(600)]
    for _ in range(2):
        for each in asked:
            traits.verdict(cast(DeviceExpression, each))
    assert sum(each.times for each in asked) == 600, "no more than there may be"
    monkeypatch.setattr(pools, "_VERDICTS", 10)
    for each in [Asked(number) for number in range(600, 600 + MOST_SELECTORS)] * 2:
        traits.verdict(cast(DeviceExpression, each))
        assert each.times == 1, "those of one pod stay"
    traits.verdict(cast(DeviceExpression, asked[0]))
    assert asked[0].times == 2, "others had to go"


class TestPools:
    def test_only_the_newest_generation_counts(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("old"), name="s1", pool="p"))
        shop.offer(resource_slice("n", device("new"), name="s2", pool="p", generation=2))
        assert shop.choose(shop.ask(claim("c", exactly())), "n") == [["new"]]

    def test_a_pool_that_is_not_complete_is_not_used(self) -> None:
        shop = DevicesOnTable("n")
        given = shop.ask(claim("c", exactly()))
        shop.offer(resource_slice("n", device("a"), name="s1", pool="p", count=2))
        assert shop.why(given) == {"n": NOT_ENOUGH}
        shop.offer(resource_slice("n", device("b"), name="s2", pool="p", count=2))
        assert not shop.why(given)

    def test_names_that_are_not_unique_make_a_pool_invalid(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a"), name="s1", pool="p", count=2))
        shop.offer(resource_slice("n", device("a"), name="s2", pool="p", count=2))
        assert shop.why(shop.ask(claim("c", exactly()))) == {"n": "invalid resource pools were encountered"}

    def test_devices_can_be_used_from_where_their_slice_says(self) -> None:
        shop = DevicesOnTable("n", "m", "o")
        shop.offer(
            resource_slice("n", device("local")),
            resource_slice("", device("some"), name="some", nodeSelector=place("name", "m", "n")),
        )
        given = shop.ask(claim("c", exactly()))
        assert shop.why(given) == {"o": NOT_ENOUGH}
        shop.offer(resource_slice("", device("all"), name="all", allNodes=True))
        assert not shop.why(given)
        assert shop.why(shop.ask(claim("d", exactly(3)))) == {"m": NOT_ENOUGH, "o": NOT_ENOUGH}

    def test_devices_can_each_say_from_where_they_can_be_used(self) -> None:
        shop = DevicesOnTable("n", "m", "o")
        devices = (
            device("x") | {"nodeName": "n"}, device("y") | {"nodeSelector": place("name", "m")},
            device("z") | {"allNodes": True},
        )  # fmt: skip
        shop.offer(resource_slice("", *devices, name="p", perDeviceNodeSelection=True))
        assert shop.why(shop.ask(claim("c", exactly(2)))) == {"o": NOT_ENOUGH}
        assert shop.choose(shop.ask(claim("d", exactly(2))), "n") == [["x", "z"]]
        assert shop.choose(shop.ask(claim("e", exactly())), "m") == [["y"]]

    def test_a_node_that_changes_its_labels_reaches_other_devices(self) -> None:
        shop = DevicesOnTable("n", "m")
        shop.offer(resource_slice("", device("a"), name="p", nodeSelector=place("zone", "a")))
        given = shop.ask(claim("c", exactly()))
        assert set(shop.why(given)) == {"n", "m"}
        shop.node("m", {"zone": "a"})
        assert set(shop.why(given)) == {"n"}
        shop.table.remove_node("m")
        shop.node("new", {"zone": "a"})
        assert set(shop.why(given)) == {"n"}

    def test_nodes_that_come_and_go_leave_nothing_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inventory, "SPARE_SUPPLIES", 4)
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a")))
        given = shop.ask(claim("c", exactly()))
        for number in range(20):
            name = f"passing-{number}"
            shop.node(name, {})
            shop.offer(found := resource_slice(name, device("a")))
            assert not shop.why(given)
            shop.told_gone(convert(found, ResourceSlice))
            assert set(shop.why(given)) == {name}
            shop.table.remove_node(name)
        assert isinstance(shop.plugin, DynamicResources)
        assert len(shop.plugin.devices.inventory.supplies) < 12

    @pytest.mark.parametrize("model", ["a100", "k80"])
    def test_devices_that_come_and_go_leave_nothing_behind(self, model: str) -> None:
        shop = DevicesOnTable("n", classes=[device_class("gpu", IS_A100)])
        given = shop.ask(claim("c", exactly()))
        for number in range(200):
            shop.offer(resource_slice("n", device("a", model=model, number=number), generation=number + 1))
            assert bool(shop.why(given)) == (model == "k80")
        gc.collect()
        answers = shop.begin(given).data[shop.plugin.name].answers
        assert len(answers.groups) < 100
        assert len(answers.asked_for) < 100

    def test_partitions_share_what_their_pool_counts(self) -> None:
        def part(name: str, memory: str) -> Data:
            taken = {"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}
            return device(name) | {"consumesCounters": [taken]}

        shop = DevicesOnTable("n")
        shared = [{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]
        shop.offer(
            resource_slice("n", name="counters", pool="p", count=2, sharedCounters=shared),
            resource_slice(
                "n", part("whole", "40Gi"), part("half-0", "20Gi"), part("half-1", "20Gi"), name="devices", pool="p",
                count=2,
            ),
        )  # fmt: skip
        assert shop.why(shop.ask(claim("c", exactly(3)))) == {"n": NOT_ENOUGH}
        assert shop.choose(shop.ask(claim("d", exactly(2))), "n") == [["half-0", "half-1"]]
        assert shop.why(shop.ask(claim("e", exactly()))) == {"n": NOT_ENOUGH}

    def test_what_a_partition_takes_is_gone_for_other_nodes_too(self) -> None:
        taken = {"counterSet": "links", "counters": {"links": {"value": "1"}}}
        parts = [device(f"to-{node}") | {"nodeName": node, "consumesCounters": [taken]} for node in ("n0", "n1", "n2")]
        shop = DevicesOnTable("n0", "n1", "n2")
        shared = [{"name": "links", "counters": {"links": {"value": "2"}}}]
        shop.offer(
            resource_slice("", name="counters", pool="p", count=2, allNodes=True, sharedCounters=shared),
            resource_slice("", *parts, name="devices", pool="p", count=2, perDeviceNodeSelection=True),
        )
        given = shop.ask(claim("c", exactly()))
        assert not shop.why(given)
        shop.choose(shop.ask(claim("d", exactly())), "n0")
        assert shop.why(given) == {"n0": NOT_ENOUGH}
        shop.choose(shop.ask(claim("e", exactly())), "n1")
        assert sorted(shop.why(given)) == ["n0", "n1", "n2"]

    def test_a_partition_of_something_unknown_makes_a_pool_invalid(self) -> None:
        shop = DevicesOnTable("n")
        taken = {"counterSet": "nothing", "counters": {"memory": {"value": "1"}}}
        shop.offer(resource_slice("n", device("a") | {"consumesCounters": [taken]}))
        assert shop.why(shop.ask(claim("c", exactly()))) == {"n": "invalid resource pools were encountered"}


class TestResults:
    def test_the_nodes_are_those_from_where_all_devices_can_be_used(self) -> None:
        shop = DevicesOnTable("n")
        shop.node("n", {"zone": "a", "rack": "1"})
        zone, rack = place("zone", "a"), place("rack", "1")
        zone["nodeSelectorTerms"][0]["matchCELExpressions"] = ['node.labels["rack"] != ""']
        shop.offer(
            resource_slice("", device("a"), name="p", nodeSelector=zone),
            resource_slice("", device("b"), name="q", nodeSelector=rack),
            resource_slice("", device("c"), name="r", allNodes=True),
        )
        cycle = shop.begin(shop.ask(claim("c", exactly(2)), claim("d", exactly())))
        assert shop.plugin.reserve(cycle, "n") == ""
        first = plain(shop.results(cycle)[0].node_selector)
        expressions = [each["nodeSelectorTerms"][0]["matchExpressions"][0] for each in (zone, rack)]
        assert first == {
            "nodeSelectorTerms": [
                {"matchExpressions": expressions, "matchCELExpressions": ['node.labels["rack"] != ""']}
            ]
        }
        assert shop.results(cycle)[1].node_selector is None

    def test_what_class_and_claim_say_about_setting_up_is_passed_on(self) -> None:
        def opaque(value: str) -> Data:
            return {"driver": DRIVER, "parameters": {"kind": value}}

        shop = DevicesOnTable(
            "n", classes=[device_class("gpu", config=[{"opaque": opaque("class")}]), device_class("plain")]
        )
        shop.offer(resource_slice("n", *(device(name) for name in "abc")))
        config = [
            {"opaque": opaque("all")},
            {"requests": ["x"], "opaque": opaque("x")},
            {"requests": ["any/way-1"], "opaque": opaque("not chosen")},
        ]
        given = shop.ask(claim("c", exactly(name="x"), ways("plain", "gpu"), config=config))
        cycle = shop.begin(given)
        assert shop.plugin.reserve(cycle, "n") == ""
        assert plain(shop.results(cycle)[0].devices.config) == [
            {"source": "FromClass", "requests": ["x"], "opaque": opaque("class")},
            {"source": "FromClaim", "opaque": opaque("all")},
            {"source": "FromClaim", "requests": ["x"], "opaque": opaque("x")},
        ]


class TestClaimsThatHaveDevices:
    def allocated(self, *, node: str = "", users: int = 0) -> Data:
        result = {"request": "gpu", "driver": DRIVER, "pool": "n", "device": "a"}
        reserved = [{"resource": "pods", "name": f"p{number}", "uid": f"u{number}"} for number in range(users)]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        selector = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}} if node else {}
        return {"allocation": {"devices": {"results": [result]}, **selector}, "reservedFor": reserved}

    def test_a_pod_goes_where_the_devices_can_be_used(self) -> None:
        shop = DevicesOnTable("n", "m")
        assert shop.why(shop.ask(claim("c"), **self.allocated(node="n"))) == {"m": ELSEWHERE}
        assert not shop.why(shop.ask(claim("d"), **self.allocated()))

    def test_256_pods_can_share_a_claim(self) -> None:
        shop = DevicesOnTable("n")
        assert not shop.why(shop.ask(claim("c"), **self.allocated(users=255)))
        assert shop.why(shop.ask(claim("d"), **self.allocated(users=256))) == {"": "resourceclaim in use"}

    def test_their_devices_are_taken_also_when_no_slice_has_them_yet(self) -> None:
        shop = DevicesOnTable("n")
        shop.ask(claim("c"), **self.allocated(node="n"))
        shop.offer(resource_slice("n", device("a")))
        assert shop.why(shop.ask(claim("d", exactly()))) == {"n": NOT_ENOUGH}

    @pytest.mark.parametrize(("users", "is_freed"), [(0, True), (1, False)])
    def test_devices_in_the_wrong_place_are_taken_from_a_claim_that_nobody_uses(
        self, users: int, is_freed: bool
    ) -> None:
        shop = DevicesOnTable("m")
        given = shop.ask(claim("c"), **self.allocated(node="n", users=users))
        cycle = shop.begin(given)
        rows = shop.table.alive.nonzero()[0]
        rejections = {shop.plugin.name: list(shop.plugin.diagnose(cycle, rows))}
        nomination = shop.plugin.post_filter(cycle, rejections)
        assert (nomination.act is not None) is is_freed
        freed = "deallocation of ResourceClaim completed"
        assert nomination.message == (freed if is_freed else "still not schedulable")


class TestBeforeNodes:
    def test_a_pod_without_claims_costs_nothing(self) -> None:
        shop = DevicesOnTable("n")
        assert not shop.plugin.applies(shop.cycle(pod()).shape)

    @pytest.mark.parametrize(
        ("metadata", "reason"),
        [
            ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, 'resourceclaim "c" is being deleted'),
            ({"name": "other"}, 'could not find ResourceClaim "default/c"'),
        ],
    )
    def test_a_claim_that_cannot_be_used_keeps_the_pod_waiting(self, metadata: Data, reason: str) -> None:
        shop = DevicesOnTable("n")
        manifest = claim("c")
        manifest["metadata"] |= metadata
        shop.ask(manifest)
        assert shop.why(pod(**using("c"))) == {"": reason}

    def test_a_claim_made_from_a_template_must_be_the_pods_own(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a")))
        shop.ask(claim("made"))
        given = pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
        name = f"default/{given.metadata.name}"
        waits = shop.plugin.pre_enqueue(shop.shapes.info(given))
        assert waits == f'pod "{name}": ResourceClaim not created yet'
        status = convert({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]}, type(given.status))
        given = msgspec.structs.replace(given, status=status)
        assert shop.plugin.pre_enqueue(shop.shapes.info(given)) == ""
        assert shop.why(given) == {"": f"ResourceClaim default/made was not created for Pod {name} (Pod is not owner)"}

    def test_a_claim_whose_devices_are_being_written_must_be_waited_for(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a")))
        shop.choose(shop.ask(claim("c", exactly())), "n")
        assert shop.why(pod(**using("c"))) == {"": "resource claim default/c is in the process of being allocated"}


class TestWaking:
    def woken(self, shop: DevicesOnTable) -> bool:
        found, shop.woken = bool(shop.woken), []
        return found

    def test_only_changes_that_could_matter_wake_pods(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a")))
        first = shop.ask(claim("c", exactly()))
        assert self.woken(shop)
        cycle = shop.begin(first)
        shop.plugin.reserve(cycle, "n")
        shop.ask(claim("d", exactly()))
        assert not self.woken(shop), "a claim that no pod waits for"
        shop.plugin.unreserve(cycle, "n")
        assert self.woken(shop), "a device was given back"
        held = shop.claims["c"]
        allocation = AllocationResult()
        shop.told(msgspec.structs.replace(held, status=ResourceClaimStatus(allocation)))
        assert not self.woken(shop), "a claim got devices"
        shop.told(held)
        assert self.woken(shop), "a claim lost its devices"
        shop.plugin.post_filter(shop.cycle(pod(**using("e"))), {})
        shop.ask(claim("e", exactly()))
        assert self.woken(shop), "the claim that a pod waits for"
        shop.node("n", {"zone": "a"})
        assert self.woken(shop), "labels may bring devices within reach"
        shop.node("n", {"zone": "a"}, taint("1"))
        assert not self.woken(shop), "taints of nodes do not"
