"""Which devices claims get, worked out without a server, and that no device is ever given to two claims."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterable, Mapping
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moorage.api.decode import convert
from moorage.api.pod import Pod
from moorage.api.resource import (
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from moorage.scheduler.devices import inventory
from moorage.scheduler.devices.allocator import Search
from moorage.scheduler.devices.answers import FAULTY, FITS, Answers, Devices
from moorage.scheduler.devices.answers import NOT_ENOUGH as LACKING
from moorage.scheduler.devices.plan import Fault
from moorage.scheduler.framework import Cycle
from moorage.scheduler.plugins.dynamicresources import DynamicResources
from tests.scheduler.alone import Alone, pod
from tests.scheduler.devicekit import DRIVER, Data, claim, device, device_class, request, resource_slice, taint, using

NOT_ENOUGH = "cannot allocate all claims"
ELSEWHERE = "resourceclaim not available on the node"
IS_A100 = f'device.attributes["{DRIVER}"].model == "a100"'


class Shop(Alone):
    """Devices, claims, and a plugin that hands them out."""

    def __init__(self, *nodes: str, classes: Iterable[Data] = (device_class(),)) -> None:
        super().__init__(DynamicResources, {name: {"name": name} for name in nodes})
        self.claims: dict[str, ResourceClaim] = {}
        for each in classes:
            self.told(convert(each, DeviceClass))

    def offer(self, *slices: Data) -> None:
        for each in slices:
            self.told(convert(each, ResourceSlice))

    def ask(self, *claims: Data, **status: Any) -> Pod:
        """A pod that uses these new claims."""
        for each in claims:
            name = each["metadata"]["name"]
            metadata = {**each["metadata"], "uid": f"uid-of-{name}"}
            self.claims[name] = convert({**each, "metadata": metadata, "status": status}, ResourceClaim)
            self.told(self.claims[name])
        return pod(**using(*(each["metadata"]["name"] for each in claims)))

    def why(self, given: Pod) -> dict[str, str]:
        """Why nodes will not do."""
        return {node: reason for node, (reason, _) in self.reasons(given).items()}

    def begin(self, given: Pod) -> Cycle:
        """A pod for which something was found in claims and classes; nodes come next."""
        cycle = self.cycle(given)
        assert self.plugin.pre_filter(cycle) is None
        return cycle

    def choose(self, given: Pod, node: str) -> list[list[str]]:
        """The devices that each claim gets when a pod goes to a node; they are taken from now on."""
        cycle = self.begin(given)
        assert self.plugin.reserve(cycle, node) == ""
        return [[each.device for each in result.devices.results] for result in self.results(cycle)]

    def results(self, cycle: Cycle) -> list[AllocationResult]:
        """What would be written into the claims of a pod."""
        return list(cycle.data[self.plugin.name].allocations.values())


def ways(*class_names: str, **counts: int) -> Data:
    """A request that is content with one of these classes, the first if possible."""
    listed = [
        {"name": f"way-{at}", "deviceClassName": name, "allocationMode": "ExactCount", "count": counts.get(name, 1)}
        for at, name in enumerate(class_names)
    ]
    return {"name": "any", "firstAvailable": listed}


def exactly(count: int = 1, **more: Any) -> Data:
    return request(allocationMode="ExactCount", count=count, **more)


def everything(**more: Any) -> Data:
    return request(allocationMode="All", **more)


def place(key: str, *values: str) -> Data:
    requirement = {"key": key, "operator": "In", "values": list(values)}
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}


def plain(value: Any) -> Any:
    """A value as it is written."""
    return msgspec.json.decode(msgspec.json.encode(value))


class TestWhatAClaimGets:
    def test_devices_are_given_in_the_order_of_pools_slices_and_devices(self) -> None:
        shop = Shop("n")
        shop.offer(
            resource_slice("n", device("x"), name="a", pool="second"),
            resource_slice("n", device("d"), device("c"), name="z", pool="first", count=2),
            resource_slice("n", device("e"), name="b", pool="first", count=2),
        )
        assert shop.choose(shop.ask(claim("c", exactly(4))), "n") == [["e", "d", "c", "x"]]

    def test_a_count_that_is_not_there_is_not_enough(self) -> None:
        shop = Shop("two", "one", "none")
        shop.offer(resource_slice("two", device("a"), device("b")), resource_slice("one", device("a")))
        assert shop.why(shop.ask(claim("c", exactly(2)))) == {"one": NOT_ENOUGH, "none": NOT_ENOUGH}

    def test_selectors_of_the_class_and_of_the_request_must_both_hold(self) -> None:
        shop = Shop("n", classes=[device_class("gpu", IS_A100)])
        shop.offer(
            resource_slice(
                "n", device("old", model="k80", index=1), device("first", model="a100", index=0),
                device("both", model="a100", index=1),
            )
        )  # fmt: skip
        wanted = exactly(selector=f'device.attributes["{DRIVER}"].index > 0')
        assert shop.choose(shop.ask(claim("c", wanted)), "n") == [["both"]]

    @pytest.mark.parametrize(
        "expression",
        [
            f'device.driver == "{DRIVER}"',
            f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) == 0',
            f'device.attributes["{DRIVER}"].version.isGreaterThan(semver("1.9.0"))',
            'device.attributes["other.example.com"].healthy',
            '!("nobody.example.com" in device.attributes)',
            '!has(device.attributes["nobody.example.com"].model)',
            f'cel.bind(mine, device.attributes["{DRIVER}"], mine.model == "a100" && mine.count == 8)',
            "!device.allowMultipleAllocations",
        ],
    )
    def test_what_expressions_can_read_of_a_device(self, expression: str) -> None:
        shop = Shop("n")
        attributes = {
            "model": {"string": "a100"}, "count": {"int": 8}, "version": {"version": "1.10.0"},
            "other.example.com/healthy": {"bool": True},
        }  # fmt: skip
        described = {"name": "a", "attributes": attributes, "capacity": {"memory": {"value": "40Gi"}}}
        shop.offer(resource_slice("n", described))
        assert shop.choose(shop.ask(claim("c", exactly(selector=expression))), "n") == [["a"]]

    def test_an_expression_that_fails_says_so_where_it_fails(self) -> None:
        shop = Shop("good", "bad")
        shop.offer(resource_slice("good", device("a", model="a100")), resource_slice("bad", device("a")))
        sentence = f"claim default/c: selector #0 on device {DRIVER}/bad/a: CEL runtime error: no such key: model"
        assert shop.why(shop.ask(claim("c", exactly(selector=IS_A100)))) == {"bad": sentence}

    @pytest.mark.parametrize(
        ("expression", "problem"),
        [
            ("device.nothing", "ERROR: <input>:1:7: undefined field"),
            ("cel.bind(1, 2, true)", "ERROR: <input>:1:10: cel.bind() variable names must be simple identifiers"),
            ("device.driver.bind(a, 2, true)", "ERROR: <input>:1:19: undeclared reference to 'bind'"),
            ("device.driver", "must evaluate to bool"),
        ],
    )
    def test_a_class_that_does_not_compile_says_so(self, expression: str, problem: str) -> None:
        shop = Shop("n", classes=[device_class("gpu", expression)])
        shop.offer(resource_slice("n", device("a")))
        (sentence,) = shop.why(shop.ask(claim("c", exactly()))).values()
        assert sentence.startswith(f"class gpu: selector #0: CEL compile error: {problem}")

    def test_a_device_whose_version_is_none_is_an_error_for_every_selector(self) -> None:
        shop = Shop("n", classes=[device_class("gpu", "true")])
        shop.offer(resource_slice("n", {"name": "a", "attributes": {"driver": {"version": "1.x"}}}))
        (sentence,) = shop.why(shop.ask(claim("c", exactly()))).values()
        assert f"on device {DRIVER}/n/a: CEL runtime error: attribute driver: parse semantic version: " in sentence

    def test_two_claims_of_a_pod_and_two_requests_of_a_claim_get_different_devices(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", *(device(name) for name in "abc")))
        given = shop.ask(claim("c", exactly(name="x"), exactly(name="y")), claim("d", exactly()))
        assert shop.choose(given, "n") == [["a", "b"], ["c"]]

    def test_a_request_gives_way_so_that_another_can_be_satisfied(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a", model="a100"), device("b", model="k80")))
        given = shop.ask(claim("c", exactly(name="any"), exactly(name="special", selector=IS_A100)))
        assert shop.choose(given, "n") == [["b", "a"]]

    def test_a_device_that_needs_conditions_before_binding_is_given_to_nobody(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a") | {"bindingConditions": ["Attached"]}))
        assert shop.why(shop.ask(claim("c", exactly()))) == {"n": NOT_ENOUGH}

    def test_pools_with_such_devices_are_used_last(self) -> None:
        shop = Shop("n")
        shop.offer(
            resource_slice("n", device("slow") | {"bindingConditions": ["Attached"]}, device("a"), name="first"),
            resource_slice("n", device("b"), name="second"),
        )
        assert shop.choose(shop.ask(claim("c", exactly(2))), "n") == [["b", "a"]]

    def test_a_device_that_cannot_be_judged_counts_before_one_that_is_lacking(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("good", model="a100"), device("odd")))
        given = shop.ask(claim("c", exactly(name="x", selector=IS_A100), exactly(5, name="y")))
        (sentence,) = shop.why(given).values()
        assert f"on device {DRIVER}/n/odd: CEL runtime error" in sentence

    def test_parts_of_a_device_by_capacity_are_refused_with_a_reason(self) -> None:
        shop = Shop("n")
        given = shop.ask(claim("c", exactly(capacity={"requests": {"memory": "1Gi"}})))
        (sentence,) = shop.why(given).values()
        assert sentence.startswith("claim default/c, request gpu: has capacity requests")


class TestAll:
    def test_all_devices_that_match_are_given(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a", model="a100"), device("b", model="k80"), device("c", model="a100")))
        assert shop.choose(shop.ask(claim("c", everything(selector=IS_A100))), "n") == [["a", "c"]]

    def test_all_of_nothing_is_not_enough(self) -> None:
        shop = Shop("n")
        assert shop.why(shop.ask(claim("c", everything()))) == {"n": NOT_ENOUGH}

    def test_one_device_in_use_or_tainted_spoils_it(self) -> None:
        shop = Shop("used", "tainted")
        shop.offer(resource_slice("used", device("a"), device("b")))
        shop.offer(resource_slice("tainted", device("a"), device("b", taint("1"))))
        shop.choose(shop.ask(claim("first", exactly())), "used")
        assert shop.why(shop.ask(claim("c", everything()))) == {"used": NOT_ENOUGH, "tainted": NOT_ENOUGH}

    def test_a_pool_that_is_being_updated_must_be_waited_for(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a"), count=2))
        assert shop.why(shop.ask(claim("c", everything()))) == {
            "n": f"claim default/c, request gpu: asks for all devices, but resource pool {DRIVER}/n is currently "
            "being updated"
        }

    def test_even_one_whose_devices_do_not_match_as_far_as_they_are_known(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a", model="a100"), name="whole"))
        shop.offer(resource_slice("n", device("b", model="k80"), name="part", count=2))
        (sentence,) = shop.why(shop.ask(claim("c", everything(selector=IS_A100)))).values()
        assert sentence.endswith(f"resource pool {DRIVER}/part is currently being updated")

    def test_the_first_pool_that_is_in_the_way_is_named(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("x"), name="first"), resource_slice("n", name="second", count=2))
        (sentence,) = shop.why(shop.ask(claim("c", everything(selector=IS_A100)))).values()
        assert f"on device {DRIVER}/first/x: CEL runtime error" in sentence

    def test_a_claim_can_have_32_devices_at_most(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", *(device(f"d{number}") for number in range(33))))
        assert shop.why(shop.ask(claim("c", everything()))) == {
            "n": "claim default/c: number of requested devices 33 exceeds the claim limit of 32"
        }
        assert not shop.why(shop.ask(claim("d", exactly(32))))
        assert shop.why(shop.ask(claim("e", exactly(33)))) == {
            "n": "claim default/e: number of requested devices 33 exceeds the claim limit of 32"
        }

    def test_devices_that_contradict_a_constraint_are_an_error(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a", numa=0), device("b", numa=1)))
        given = shop.ask(claim("c", everything(), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]))
        assert shop.why(given) == {
            "n": f"claim default/c, request gpu: cannot add device {DRIVER}/n/b because a claim constraint would not "
            "be satisfied"
        }


class TestWays:
    CLASSES = (device_class("best", IS_A100), device_class("any"))

    def test_the_first_way_that_can_be_had_is_taken(self) -> None:
        shop = Shop("both", "one", classes=self.CLASSES)
        shop.offer(resource_slice("both", device("k", model="k80"), device("a", model="a100")))
        shop.offer(resource_slice("one", device("k", model="k80")))
        given = shop.ask(claim("c", ways("best", "any")))
        cycle = shop.begin(given)
        assert shop.plugin.reserve(cycle, "both") == ""
        (result,) = shop.results(cycle)[0].devices.results
        assert (result.request, result.device) == ("any/way-0", "a")
        shop.plugin.unreserve(cycle, "both")
        assert shop.choose(given, "one") == [["k"]]

    def test_nodes_with_a_better_way_score_more(self) -> None:
        shop = Shop("both", "one", classes=self.CLASSES)
        shop.offer(resource_slice("both", device("a", model="a100")), resource_slice("one", device("k", model="k80")))
        cycle = shop.begin(shop.ask(claim("c", ways("best", "any"))))
        rows = shop.table.alive.nonzero()[0]
        assert shop.plugin.pre_score(cycle) is None
        scores = shop.plugin.normalize(cycle, shop.plugin.score(cycle, rows))
        assert {shop.name(row): score for row, score in zip(rows.tolist(), scores.tolist(), strict=True)} == {
            "both": 100,
            "one": 87,
        }

    def test_a_second_way_is_taken_when_the_first_leaves_nothing_for_another_request(self) -> None:
        shop = Shop("n", classes=self.CLASSES)
        shop.offer(resource_slice("n", device("a", model="a100"), device("k", model="k80")))
        given = shop.ask(claim("c", ways("best", "any"), exactly(name="second", class_name="best")))
        assert shop.choose(given, "n") == [["k", "a"]]

    def test_a_way_that_needs_too_many_devices_is_passed_over(self) -> None:
        shop = Shop("n", classes=self.CLASSES)
        shop.offer(resource_slice("n", *(device(f"d{number}", model="a100") for number in range(40))))
        given = shop.ask(claim("c", exactly(30, class_name="any"), ways("best", "any", best=5, any=2)))
        (devices,) = shop.choose(given, "n")
        assert len(devices) == 32


class TestConstraints:
    def test_all_devices_have_the_attribute_in_common(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a", numa=0), device("b", numa=1), device("none"), device("c", numa=1)))
        given = shop.ask(claim("c", exactly(2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]))
        assert shop.choose(given, "n") == [["b", "c"]]

    def test_all_devices_differ_in_the_attribute(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a", numa=0), device("b", numa=0), device("c", numa=1)))
        given = shop.ask(claim("c", exactly(2), constraints=[{"distinctAttribute": f"{DRIVER}/numa"}]))
        assert shop.choose(given, "n") == [["a", "c"]]

    def test_a_constraint_on_some_requests_leaves_the_others_alone(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a", numa=0), device("b", numa=1), device("c", numa=0)))
        constraint = {"requests": ["x", "z"], "matchAttribute": f"{DRIVER}/numa"}
        given = shop.ask(claim("c", exactly(name="x"), exactly(name="y"), exactly(name="z"), constraints=[constraint]))
        assert shop.choose(given, "n") == [["a", "b", "c"]]

    def test_the_same_number_as_text_is_something_else(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a", numa=1), device("b", numa="1")))
        given = shop.ask(claim("c", exactly(2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]))
        assert shop.why(given) == {"n": NOT_ENOUGH}

    def test_a_search_in_vain_ends(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", *(device(f"d{number}", id=number // 7) for number in range(28))))
        rules = [{"matchAttribute": f"{DRIVER}/id"}, {"requests": ["b"], "distinctAttribute": f"{DRIVER}/id"}]
        given = shop.ask(claim("c", exactly(5, name="a"), exactly(2, name="b"), constraints=rules))
        assert set(shop.why(given)) == {"n"}


class TestTaints:
    @pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
    def test_a_tainted_device_needs_a_toleration(self, effect: str) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a", taint("1", effect))))
        assert shop.why(shop.ask(claim("c", exactly()))) == {"n": NOT_ENOUGH}
        tolerated = exactly(tolerations=[{"key": "hours", "operator": "Exists", "effect": effect}])
        assert shop.choose(shop.ask(claim("d", tolerated)), "n") == [["a"]]

    def test_a_taint_without_effect_is_only_a_remark(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a", taint("1", "None"))))
        assert shop.choose(shop.ask(claim("c", exactly())), "n") == [["a"]]

    @pytest.mark.parametrize(
        "toleration",
        [
            {"key": "hours", "operator": "Gt", "value": "24"},
            {"key": "hours", "operator": "Lt", "value": "26"},
            {"key": "hour*", "operator": "Exists"},
            {"key": "hours", "operator": "SemverGt", "value": "24.9.9"},
            {"expression": 'taint.key == "hours" && int(taint.value) == 25'},
        ],
    )
    def test_every_operator_works_on_devices(self, toleration: Data) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a", taint("7000")), device("b", taint("25", key="other"))))
        shop.offer(resource_slice("n", device("c", taint("25")), name="more"))
        wanted = [toleration, {"key": "hours", "operator": "Equal", "value": "25", "effect": "NoExecute"}]
        shop.choose(shop.ask(claim("first", exactly(tolerations=[{"key": "hours", "value": "7000"}]))), "n")
        assert shop.choose(shop.ask(claim("c", exactly(tolerations=wanted))), "n") == [["c"]]

    def test_a_value_that_is_no_number_is_not_tolerated_and_is_made_known(self) -> None:
        shop = Shop("n")
        unclear = []
        shop.handle.unclear = lambda tolerations, found: unclear.append(found.value)
        shop.offer(resource_slice("n", device("a", taint("high"))))
        wanted = exactly(tolerations=[{"key": "hours", "operator": "Gt", "value": "1"}])
        assert shop.why(shop.ask(claim("c", wanted))) == {"n": NOT_ENOUGH}
        assert unclear == ["high"]

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ({}, {"n": NOT_ENOUGH, "m": NOT_ENOUGH}),
            (None, {}),
            ({"driver": DRIVER}, {"n": NOT_ENOUGH, "m": NOT_ENOUGH}),
            ({"driver": "another"}, {}),
            ({"pool": "n"}, {"n": NOT_ENOUGH}),
            ({"driver": DRIVER, "pool": "n", "device": "a"}, {"n": NOT_ENOUGH}),
            ({"driver": DRIVER, "pool": "n", "device": "z"}, {}),
        ],
    )
    def test_rules_add_taints(self, selector: Data | None, expected: Mapping[str, str]) -> None:
        shop = Shop("n", "m")
        shop.offer(resource_slice("n", device("a")), resource_slice("m", device("a")))
        given = shop.ask(claim("c", exactly()))
        assert not shop.why(given)
        spec = {"taint": taint("1", "NoExecute", "broken")} | ({} if selector is None else {"deviceSelector": selector})
        found = convert({"metadata": {"name": "r"}, "spec": spec}, DeviceTaintRule)
        shop.told(found)
        assert shop.why(given) == expected
        shop.told_gone(found)
        assert not shop.why(given)


class TestAdministration:
    def test_devices_in_use_can_be_looked_after_and_stay_in_use(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a"), device("b")))
        assert shop.choose(shop.ask(claim("c", exactly())), "n") == [["a"]]
        admin = shop.ask(claim("admin", everything(adminAccess=True)))
        assert shop.choose(admin, "n") == [["a", "b"]]
        assert shop.choose(shop.ask(claim("d", exactly())), "n") == [["b"]]

    def test_one_claim_gets_a_device_once(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a")))
        given = shop.ask(claim("c", exactly(name="x", adminAccess=True), exactly(name="y", adminAccess=True)))
        assert shop.why(given) == {"n": NOT_ENOUGH}


class TestPools:
    def test_only_the_newest_generation_counts(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("old"), name="s1", pool="p"))
        shop.offer(resource_slice("n", device("new"), name="s2", pool="p", generation=2))
        assert shop.choose(shop.ask(claim("c", exactly())), "n") == [["new"]]

    def test_a_pool_that_is_not_complete_is_not_used(self) -> None:
        shop = Shop("n")
        given = shop.ask(claim("c", exactly()))
        shop.offer(resource_slice("n", device("a"), name="s1", pool="p", count=2))
        assert shop.why(given) == {"n": NOT_ENOUGH}
        shop.offer(resource_slice("n", device("b"), name="s2", pool="p", count=2))
        assert not shop.why(given)

    def test_names_that_are_not_unique_make_a_pool_invalid(self) -> None:
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a"), name="s1", pool="p", count=2))
        shop.offer(resource_slice("n", device("a"), name="s2", pool="p", count=2))
        assert shop.why(shop.ask(claim("c", exactly()))) == {"n": "invalid resource pools were encountered"}

    def test_devices_can_be_used_from_where_their_slice_says(self) -> None:
        shop = Shop("n", "m", "o")
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
        shop = Shop("n", "m", "o")
        devices = (
            device("x") | {"nodeName": "n"}, device("y") | {"nodeSelector": place("name", "m")},
            device("z") | {"allNodes": True},
        )  # fmt: skip
        shop.offer(resource_slice("", *devices, name="p", perDeviceNodeSelection=True))
        assert shop.why(shop.ask(claim("c", exactly(2)))) == {"o": NOT_ENOUGH}
        assert shop.choose(shop.ask(claim("d", exactly(2))), "n") == [["x", "z"]]
        assert shop.choose(shop.ask(claim("e", exactly())), "m") == [["y"]]

    def test_a_node_that_changes_its_labels_reaches_other_devices(self) -> None:
        shop = Shop("n", "m")
        shop.offer(resource_slice("", device("a"), name="p", nodeSelector=place("zone", "a")))
        given = shop.ask(claim("c", exactly()))
        assert set(shop.why(given)) == {"n", "m"}
        shop.node("m", {"zone": "a"})
        assert set(shop.why(given)) == {"n"}
        shop.table.remove_node("m")
        shop.node("new", {"zone": "a"})
        assert set(shop.why(given)) == {"n"}

    def test_nodes_that_come_and_go_leave_nothing_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inventory, "_SPARE", 4)
        shop = Shop("n")
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
        assert len(shop.plugin._devices.inventory.supplies) < 12

    @pytest.mark.parametrize("model", ["a100", "k80"])
    def test_devices_that_come_and_go_leave_nothing_behind(self, model: str) -> None:
        shop = Shop("n", classes=[device_class("gpu", IS_A100)])
        given = shop.ask(claim("c", exactly()))
        for number in range(200):
            shop.offer(resource_slice("n", device("a", model=model, number=number), generation=number + 1))
            assert bool(shop.why(given)) == (model == "k80")
        gc.collect()
        answers = shop.begin(given).data[shop.plugin.name].answers
        assert len(answers._groups) < 100
        assert len(answers._asked_for) < 100

    def test_partitions_share_what_their_pool_counts(self) -> None:
        def part(name: str, memory: str) -> Data:
            taken = {"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}
            return device(name) | {"consumesCounters": [taken]}

        shop = Shop("n")
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
        shop = Shop("n0", "n1", "n2")
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
        shop = Shop("n")
        taken = {"counterSet": "nothing", "counters": {"memory": {"value": "1"}}}
        shop.offer(resource_slice("n", device("a") | {"consumesCounters": [taken]}))
        assert shop.why(shop.ask(claim("c", exactly()))) == {"n": "invalid resource pools were encountered"}


class TestResults:
    def test_the_nodes_are_those_from_where_all_devices_can_be_used(self) -> None:
        shop = Shop("n")
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

        shop = Shop("n", classes=[device_class("gpu", config=[{"opaque": opaque("class")}]), device_class("plain")])
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
        shop = Shop("n", "m")
        assert shop.why(shop.ask(claim("c"), **self.allocated(node="n"))) == {"m": ELSEWHERE}
        assert not shop.why(shop.ask(claim("d"), **self.allocated()))

    def test_256_pods_can_share_a_claim(self) -> None:
        shop = Shop("n")
        assert not shop.why(shop.ask(claim("c"), **self.allocated(users=255)))
        assert shop.why(shop.ask(claim("d"), **self.allocated(users=256))) == {"": "resourceclaim in use"}

    def test_their_devices_are_taken_also_when_no_slice_has_them_yet(self) -> None:
        shop = Shop("n")
        shop.ask(claim("c"), **self.allocated(node="n"))
        shop.offer(resource_slice("n", device("a")))
        assert shop.why(shop.ask(claim("d", exactly()))) == {"n": NOT_ENOUGH}

    @pytest.mark.parametrize(("users", "is_freed"), [(0, True), (1, False)])
    def test_devices_in_the_wrong_place_are_taken_from_a_claim_that_nobody_uses(
        self, users: int, is_freed: bool
    ) -> None:
        shop = Shop("m")
        given = shop.ask(claim("c"), **self.allocated(node="n", users=users))
        cycle = shop.begin(given)
        rows = shop.table.alive.nonzero()[0]
        rejections = {shop.plugin.name: list(shop.plugin.diagnose(cycle, rows))}
        nomination = shop.plugin.post_filter(cycle, rejections)
        assert (nomination.act is not None) is is_freed
        assert nomination.message == ("deallocation of ResourceClaim completed" if is_freed else "")


class TestBeforeNodes:
    def test_a_pod_without_claims_costs_nothing(self) -> None:
        shop = Shop("n")
        assert not shop.plugin.applies(shop.cycle(pod()).shape)

    @pytest.mark.parametrize(
        ("metadata", "reason"),
        [
            ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, 'resourceclaim "c" is being deleted'),
            ({"name": "other"}, 'could not find ResourceClaim "default/c"'),
        ],
    )
    def test_a_claim_that_cannot_be_used_keeps_the_pod_waiting(self, metadata: Data, reason: str) -> None:
        shop = Shop("n")
        manifest = claim("c")
        manifest["metadata"] |= metadata
        shop.ask(manifest)
        assert shop.why(pod(**using("c"))) == {"": reason}

    def test_a_claim_made_from_a_template_must_be_the_pods_own(self) -> None:
        shop = Shop("n")
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
        shop = Shop("n")
        shop.offer(resource_slice("n", device("a")))
        shop.choose(shop.ask(claim("c", exactly())), "n")
        assert shop.why(pod(**using("c"))) == {"": "resource claim default/c is in the process of being allocated"}


class TestWaking:
    def woken(self, shop: Shop) -> bool:
        found, shop.woken = bool(shop.woken), []
        return found

    def test_only_changes_that_could_matter_wake_pods(self) -> None:
        shop = Shop("n")
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


def counted_searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The groups of nodes about which is asked from now on."""
    asked: list[int] = []
    answer = Answers._answer

    def counted(self: Answers, number: int) -> int:
        asked.append(number)
        return answer(self, number)

    monkeypatch.setattr(Answers, "_answer", counted)
    return asked


def test_a_pod_like_the_last_one_costs_only_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(*(f"n{number}" for number in range(50)))
    shop.offer(*(resource_slice(f"n{number}", device("a"), device("b")) for number in range(40)))
    searches = counted_searches(monkeypatch)
    assert len(shop.why(shop.ask(claim("c", exactly())))) == 10
    assert len(searches) == 41, "one for each node with devices, one for all without"
    shop.choose(pod(**using("c")), "n7")
    searches.clear()
    assert len(shop.why(shop.ask(claim("d", exactly())))) == 10
    assert len(searches) == 1


def test_nodes_that_differ_only_in_devices_that_nobody_asks_for_are_asked_about_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_net = f'device.attributes["{DRIVER}"].model == "net"'
    shop = Shop(*(f"n{number}" for number in range(20)), classes=[device_class("net", is_net)])
    shop.offer(*(resource_slice(f"n{number}", device("gpu", model="a100")) for number in range(10)))
    shop.offer(resource_slice("", device("a", model="net"), device("b", model="net"), name="net", allNodes=True))
    searches = counted_searches(monkeypatch)
    assert not shop.why(shop.ask(claim("c", exactly(2, class_name="net"))))
    assert len(searches) == 2, "one for all nodes, one for rows without a node"
    shop.choose(shop.ask(claim("d", exactly(class_name="net"))), "n3")
    searches.clear()
    assert len(shop.why(pod(**using("c")))) == 20
    assert len(searches) == 1


def test_what_takes_long_can_be_done_before_in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(*(f"n{number}" for number in range(20)))
    shop.offer(*(resource_slice(f"n{number}", device("a"), device("b")) for number in range(20)))
    given = shop.ask(claim("c", exactly()))
    steps = shop.plugin.warm(shop.shapes.info(given))
    for _ in range(30):
        next(steps)
    shop.offer(resource_slice("n3", device("a", taint("1"))), resource_slice("n4", generation=2))
    shop.told_gone(convert(resource_slice("n5"), ResourceSlice))
    assert len(list(steps)) > 10
    shop.plugin.pre_filter(shop.cycle(given))
    list(shop.plugin.warm(shop.shapes.info(given)))
    searches = counted_searches(monkeypatch)
    assert sorted(shop.why(given)) == ["n3", "n4", "n5"]
    assert not searches


def test_pods_that_cannot_be_placed_yet_are_not_prepared() -> None:
    shop = Shop("n")
    for given in (
        pod(**using("missing")),
        shop.ask(claim("c", request(class_name="unknown"))),
        shop.ask(claim("d"), allocation={}),
    ):
        assert not list(shop.plugin.warm(shop.shapes.info(given)))


NUMA = {"constraints": [{"matchAttribute": f"{DRIVER}/numa"}]}
PLANS = [
    claim("one", exactly()),
    claim("selected", exactly(2, selector=IS_A100)),
    claim("tolerant", exactly(2, tolerations=[{"operator": "Exists"}])),
    claim("aligned", exactly(2), **NUMA),
    claim("several", exactly(name="x"), exactly(name="y", selector=f'"numa" in device.attributes["{DRIVER}"]')),
    claim("all", everything()),
    claim("ways", ways("gpu", gpu=3), **NUMA),
    claim("admin", exactly(3, adminAccess=True)),
]
DEVICES = st.lists(
    st.builds(
        lambda tainted, attributes: (tainted, attributes),
        st.booleans(),
        st.fixed_dictionaries({}, optional={"model": st.sampled_from(["a100", "k80"]), "numa": st.integers(0, 1)}),
    ),
    max_size=4,
)
CHANGES = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(["n0", "n1", "everywhere"]), DEVICES),
    st.tuples(st.just("take"), st.sampled_from(["n0", "n1", "n2"]), st.sampled_from([0, 1, 3])),
    st.tuples(st.just("label"), st.sampled_from(["n0", "n1", "n2"]), st.sampled_from(["yes", "no"])),
)


@settings(max_examples=100, deadline=None)
@given_any(changes=st.lists(CHANGES, max_size=8), give_back=st.booleans(), spare=st.sampled_from([-3, 1024]))
def test_what_is_known_is_what_a_new_search_would_find(changes: list[Any], give_back: bool, spare: int) -> None:
    with patch.object(inventory, "_SPARE", spare):
        play(Shop("n0", "n1", "n2"), changes, give_back)


def play(shop: Shop, changes: list[Any], give_back: bool) -> None:
    """Make changes, and see after each that nothing is remembered that is not true any more."""
    plugin = shop.plugin
    assert isinstance(plugin, DynamicResources)
    known, pods = plugin._devices, [shop.ask(each) for each in PLANS]
    reserved: list[tuple[Cycle, str]] = []
    for number, (what, where, value) in enumerate(changes):
        if what == "publish":
            devices = [device(f"d{at}", *[taint("1")] * bad, **more) for at, (bad, more) in enumerate(value)]
            selected: Data = {"nodeSelector": place("gpu", "yes")} if where == "everywhere" else {}
            name = "" if selected else where
            shop.offer(resource_slice(name, *devices, name=where, generation=number + 1, **selected))
        elif what == "label":
            shop.node(where, {"gpu": value})
        elif reserved and give_back:
            plugin.unreserve(*reserved.pop())
        else:
            cycle = shop.begin(shop.ask(claim(f"c{number}", PLANS[value]["spec"]["devices"]["requests"][0])))
            if plugin.reserve(cycle, where) == "":
                reserved.append((cycle, where))
        for asking in pods:
            cycle = shop.begin(asking)
            answers = cycle.data[plugin.name].answers
            for node, row in shop.table.rows.items():
                assert answers.codes(np.array([row]))[0] == found_anew(known, answers, row), (node, asking.spec)


def found_anew(known: Devices, answers: Answers, row: int) -> int:
    """What can be said of a row, from all the devices that it can use."""
    views = known.inventory.supplies[known.inventory.of_row[row]].views
    try:
        picks = Search(answers.plan, views, known.ledger.taken).run()
    except Fault:
        return FAULTY
    return FITS if picks is not None else LACKING


class Trade(RuleBasedStateMachine):
    """Claims come, are given devices, are written down late or never, and go, while slices change under them."""

    NODES = ("n0", "n1", "n2")

    @initialize()
    def open(self) -> None:
        self.shop = Shop(*self.NODES)
        self.slices: dict[str, ResourceSlice] = {}
        self.api: dict[str, ResourceClaim] = {}
        """The claims as the API has them; informers may not know yet."""
        self.unseen: list[str] = []
        self.pending: dict[str, tuple[Cycle, str]] = {}
        self.numbers = itertools.count()

    @property
    def ledger(self) -> Any:
        plugin = self.shop.plugin
        assert isinstance(plugin, DynamicResources)
        return plugin._devices.ledger

    def state(self, cycle: Cycle) -> Any:
        """What the plugin keeps about a pod."""
        return cycle.data[self.shop.plugin.name]

    @rule(
        name=st.sampled_from(NODES), count=st.integers(0, 3), tainted=st.booleans(), net=st.booleans(),
        generation=st.integers(1, 3),
    )  # fmt: skip
    def publish(self, name: str, count: int, tainted: bool, net: bool, generation: int) -> None:
        taints = [taint("5")] if tainted else []
        devices = [device(f"d{number}", *(taints if number == 0 else ())) for number in range(count)]
        if net:
            made = resource_slice("", *devices, name=f"net-{name}", generation=generation,
                                  nodeSelector=place("name", name, "n0"))  # fmt: skip
        else:
            made = resource_slice(name, *devices, generation=generation)
        found = convert(made, ResourceSlice)
        self.slices[found.metadata.name] = found
        self.shop.told(found)

    @precondition(lambda self: self.slices)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        self.shop.told_gone(self.slices.pop(data.draw(st.sampled_from(sorted(self.slices)))))

    @rule(
        count=st.integers(1, 3), everything_=st.booleans(), tolerant=st.booleans(), node=st.sampled_from(NODES),
        pair=st.booleans(),
    )  # fmt: skip
    def ask(self, count: int, everything_: bool, tolerant: bool, node: str, pair: bool) -> None:
        tolerations = [{"key": "hours", "operator": "Gt", "value": "4"}] if tolerant else []
        wanted = everything(tolerations=tolerations) if everything_ else exactly(count, tolerations=tolerations)
        names = [f"c{next(self.numbers)}" for _ in range(1 + pair)]
        given = self.shop.ask(*(claim(name, wanted) for name in names))
        self.api |= {name: self.shop.claims[name] for name in names}
        cycle = self.shop.begin(given)
        rows = self.shop.table.alive.nonzero()[0]
        mask = self.shop.plugin.filter(cycle, rows)
        fits = {self.shop.name(row) for row, found in zip(rows.tolist(), mask, strict=True) if found}
        expected = {each for each in self.NODES if self.fits(each, count, everything_, tolerant, len(names))}
        assert fits == expected
        if node in fits:
            assert self.shop.plugin.reserve(cycle, node) == ""
            self.pending[names[0]] = (cycle, node)

    def fits(self, node: str, count: int, everything_: bool, tolerant: bool, claims: int) -> bool:
        """Whether claims can be satisfied from a node, by counting."""
        matching = [
            ((each.spec.pool.name, found.name), found)
            for each in self.slices.values()
            for found in each.spec.devices
            if each.spec.node_name == node or (not each.spec.node_name and node in ("n0", each.spec.pool.name[4:]))
        ]
        usable = [name for name, found in matching if name not in self.held() and (tolerant or not found.taints)]
        if everything_:
            return claims == 1 and bool(matching) and len(usable) == len(matching)
        return len(usable) >= count * claims

    def held(self) -> set[tuple[str, str]]:
        """What is given away: written, or promised and not yet taken back."""
        found = [each.status.allocation for each in self.api.values() if each.status.allocation]
        for cycle, _ in self.pending.values():
            found += self.shop.results(cycle)
        return {(each.pool, each.device) for allocation in found for each in allocation.devices.results}

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), early=st.booleans())
    def write(self, data: st.DataObject, early: bool) -> None:
        """The devices are written; informers hear of it before the answer comes, or later."""
        cycle, _ = self.pending.pop(data.draw(st.sampled_from(sorted(self.pending))))
        state = self.state(cycle)
        for lacking in state.lacks:
            name = lacking.metadata.name
            self.api[name] = self.renewed(lacking, ResourceClaimStatus(state.allocations[lacking.metadata.uid]))
            if early:
                self.see(name)
            else:
                self.unseen.append(name)
            self.ledger.written(self.api[name])

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def protect(self, data: st.DataObject) -> None:
        """A claim changes in something else before its devices are written."""
        name = data.draw(st.sampled_from(sorted(self.pending)))
        self.api[name] = self.renewed(self.api[name], ResourceClaimStatus())
        self.see(name)

    def renewed(self, old: ResourceClaim, status: ResourceClaimStatus) -> ResourceClaim:
        """A claim with a new status and revision."""
        version = msgspec.structs.replace(old.metadata, resource_version=str(10**9 + next(self.numbers)))
        return msgspec.structs.replace(old, status=status, metadata=version)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        cycle, node = self.pending.pop(data.draw(st.sampled_from(sorted(self.pending))))
        self.shop.plugin.unreserve(cycle, node)

    @precondition(lambda self: self.unseen)
    @rule()
    def hear(self) -> None:
        self.see(self.unseen.pop(0))

    def see(self, name: str) -> None:
        if name in self.api:
            self.shop.handle.informers.of(ResourceClaim)._put(self.api[name])

    @precondition(lambda self: any(each.status.allocation for each in self.api.values()))
    @rule(data=st.data(), whole=st.booleans())
    def give_back(self, data: st.DataObject, whole: bool) -> None:
        """Somebody takes the devices from a claim, or deletes it whole; informers hear of all that came before."""
        while self.unseen:
            self.hear()
        allocated = sorted(name for name, each in self.api.items() if each.status.allocation)
        name = data.draw(st.sampled_from(allocated))
        if whole:
            self.shop.told_gone(self.api.pop(name))
            return
        self.api[name] = self.renewed(self.api[name], ResourceClaimStatus())
        self.see(name)

    @invariant()
    def no_device_is_given_twice(self) -> None:
        given = [each.status.allocation for each in self.api.values() if each.status.allocation]
        for cycle, _ in self.pending.values():
            given += self.shop.results(cycle)
        devices = [(each.pool, each.device) for allocation in given for each in allocation.devices.results]
        assert len(devices) == len(set(devices))
        assert {(each.pool, each.device) for each in self.ledger.taken} == set(devices)
        waiting = {each.metadata.name for cycle, _ in self.pending.values() for each in self.state(cycle).lacks}
        assumed = {each.claim.metadata.name for each in self.ledger._assumed.values()}
        assert assumed == waiting | set(self.unseen), "nothing is remembered for longer than it must be"


Trade.TestCase.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
TestTrade = Trade.TestCase
