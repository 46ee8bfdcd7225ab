"""Room is made by sums as it is by trial: the same victims, the same node and the same words, whatever happens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from moorage.api.decode import convert
from moorage.api.pod import Pod, PodDisruptionBudget
from moorage.scheduler.plugins.defaultpreemption import DefaultPreemption
from moorage.scheduler.pods import victimsearch
from moorage.scheduler.pods.victims import PreemptionCandidate, VictimsBySums, VictimsByTrial
from moorage.scheduler.table.nodes import NodeTable
from moorage.scheduler.table.shape import PodInfo
from tests.scheduler.profile_on_table import MINE, ProfileOnTable, configured, node, pod
from tests.seeds import seed

Data = dict[str, Any]
NODES = 12
GPU = "example.com/gpu"
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "hostname"}
        ]
    }
}


class Inexact(NodeTable):
    """A table whose sums nobody may trust, so that every question is a trial."""

    is_exact = property(lambda _: False)


class World:
    """One profile that may work with sums, and one that may not, which are told the same."""

    def __init__(self, chance: random.Random) -> None:
        args = {"minCandidateNodesPercentage": 30, "minCandidateNodesAbsolute": 2}
        self.chance = chance
        configuration = configured({"DefaultPreemption": args}, (*MINE, "InterPodAffinity"))
        self.sums, self.trials = (
            ProfileOnTable(configuration=configuration),
            ProfileOnTable(configuration=configuration),
        )
        self.trials.table.__class__ = Inexact
        self.there: dict[str, tuple[Pod, str]] = {}
        self.templates = [{"requests": {"cpu": "2"}, "priority": 10}, *(self.template() for _ in range(3))]
        for number in range(NODES):
            self.set_node(number)

    @property
    def both(self) -> tuple[ProfileOnTable, ProfileOnTable]:
        return self.sums, self.trials

    def set_node(self, number: int) -> None:
        room = {"cpu": self.chance.choice(["2", "3"]), "memory": "8Gi", "pods": self.chance.choice(["4", "6"])}
        if self.chance.random() < 0.5:
            room[GPU] = "4"
        given = node(f"n{number}", {"hostname": f"n{number}"}, room=room, unschedulable=self.chance.random() < 0.1)
        for each in self.both:
            each.table.set_node(given)

    def template(self) -> Data:
        """What a pod asks for that makes room for itself."""
        asked = {"cpu": self.chance.choice(["1", "1500m", "2"])}
        if self.chance.random() < 0.4:
            asked[GPU] = self.chance.choice(["1", "3"])
        more: Data = {"affinity": APART} if self.chance.random() < 0.2 else {}
        if self.chance.random() < 0.2:
            more["metadata"] = {"labels": {"app": "a"}}
        return {"requests": asked, "priority": self.chance.choice([5, 10]), **more}

    def other(self) -> Pod:
        """A pod that may be in the way."""
        asked = {"cpu": self.chance.choice(["250m", "500m", "1"]), "memory": "100Mi"}
        if self.chance.random() < 0.3:
            asked[GPU] = "1"
        metadata = {"labels": {"app": self.chance.choice("abc")}} if self.chance.random() < 0.5 else {}
        status = {"startTime": self.time()} if self.chance.random() < 0.7 else {}
        more: Data = {"affinity": APART} if self.chance.random() < 0.03 else {}
        return pod(asked, priority=self.chance.choice([0, 0, 1, 5, 20]), metadata=metadata, status=status, **more)

    def time(self) -> str:
        return f"2026-01-01T00:{self.chance.randrange(60):02}:00Z"

    def change(self) -> None:
        """Something happens."""
        happens = self.chance.choice(
            [self.come, self.come, self.come, self.go, self.start, self.nominate, self.release, self.budget, self.renew]
        )
        happens()

    def come(self) -> None:
        given, where = self.other(), f"n{self.chance.randrange(NODES)}"
        self.there[given.metadata.uid] = given, where
        for each in self.both:
            each.table.add_pod(each.info(given, where))

    def go(self) -> None:
        if self.there:
            given, where = self.there.pop(self.chance.choice(list(self.there)))
            for each in self.both:
                each.table.remove_pod(each.info(given, where))

    def start(self) -> None:
        """A pod has started, or was told to leave."""
        if self.there:
            uid = self.chance.choice(list(self.there))
            given, where = self.there[uid]
            status = msgspec.structs.replace(given.status, start_time=self.other_time())
            self.there[uid] = msgspec.structs.replace(given, status=status), where
            for each in self.both:
                each.table.replace_pod(each.info(self.there[uid][0], where))

    def other_time(self) -> Any:
        return convert({"startTime": self.time()}, type(pod().status)).start_time

    def nominate(self) -> None:
        given, where = self.asking(), f"n{self.chance.randrange(NODES)}"
        for each in self.both:
            each.handle.nominations.nominate(each.info(given), where)

    def release(self) -> None:
        named = [uid for pods in self.sums.handle.nominations.by_node.values() for uid in pods]
        if named:
            uid = self.chance.choice(named)
            for each in self.both:
                each.handle.nominations.release(uid)

    def budget(self) -> None:
        name = self.chance.choice("abc")
        spec, status = {"selector": {"matchLabels": {"app": name}}}, {"disruptionsAllowed": self.chance.randrange(3)}
        metadata = {"name": name, "namespace": "default", "uid": name}
        given = convert({"metadata": metadata, "spec": spec, "status": status}, PodDisruptionBudget)
        for each in self.both:
            each.told(given)

    def renew(self) -> None:
        self.set_node(self.chance.randrange(NODES))

    def asking(self) -> Pod:
        template = dict(self.chance.choice(self.templates))
        return pod(template.pop("requests"), **template)

    def answer(self, engine: ProfileOnTable, given: Pod, number: int) -> tuple[Any, ...]:
        """Where a pod may go, or how room would be made for it."""
        order = [dict(pods) for pods in engine.table.pods]
        engine.handle.random.seed(number)
        where = engine.best(given)
        engine.handle.random.seed(number)
        found = None
        if not where:
            cycle = engine.cycle(given)
            candidate = plugin(engine).choose(cycle, engine.runner.place(cycle).rejections)
            found = told(candidate)
        # A trial puts pods back in another order, which decides between pods that are equally important.
        engine.table.pods[:] = order
        return tuple(sorted(where)), found


def plugin(engine: ProfileOnTable) -> DefaultPreemption:
    found = engine.profile.post_filters[0]
    assert isinstance(found, DefaultPreemption)
    return found


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows on which victims are looked for by sums, from now on."""
    rows: list[int] = []
    on = VictimsBySums.on

    def noted(self: VictimsBySums, row: int, nominated: Sequence[PodInfo]) -> PreemptionCandidate | str | None:
        rows.append(row)
        return on(self, row, nominated)

    monkeypatch.setattr(VictimsBySums, "on", noted)
    return rows


def told(candidate: Any) -> Any:
    if hasattr(candidate, "victims"):
        return candidate.node, [victim.uid for victim in candidate.victims], candidate.violations, candidate.rank
    return candidate.message


@pytest.mark.seeded
@pytest.mark.parametrize("number", range(12))
def test_sums_and_trials_agree(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    by_sums = looked_at(monkeypatch)
    chance = random.Random(seed(18_000 + number))
    world = World(chance)
    for _ in range(60):
        world.come()
    for step in range(60):
        for _ in range(chance.randrange(4)):
            world.change()
        given = world.asking()
        assert world.answer(world.sums, given, step) == world.answer(world.trials, given, step)
    assert by_sums


@pytest.mark.seeded
@pytest.mark.parametrize("number", range(6))
def test_a_search_that_was_interrupted_finds_what_one_at_the_end_finds(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(victimsearch, "ROWS_A_STEP", 2)
    chance = random.Random(seed(18_100 + number))
    world = World(chance)
    interrupted = 0
    for _ in range(60):
        world.come()
    for step in range(30):
        given = pod({"cpu": "2"}, priority=10)
        cycle = world.sums.cycle(given)
        while (placement := world.sums.runner.place(cycle)).node:
            world.come()
        world.sums.handle.random.seed(step)
        for _ in world.sums.runner.search(cycle, placement):
            interrupted += 1
            world.change()
        at_end = world.sums.runner.start(cycle.pod)
        placement = world.sums.runner.place(at_end)
        if not placement.node:
            begin = plugin(world.sums)._searches.of(at_end)._found.begin  # noqa: SLF001 - the other begins there too
            other = world.trials.cycle(given)
            rejections = world.trials.runner.place(other).rejections
            plugin(world.trials)._searches.of(other)._found.begin = begin  # noqa: SLF001
            order = [dict(pods) for pods in world.trials.table.pods]
            expected = told(plugin(world.trials).choose(other, rejections))
            world.trials.table.pods[:] = order
            assert told(plugin(world.sums).choose(at_end, placement.rejections)) == expected
    assert interrupted


def test_nodes_that_have_not_changed_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = looked_at(monkeypatch)
    monkeypatch.setattr(VictimsByTrial, "on", lambda *_: pytest.fail("sums would do"))
    engine = ProfileOnTable(configuration=configured({"DefaultPreemption": {"minCandidateNodesPercentage": 100}}))
    for number in range(50):
        engine.table.set_node(node(f"n{number}"))
        engine.table.add_pod(engine.info(pod({"cpu": "4"}, priority=0), f"n{number}"))

    def high() -> Pod:
        return pod({"cpu": "3"}, priority=10)

    assert engine.nomination(high()).node
    assert sorted(looked) == sorted(engine.table.rows.values())
    looked.clear()
    assert engine.nomination(high()).node
    assert looked == []
    engine.table.add_pod(engine.info(pod({"memory": "1Gi"}, priority=0), "n7"))
    assert engine.nomination(high()).node
    assert looked == [engine.table.rows["n7"]]


def test_what_is_kept_of_searches_is_bounded() -> None:
    engine = ProfileOnTable()
    engine.table.set_node(node("only"))
    engine.table.add_pod(engine.info(pod({"cpu": "4"}, priority=0), "only"))
    for number in range(1, 3 * victimsearch.SEARCHES_MAX):
        assert engine.nomination(pod({"cpu": f"{number}m"}, priority=10)).node
    searches = plugin(engine)._searches  # noqa: SLF001 - nobody else can count
    assert len(searches.by_shape) == victimsearch.SEARCHES_MAX
    assert len(searches.by_pod) == 0
