"""What is remembered of devices is what a new search would find, and no device is ever given to two claims."""

from __future__ import annotations

import itertools
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
from moorage.api.resource import (
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from moorage.scheduler.devices import inventory
from moorage.scheduler.devices.allocator import Search
from moorage.scheduler.devices.answers import FAULTY, FITS, Devices, PlanAnswers
from moorage.scheduler.devices.answers import NOT_ENOUGH as LACKING
from moorage.scheduler.devices.plan import Fault
from moorage.scheduler.framework import Cycle
from moorage.scheduler.plugins.dynamicresources import DynamicResources
from tests.scheduler.devices.devicekit import (
    DRIVER,
    Data,
    claim,
    device,
    device_class,
    request,
    resource_slice,
    taint,
    using,
)
from tests.scheduler.devices.devices_on_table import IS_A100, DevicesOnTable, everything, exactly, place, ways
from tests.scheduler.plugin_on_table import pod


def counted_searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The groups of nodes about which is asked from now on."""
    asked: list[int] = []
    answer = PlanAnswers.answer

    def counted(self: PlanAnswers, number: int) -> int:
        asked.append(number)
        return answer(self, number)

    monkeypatch.setattr(PlanAnswers, "answer", counted)
    return asked


def test_a_pod_like_the_last_one_costs_only_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = DevicesOnTable(*(f"n{number}" for number in range(50)))
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
    shop = DevicesOnTable(*(f"n{number}" for number in range(20)), classes=[device_class("net", is_net)])
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
    shop = DevicesOnTable(*(f"n{number}" for number in range(20)))
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
    shop = DevicesOnTable("n")
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
    with patch.object(inventory, "SPARE_SUPPLIES", spare):
        play(DevicesOnTable("n0", "n1", "n2"), changes, give_back)


def play(shop: DevicesOnTable, changes: list[Any], give_back: bool) -> None:
    """Make changes, and see after each that nothing is remembered that is not true any more."""
    plugin = shop.plugin
    assert isinstance(plugin, DynamicResources)
    known, pods = plugin.devices, [shop.ask(each) for each in PLANS]
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


def found_anew(known: Devices, answers: PlanAnswers, row: int) -> int:
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
        self.shop = DevicesOnTable(*self.NODES)
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
        return plugin.devices.ledger

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
        """What is given away: written, or reserved and not yet given back."""
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
            self.shop.handle.informers.of(ResourceClaim).put(self.api[name])

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
        assumed = {each.claim.metadata.name for each in self.ledger.assumed.values()}
        assert assumed == waiting | set(self.unseen), "nothing is remembered for longer than it must be"


Trade.TestCase.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
TestTrade = Trade.TestCase
