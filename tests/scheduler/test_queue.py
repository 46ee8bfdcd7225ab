"""Pods wait where they should and as long as they should, and are woken by what could help them and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moorage.client.backoff import Backoff
from moorage.scheduler.queue import LONGEST_WAIT, Queue, Queued
from moorage.scheduler.table.shape import PodInfo
from tests.scheduler.profile_on_table import ProfileOnTable, pod
from tests.scheduler.test_truth import LONELY, Play, play

Data = dict[str, Any]
FIRST, LAST = 1.0, 10.0
BACKOFF = Backoff(FIRST, LAST)


class Model:
    """What must be known of one pod to say where it is."""

    def __init__(self, priority: int, added: float) -> None:
        self.priority, self.added = priority, added
        self.place = "active"
        self.attempts = 0
        self.since = 0.0
        self.failed = False

    @property
    def due(self) -> float:
        return self.since + min(FIRST * 2 ** (self.attempts - 1), LAST) if self.attempts else self.since


class QueueMachine(RuleBasedStateMachine):
    """The queue beside a model that looks through all pods each time."""

    @initialize()
    def begin(self) -> None:
        self.time = 0.0
        self.engine = ProfileOnTable()
        self.calls = self.number = 0
        self.queue = Queue(lambda: self.time, lambda info, added: (-info.priority, added), BACKOFF, self._ready)
        self.model: dict[str, Model] = {}
        self.infos: dict[str, PodInfo] = {}
        self.tried: dict[str, Queued] = {}

    def _ready(self) -> None:
        self.calls += 1

    @rule(priority=st.integers(0, 2), cpu=st.sampled_from(["1", "2"]), gated=st.booleans())
    def a_pod_comes(self, priority: int, cpu: str, gated: bool) -> None:
        self.time += 0.001
        self.number += 1
        name = f"pod-{self.number:03}"
        info = self.engine.info(pod({"cpu": cpu}, priority=priority, metadata={"uid": name, "name": name}))
        self.infos[info.uid], self.model[info.uid] = info, Model(priority, self.time)
        self.queue.add(info, "gated" if gated else "")
        if gated:
            self.model[info.uid].place = "gated"

    @rule(seconds=st.sampled_from([0.5, 1.0, 4.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.time += seconds

    def _expected(self) -> str:
        """The pod that is next: the first of those that may be tried, else one that backs off from a failure."""
        ready = {
            uid: each
            for uid, each in self.model.items()
            if each.place == "active" or (each.place == "backoff" and each.due <= self.time)
        }
        if ready:
            return min(ready, key=lambda uid: (-ready[uid].priority, ready[uid].added))
        return ""

    @rule()
    def the_next_is_tried(self) -> None:
        expected = self._expected()
        entry = self.queue.pop()
        backing_off = [each for each in self.model.values() if each.place == "backoff" and each.failed]
        if entry is None:
            assert not expected
            # One that backs off from an error may stand before those that could be tried early, but not for long.
            assert not backing_off or any(not each.failed for each in self.model.values() if each.place == "backoff")
            return
        uid = entry.info.uid
        if expected:
            assert uid == expected
        else:
            assert self.model[uid].place == "backoff"
            assert self.model[uid].failed
        for each in self.model.values():
            if each.place == "backoff" and each.due <= self.time:
                each.place = "active"
        model = self.model[uid]
        model.place, model.attempts, model.since = "", model.attempts + 1, self.time
        assert entry.attempts == model.attempts
        self.tried[uid] = entry

    @precondition(lambda self: self.tried)
    @rule(data=st.data(), failed=st.booleans())
    def it_fails(self, data: st.DataObject, failed: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.tried)))
        entry = self.tried.pop(uid)
        if failed:
            self.queue.failed(entry, {"NodeResourcesFit"})
        else:
            self.queue.retry(entry)
        if uid in self.model and self.model[uid].place == "":
            model = self.model[uid]
            model.place, model.since = ("unschedulable" if failed else "backoff"), self.time
            model.failed = failed

    @precondition(lambda self: any(each.place == "unschedulable" for each in self.model.values()))
    @rule(data=st.data())
    def one_is_woken(self, data: st.DataObject) -> None:
        waiting = sorted(uid for uid, each in self.model.items() if each.place == "unschedulable")
        uid = data.draw(st.sampled_from(waiting))
        before = self.calls
        self.queue.wake(self.queue.pods[uid])
        self.model[uid].place = "backoff" if self.model[uid].due > self.time else "active"
        assert self.calls > before

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def one_is_gone(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.model)))
        self.queue.remove(uid)
        del self.model[uid]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), change=st.booleans())
    def one_changes(self, data: st.DataObject, change: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.model)))
        old = self.infos[uid]
        spec = {"tolerations": [{"operator": "Exists"}]} if change else {}
        new = self.engine.info(
            pod({"cpu": "1"}, priority=old.priority, metadata={"uid": uid, "name": old.key[1]}, **spec)
        )
        self.infos[uid] = new
        if change:
            self.queue.add(new)
            self.model[uid].place = "active"
            self.tried.pop(uid, None)
        else:
            self.queue.update(new)
        assert self.queue.pods[uid].info is new

    @rule()
    def those_that_waited_too_long_are_tried(self) -> None:
        self.queue.flush_unschedulable()
        for each in self.model.values():
            if each.place == "unschedulable" and self.time - each.since > LONGEST_WAIT:
                each.place = "active"

    @invariant()
    def everybody_is_where_the_model_says(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.queue.flush()
        for each in self.model.values():
            if each.place == "backoff" and each.due <= self.time:
                each.place = "active"
        assert {uid: entry.place for uid, entry in self.queue.pods.items()} == {
            uid: each.place for uid, each in self.model.items()
        }
        waiting = {uid for uid, each in self.model.items() if each.place == "unschedulable"}
        shapes = self.queue.waiting_shapes()
        assert {entry.info.uid for shape in shapes for entry in self.queue.waiting(shape)} == waiting
        assert all(entry.info.shape is shape for shape in shapes for entry in self.queue.waiting(shape))
        assert self.queue.waits() == bool(waiting)
        due = [each.due for each in self.model.values() if each.place == "backoff"]
        if due:
            found = self.queue.next_due()
            assert found is not None
            assert found <= min(due)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_backoff_doubles_up_to_its_limit() -> None:
    time = [0.0]
    queue = Queue(lambda: time[0], lambda info, added: added, BACKOFF)
    info, waits = ProfileOnTable().info(pod()), []
    queue.add(info)
    for _ in range(6):
        time[0] += 1000
        entry = queue.pop()
        assert entry is not None
        queue.failed(entry, {"x"})
        waits.append(queue.backoff_of(entry))
        queue.wake(entry)
    assert waits == [1, 2, 4, 8, 10, 10]


def test_a_pod_that_is_woken_backs_off_from_when_it_failed() -> None:
    time = [0.0]
    queue = Queue(lambda: time[0], lambda info, added: added, BACKOFF)
    queue.add(ProfileOnTable().info(pod()))
    for moment in (0.0, 0.0, 2.5):
        entry = queue.pop()
        assert entry is not None
        queue.failed(entry, {"x"})
        time[0] = moment
        queue.wake(entry)
        assert entry.place == "backoff"
    assert queue.next_due() == 4.0


TAINTED = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
TOLERATES: Data = {"tolerations": [{"key": "sla", "operator": "Gt", "value": "950"}]}


def sla(value: str) -> Data:
    return {"key": "sla", "value": value, "effect": "NoSchedule"}


async def attempts_after(here: Play, name: str) -> int:
    """How often a pod is tried until everything is quiet again."""
    before = here.attempts.count(name)
    await here.settle()
    here.check()
    return here.attempts.count(name) - before


@pytest.mark.parametrize(
    ("taints", "tries"),
    [
        ([], 1),
        ([sla("990")], 1),
        ([sla("900")], 0),
        ([sla("high")], 0),
        ([TAINTED, sla("990")], 0),
        ([{**TAINTED, "effect": "PreferNoSchedule"}], 1),
        ([{**TAINTED, "effect": "NoExecute"}], 0),
    ],
)
async def test_only_a_change_of_taints_that_this_pod_tolerates_wakes_it(taints: list[Data], tries: int) -> None:
    async with play() as here:
        here.node("only", "4", sla("800"))
        here.pod("web", **TOLERATES)
        await here.settle()
        assert here.attempts == ["web"]
        here.node("only", "4", *taints)
        assert await attempts_after(here, "web") == tries
        assert bool(here.where("web")) == bool(tries)


async def test_a_new_node_wakes_only_those_that_it_could_take() -> None:
    async with play() as here:
        here.pod("any")
        here.pod("tolerant", **TOLERATES)
        here.pod("large", cpu="8")
        await here.settle()
        here.attempts.clear()
        here.node("tainted", "2", sla("990"))
        await here.settle()
        here.check()
        assert here.attempts == ["tolerant"]


async def test_changes_that_make_no_difference_wake_nobody() -> None:
    async with play() as here:
        here.node("only", "1")
        here.pod("first")
        await here.settle()
        here.pod("second")
        here.pod("tainted", tolerations=[])
        await here.settle()
        here.attempts.clear()
        here.node("only", "1", colour="blue")
        await here.settle()
        here.node("only", "500m", TAINTED)
        await here.settle()
        here.node("only", "900m")
        await here.settle()
        assert here.attempts == []
        here.finish("first")
        await here.settle()
        assert here.attempts == []
        here.node("only", "1")
        await here.settle()
        assert min(here.attempts) == "second"


async def test_a_pod_that_leaves_wakes_only_those_that_its_room_is_enough_for() -> None:
    async with play() as here:
        here.node("only", "2")
        for name in ("one", "two"):
            here.pod(name)
        await here.settle()
        here.pod("small")
        here.pod("large", cpu="2")
        await here.settle()
        here.attempts.clear()
        here.finish("one")
        assert await attempts_after(here, "small") == 1
        assert here.attempts == ["small"]


async def nominated(here: Play, cpu: str) -> None:
    """A pod that is not to be tried yet is nominated."""
    here.pod("nominated", cpu=cpu, priority=10, schedulingGates=[{"name": "later"}])
    found = here.api.objects["Pod", "default", "nominated"]
    found["status"]["nominatedNodeName"] = "only"
    here.api.put("Pod", found)
    await here.settle()


async def test_a_pod_kept_out_by_a_nomination_is_woken_when_the_nomination_ends() -> None:
    async with play() as here:
        here.node("only", "4")
        await nominated(here, "3")
        here.pod("web", cpu="2")
        await here.settle()
        assert not here.where("web")
        here.finish("nominated")
        assert await attempts_after(here, "web") == 1
        assert here.where("web") == "only"


async def test_a_pod_kept_out_by_a_nomination_is_woken_when_there_is_room_for_both() -> None:
    async with play() as here:
        here.node("only", "4")
        here.pod("there")
        await nominated(here, "3")
        here.pod("web")
        await here.settle()
        assert not here.where("web")
        here.finish("there")
        assert await attempts_after(here, "web") == 1
        assert here.where("web") == "only"


async def test_a_pod_kept_out_by_a_nomination_is_not_woken_by_what_does_not_help() -> None:
    async with play() as here:
        here.node("only", "4")
        here.pod("there", cpu="500m")
        await nominated(here, "3")
        here.pod("web", cpu="2")
        await here.settle()
        here.finish("there")
        assert await attempts_after(here, "web") == 0
        here.node("only", "4500m")
        assert await attempts_after(here, "web") == 0
        here.node("only", "5")
        assert await attempts_after(here, "web") == 1


async def test_what_was_only_supposed_while_room_was_sought_is_not_taken_for_what_was() -> None:
    async with play() as here:
        here.node("chosen", "4")
        here.pod("leaving", cpu="3")
        await here.settle()
        here.node("other", "4")
        here.pod("large", cpu="3", priority=5)
        await here.settle()
        here.pod("small", cpu="1", priority=1)
        here.pod("filler", cpu="1", priority=1)
        await here.settle()
        here.pod("urgent", cpu="3", priority=10)
        here.api.tell()
        await here.turns(20)
        assert here.api.objects["Pod", "default", "urgent"]["status"]["nominatedNodeName"] == "chosen"
        for name in ("large", "small", "filler"):
            if here.where(name) == "other":
                here.finish(name)
        assert await attempts_after(here, "urgent") == 1
        assert here.where("urgent") == "other"


async def test_a_lonely_pod_is_woken_when_the_other_leaves() -> None:
    async with play() as here:
        here.node("only")
        here.pod("first", affinity=LONELY)
        await here.settle()
        here.pod("second", affinity=LONELY)
        await here.settle()
        here.attempts.clear()
        here.pod("other")
        await here.settle()
        assert here.attempts == ["other"]
        here.finish("other")
        await here.settle()
        assert here.attempts == ["other"]
        here.finish("first")
        assert await attempts_after(here, "second") == 1
        assert here.where("second") == "only"


async def test_pods_of_many_shapes_are_all_woken_although_only_some_shapes_are_remembered() -> None:
    async with play() as here:
        here.node("only", "100", TAINTED, pods="1000")
        for number in range(300):
            here.pod(f"pod-{number}", cpu=f"{number + 1}m")
        await here.settle()
        here.attempts.clear()
        here.node("only", "100", sla("1"), pods="1000")
        await here.settle()
        assert here.attempts == []
        here.node("only", "100", pods="1000")
        await here.settle()
        here.check()
        assert len(here.attempts) == 300


async def test_a_pod_tried_while_a_change_waits_to_be_told_is_not_mixed_up_with_those_that_wait() -> None:
    async with play(slots=1) as here:
        here.node("only", "2", TAINTED)
        here.pod("waiting")
        await here.settle()
        here.node("busy", "1")
        here.pod("busy")
        here.pod("like-waiting")
        here.api.tell()
        await here.turns(2)
        here.node("only", "2")
        await here.settle()
        here.check()
        assert here.where("waiting")
        assert here.where("like-waiting")


async def test_nothing_waits_longer_than_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with play() as here:
        here.node("only", "1")
        here.pod("large", cpu="2")
        await here.settle()
        here.attempts.clear()
        queue = here.scheduler.queue
        queue.flush_unschedulable()
        await here.settle()
        assert here.attempts == []
        start = queue.now
        queue.now = lambda: start() + LONGEST_WAIT + 1
        queue.flush_unschedulable()
        await here.settle()
        assert here.attempts == ["large"]


def test_whether_the_next_pod_is_of_another_shape() -> None:
    engine = ProfileOnTable()
    queue = Queue(lambda: 0.0, lambda info, added: (-info.priority, added), BACKOFF, lambda: None)
    mine, alike, other = (engine.info(pod({"cpu": cpu}, priority=0)) for cpu in ("1", "1", "2"))
    queue.add(alike)
    assert not queue.has_other(mine.shape)
    assert queue.pop() is not None
    assert not queue.has_other(mine.shape)
    queue.add(other)
    assert queue.has_other(mine.shape)
