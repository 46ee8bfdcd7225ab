"""Which devices claims get, worked out without a server."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moorage.api.decode import convert
from moorage.api.resource import (
    DeviceTaintRule,
)
from tests.scheduler.devices.devicekit import DRIVER, Data, claim, device, device_class, resource_slice, taint
from tests.scheduler.devices.devices_on_table import IS_A100, NOT_ENOUGH, DevicesOnTable, everything, exactly, ways


class TestWhatAClaimGets:
    def test_devices_are_given_in_the_order_of_pools_slices_and_devices(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(
            resource_slice("n", device("x"), name="a", pool="second"),
            resource_slice("n", device("d"), device("c"), name="z", pool="first", count=2),
            resource_slice("n", device("e"), name="b", pool="first", count=2),
        )
        assert shop.choose(shop.ask(claim("c", exactly(4))), "n") == [["e", "d", "c", "x"]]

    def test_a_count_that_is_not_there_is_not_enough(self) -> None:
        shop = DevicesOnTable("two", "one", "none")
        shop.offer(resource_slice("two", device("a"), device("b")), resource_slice("one", device("a")))
        assert shop.why(shop.ask(claim("c", exactly(2)))) == {"one": NOT_ENOUGH, "none": NOT_ENOUGH}

    def test_selectors_of_the_class_and_of_the_request_must_both_hold(self) -> None:
        shop = DevicesOnTable("n", classes=[device_class("gpu", IS_A100)])
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
        shop = DevicesOnTable("n")
        attributes = {
            "model": {"string": "a100"}, "count": {"int": 8}, "version": {"version": "1.10.0"},
            "other.example.com/healthy": {"bool": True},
        }  # fmt: skip
        described = {"name": "a", "attributes": attributes, "capacity": {"memory": {"value": "40Gi"}}}
        shop.offer(resource_slice("n", described))
        assert shop.choose(shop.ask(claim("c", exactly(selector=expression))), "n") == [["a"]]

    def test_an_expression_that_fails_says_so_where_it_fails(self) -> None:
        shop = DevicesOnTable("good", "bad")
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
        shop = DevicesOnTable("n", classes=[device_class("gpu", expression)])
        shop.offer(resource_slice("n", device("a")))
        (sentence,) = shop.why(shop.ask(claim("c", exactly()))).values()
        assert sentence.startswith(f"class gpu: selector #0: CEL compile error: {problem}")

    def test_a_device_whose_version_is_none_is_an_error_for_every_selector(self) -> None:
        shop = DevicesOnTable("n", classes=[device_class("gpu", "true")])
        shop.offer(resource_slice("n", {"name": "a", "attributes": {"driver": {"version": "1.x"}}}))
        (sentence,) = shop.why(shop.ask(claim("c", exactly()))).values()
        assert f"on device {DRIVER}/n/a: CEL runtime error: attribute driver: parse semantic version: " in sentence

    def test_two_claims_of_a_pod_and_two_requests_of_a_claim_get_different_devices(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", *(device(name) for name in "abc")))
        given = shop.ask(claim("c", exactly(name="x"), exactly(name="y")), claim("d", exactly()))
        assert shop.choose(given, "n") == [["a", "b"], ["c"]]

    def test_a_request_gives_way_so_that_another_can_be_satisfied(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a", model="a100"), device("b", model="k80")))
        given = shop.ask(claim("c", exactly(name="any"), exactly(name="special", selector=IS_A100)))
        assert shop.choose(given, "n") == [["b", "a"]]

    def test_a_device_that_needs_conditions_before_binding_is_given_to_nobody(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a") | {"bindingConditions": ["Attached"]}))
        assert shop.why(shop.ask(claim("c", exactly()))) == {"n": NOT_ENOUGH}

    def test_pools_with_such_devices_are_used_last(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(
            resource_slice("n", device("slow") | {"bindingConditions": ["Attached"]}, device("a"), name="first"),
            resource_slice("n", device("b"), name="second"),
        )
        assert shop.choose(shop.ask(claim("c", exactly(2))), "n") == [["b", "a"]]

    def test_a_device_that_cannot_be_judged_counts_before_one_that_is_lacking(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("good", model="a100"), device("odd")))
        given = shop.ask(claim("c", exactly(name="x", selector=IS_A100), exactly(5, name="y")))
        (sentence,) = shop.why(given).values()
        assert f"on device {DRIVER}/n/odd: CEL runtime error" in sentence

    def test_parts_of_a_device_by_capacity_are_refused_with_a_reason(self) -> None:
        shop = DevicesOnTable("n")
        given = shop.ask(claim("c", exactly(capacity={"requests": {"memory": "1Gi"}})))
        (sentence,) = shop.why(given).values()
        assert sentence.startswith("claim default/c, request gpu: has capacity requests")


class TestAll:
    def test_all_devices_that_match_are_given(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a", model="a100"), device("b", model="k80"), device("c", model="a100")))
        assert shop.choose(shop.ask(claim("c", everything(selector=IS_A100))), "n") == [["a", "c"]]

    def test_all_of_nothing_is_not_enough(self) -> None:
        shop = DevicesOnTable("n")
        assert shop.why(shop.ask(claim("c", everything()))) == {"n": NOT_ENOUGH}

    def test_one_device_in_use_or_tainted_spoils_it(self) -> None:
        shop = DevicesOnTable("used", "tainted")
        shop.offer(resource_slice("used", device("a"), device("b")))
        shop.offer(resource_slice("tainted", device("a"), device("b", taint("1"))))
        shop.choose(shop.ask(claim("first", exactly())), "used")
        assert shop.why(shop.ask(claim("c", everything()))) == {"used": NOT_ENOUGH, "tainted": NOT_ENOUGH}

    def test_a_pool_that_is_being_updated_must_be_waited_for(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a"), count=2))
        assert shop.why(shop.ask(claim("c", everything()))) == {
            "n": f"claim default/c, request gpu: asks for all devices, but resource pool {DRIVER}/n is currently "
            "being updated"
        }

    def test_even_one_whose_devices_do_not_match_as_far_as_they_are_known(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a", model="a100"), name="whole"))
        shop.offer(resource_slice("n", device("b", model="k80"), name="part", count=2))
        (sentence,) = shop.why(shop.ask(claim("c", everything(selector=IS_A100)))).values()
        assert sentence.endswith(f"resource pool {DRIVER}/part is currently being updated")

    def test_the_first_pool_that_is_in_the_way_is_named(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("x"), name="first"), resource_slice("n", name="second", count=2))
        (sentence,) = shop.why(shop.ask(claim("c", everything(selector=IS_A100)))).values()
        assert f"on device {DRIVER}/first/x: CEL runtime error" in sentence

    def test_a_claim_can_have_32_devices_at_most(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", *(device(f"d{number}") for number in range(33))))
        assert shop.why(shop.ask(claim("c", everything()))) == {
            "n": "claim default/c: number of requested devices 33 exceeds the claim limit of 32"
        }
        assert not shop.why(shop.ask(claim("d", exactly(32))))
        assert shop.why(shop.ask(claim("e", exactly(33)))) == {
            "n": "claim default/e: number of requested devices 33 exceeds the claim limit of 32"
        }

    def test_devices_that_contradict_a_constraint_are_an_error(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a", numa=0), device("b", numa=1)))
        given = shop.ask(claim("c", everything(), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]))
        assert shop.why(given) == {
            "n": f"claim default/c, request gpu: cannot add device {DRIVER}/n/b because a claim constraint would not "
            "be satisfied"
        }


class TestWays:
    CLASSES = (device_class("best", IS_A100), device_class("any"))

    def test_the_first_way_that_can_be_had_is_taken(self) -> None:
        shop = DevicesOnTable("both", "one", classes=self.CLASSES)
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
        shop = DevicesOnTable("both", "one", classes=self.CLASSES)
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
        shop = DevicesOnTable("n", classes=self.CLASSES)
        shop.offer(resource_slice("n", device("a", model="a100"), device("k", model="k80")))
        given = shop.ask(claim("c", ways("best", "any"), exactly(name="second", class_name="best")))
        assert shop.choose(given, "n") == [["k", "a"]]

    def test_a_way_that_needs_too_many_devices_is_passed_over(self) -> None:
        shop = DevicesOnTable("n", classes=self.CLASSES)
        shop.offer(resource_slice("n", *(device(f"d{number}", model="a100") for number in range(40))))
        given = shop.ask(claim("c", exactly(30, class_name="any"), ways("best", "any", best=5, any=2)))
        (devices,) = shop.choose(given, "n")
        assert len(devices) == 32


class TestConstraints:
    def test_all_devices_have_the_attribute_in_common(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a", numa=0), device("b", numa=1), device("none"), device("c", numa=1)))
        given = shop.ask(claim("c", exactly(2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]))
        assert shop.choose(given, "n") == [["b", "c"]]

    def test_all_devices_differ_in_the_attribute(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a", numa=0), device("b", numa=0), device("c", numa=1)))
        given = shop.ask(claim("c", exactly(2), constraints=[{"distinctAttribute": f"{DRIVER}/numa"}]))
        assert shop.choose(given, "n") == [["a", "c"]]

    def test_a_constraint_on_some_requests_leaves_the_others_alone(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a", numa=0), device("b", numa=1), device("c", numa=0)))
        constraint = {"requests": ["x", "z"], "matchAttribute": f"{DRIVER}/numa"}
        given = shop.ask(claim("c", exactly(name="x"), exactly(name="y"), exactly(name="z"), constraints=[constraint]))
        assert shop.choose(given, "n") == [["a", "b", "c"]]

    def test_the_same_number_as_text_is_something_else(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a", numa=1), device("b", numa="1")))
        given = shop.ask(claim("c", exactly(2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]))
        assert shop.why(given) == {"n": NOT_ENOUGH}

    def test_a_search_in_vain_ends(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", *(device(f"d{number}", id=number // 7) for number in range(28))))
        rules = [{"matchAttribute": f"{DRIVER}/id"}, {"requests": ["b"], "distinctAttribute": f"{DRIVER}/id"}]
        given = shop.ask(claim("c", exactly(5, name="a"), exactly(2, name="b"), constraints=rules))
        assert set(shop.why(given)) == {"n"}


class TestTaints:
    @pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
    def test_a_tainted_device_needs_a_toleration(self, effect: str) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a", taint("1", effect))))
        assert shop.why(shop.ask(claim("c", exactly()))) == {"n": NOT_ENOUGH}
        tolerated = exactly(tolerations=[{"key": "hours", "operator": "Exists", "effect": effect}])
        assert shop.choose(shop.ask(claim("d", tolerated)), "n") == [["a"]]

    def test_a_taint_without_effect_is_only_a_remark(self) -> None:
        shop = DevicesOnTable("n")
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
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a", taint("7000")), device("b", taint("25", key="other"))))
        shop.offer(resource_slice("n", device("c", taint("25")), name="more"))
        wanted = [toleration, {"key": "hours", "operator": "Equal", "value": "25", "effect": "NoExecute"}]
        shop.choose(shop.ask(claim("first", exactly(tolerations=[{"key": "hours", "value": "7000"}]))), "n")
        assert shop.choose(shop.ask(claim("c", exactly(tolerations=wanted))), "n") == [["c"]]

    def test_a_value_that_is_no_number_is_not_tolerated_and_is_made_known(self) -> None:
        shop = DevicesOnTable("n")
        parse_errors = []
        shop.handle.parse_error = lambda tolerations, found: parse_errors.append(found.value)
        shop.offer(resource_slice("n", device("a", taint("high"))))
        wanted = exactly(tolerations=[{"key": "hours", "operator": "Gt", "value": "1"}])
        assert shop.why(shop.ask(claim("c", wanted))) == {"n": NOT_ENOUGH}
        assert parse_errors == ["high"]

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
        shop = DevicesOnTable("n", "m")
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
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a"), device("b")))
        assert shop.choose(shop.ask(claim("c", exactly())), "n") == [["a"]]
        admin = shop.ask(claim("admin", everything(adminAccess=True)))
        assert shop.choose(admin, "n") == [["a", "b"]]
        assert shop.choose(shop.ask(claim("d", exactly())), "n") == [["b"]]

    def test_one_claim_gets_a_device_once(self) -> None:
        shop = DevicesOnTable("n")
        shop.offer(resource_slice("n", device("a")))
        given = shop.ask(claim("c", exactly(name="x", adminAccess=True), exactly(name="y", adminAccess=True)))
        assert shop.why(given) == {"n": NOT_ENOUGH}
