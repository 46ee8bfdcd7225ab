from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from moorage.api.meta import Data, Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client import Client
from moorage.client.clock import ManualClock
from moorage.client.events import Recorder
from moorage.client.informer import Key
from moorage.controllers.hollow.addresses import Addresses
from moorage.controllers.hollow.admission import Need, need_of, refusals
from moorage.controllers.hollow.containerevents import ContainerEvents
from moorage.controllers.hollow.nodeleases import MOST_PER_SECOND, SHORTEST_TURN, turn_of
from moorage.controllers.hollow.overrides import mistakes
from moorage.controllers.hollow.podlifecycle import PodAction, next_action
from moorage.controllers.hollow.preemption import Guest, NoRoom, victims
from moorage.features import ALL_ON
from tests.plane import node, pod

START = datetime(2026, 1, 1, tzinfo=UTC)
A, B = ("default", "a"), ("default", "b")


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def typed(data: Data) -> Pod:
    return msgspec.convert(data, Pod)


def running(told: dict[str, str] | None = None, **spec: Any) -> Data:
    data = pod("web", nodeName="n1", **{"restartPolicy": "Always", **spec})
    data["metadata"]["annotations"] = {f"moorage.dev/{key}": value for key, value in (told or {}).items()}
    data["status"] = {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return data


def ending(
    seconds: int, told: dict[str, str] | None = None, *, sleeping: tuple[int | None, ...] = (None,), **status: Any
) -> Data:
    data = running(told, containers=[sleeper(f"c{number}", asleep) for number, asleep in enumerate(sleeping)])
    data["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": seconds}
    data["status"] |= status
    return data


def sleeper(name: str, seconds: int | None) -> Data:
    """A container that sleeps before it stops."""
    hook = {"exec": {"command": ["true"]}} if seconds is None else {"sleep": {"seconds": seconds}}
    return {"name": name, "lifecycle": {"preStop": hook}}


def waiting(told: dict[str, str] | None = None, **spec: Any) -> Data:
    data = running(told, containers=[{"name": "main", "image": "web:404"}], **spec)
    text = "containers with unready status: [main]"
    not_ready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": text}
    data["status"] |= {"phase": "Pending", "conditions": [not_ready]}
    return data


def restarted(count: int) -> Data:
    data = running({"run-seconds": "1", "exit-code": "1"}, restartPolicy="OnFailure")
    data["status"]["containerStatuses"] = [{"name": "main", "restartCount": count}]
    return data


@pytest.mark.parametrize(
    ("data", "now", "expected"),
    [
        (pod("web", nodeName="n1"), 0, PodAction.ADMIT),
        (running(), 10**6, None),
        (running({"run-seconds": "5"}), 10**6, None),
        (running({"run-seconds": "5"}, restartPolicy="Never"), 4, after(5)),
        (running({"run-seconds": "5"}, restartPolicy="Never"), 5, PodAction.FINISH),
        (running({"exit-code": "1"}, restartPolicy="Never"), 0, after(1)),
        (running(restartPolicy="Never"), 10**6, None),
        (running({"run-seconds": "5"}, restartPolicy="Never", activeDeadlineSeconds=3), 0, after(3)),
        (running({"run-seconds": "5"}, restartPolicy="Never", activeDeadlineSeconds=3), 9, PodAction.KILL),
        (waiting(), 10**6, None),
        (waiting({"run-seconds": "5"}, restartPolicy="Never"), 9, None),
        (waiting({"run-seconds": "5"}, restartPolicy="Never", activeDeadlineSeconds=6), 5, after(6)),
        (restarted(0), 1, PodAction.RESTART),
        (restarted(1), 1, after(2)),
        (restarted(2), 2, after(13)),
        (restarted(3), 13, after(34)),
        (restarted(8), 13, after(9 + 310 + 2 * 300)),
        (restarted(2**31 - 1), 13, datetime.max.replace(tzinfo=UTC)),
        (ending(30), 0, PodAction.STOP),
        (ending(0), 0, PodAction.STOP),
        (ending(30, {"stop-seconds": "10"}), 0, after(10)),
        (ending(30, {"stop-seconds": "100"}), 0, after(30)),
        (ending(30, sleeping=(5, 20, None)), 0, after(20)),
        (ending(30, {"stop-seconds": "4"}, sleeping=(20,)), 0, after(24)),
        (ending(30, sleeping=(100,)), 0, after(30)),
        (ending(0, sleeping=(20,)), 0, PodAction.STOP),
        (ending(30, phase="Failed"), 0, PodAction.LET_GO),
        (ending(0, phase="Failed"), 0, None),
    ],
)
def test_what_is_to_be_done_about_a_pod(data: Data, now: float, expected: PodAction | datetime | None) -> None:
    assert next_action(typed(data), after(now)) == expected


def test_a_time_that_is_out_of_all_calendars_never_comes() -> None:
    data = running({"run-seconds": "1e300"}, restartPolicy="Never")
    data["status"]["startTime"] = "9999-12-31T23:59:59Z"
    ends = next_action(typed(data), START)
    assert isinstance(ends, datetime)
    assert ends.year == 9999


def test_a_pod_that_was_changed_is_reported_again() -> None:
    data = running()
    data["metadata"]["generation"] = 2
    data["status"]["observedGeneration"] = 1
    assert next_action(typed(data), START) is PodAction.REPORT
    data["status"]["observedGeneration"] = 2
    assert next_action(typed(data), START) is None


@pytest.mark.parametrize(
    ("told", "count"),
    [
        ({}, 0),
        ({"run-seconds": "1.5", "stop-seconds": "0", "exit-code": "255"}, 0),
        ({"run-seconds": "-1", "stop-seconds": "nan", "exit-code": "256"}, 3),
        ({"exit-code": "-1"}, 1),
    ],
)
def test_wishes_that_cannot_be_understood_are_counted(told: dict[str, str], count: int) -> None:
    assert len(mistakes(typed(running(told)))) == count


@pytest.mark.parametrize("count", [1, 300, 1000, 5000, 10_000, 100_000])
def test_however_many_nodes_there_are_their_renewals_are_bounded(count: int) -> None:
    turn = turn_of(count)
    assert turn >= SHORTEST_TURN
    assert count / turn <= MOST_PER_SECOND
    if count <= 5000:  # as Kubernetes has it: a renewal that fails can be tried again before the node counts as lost
        assert turn <= 30


def test_a_pod_takes_the_most_that_it_needs_at_a_time() -> None:
    def container(name: str, cpu: str, **more: str) -> Data:
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}

    data = pod("web", overhead={"cpu": "10m"})
    data["spec"]["containers"] = [container("a", "100m"), container("b", "200m")]
    assert need_of(typed(data).spec).amounts == {"cpu": 310}
    data["spec"]["initContainers"] = [container("setup", "2"), container("beside", "1", restartPolicy="Always")]
    assert need_of(typed(data).spec).amounts == {"cpu": 2010}
    data["spec"]["initContainers"].append(container("late", "1500m"))
    assert need_of(typed(data).spec).amounts == {"cpu": 2510}
    data["spec"]["resources"] = {"requests": {"cpu": "3"}}
    assert need_of(typed(data).spec).amounts == {"cpu": 3010}


@pytest.mark.parametrize(
    ("address", "protocol", "fits"),
    [("", "", False), ("127.0.0.1", "TCP", False), ("127.0.0.2", "TCP", True), ("127.0.0.1", "UDP", True)],
)
def test_a_port_is_free_when_address_or_protocol_differ(address: str, protocol: str, fits: bool) -> None:
    def taking(host_ip: str, protocol: str) -> tuple[Pod, Need]:
        data = pod("web", nodeName="n1")
        port = {"containerPort": 80, "hostPort": 80, "hostIP": host_ip, "protocol": protocol}
        data["spec"]["containers"][0]["ports"] = [port]
        return typed(data), need_of(typed(data).spec)

    _, there = taking("127.0.0.1", "TCP")
    web, need = taking(address, protocol)
    reasons = list(refusals(web, need, msgspec.convert(node("n1"), Node), [there], ALL_ON))
    assert (not reasons) == fits


def guest(name: str, cpu: int, memory: int, quality: str = "Burstable", priority: int = 0) -> Guest:
    data = pod(name, priority=priority)
    return Guest(typed({**data, "status": {"qosClass": quality}}), {"cpu": cpu, "memory": memory})


CRITICAL = typed(pod("critical", priority=2_000_001_000))


@pytest.mark.parametrize(
    ("guests", "missing", "ended"),
    [
        ([guest("a", 100, 10), guest("b", 300, 10), guest("c", 900, 10)], {"cpu": 250}, ["b"]),
        ([guest("a", 100, 10), guest("b", 300, 10), guest("c", 900, 10)], {"cpu": 1100}, ["c", "b"]),
        ([guest("a", 300, 20), guest("b", 300, 10)], {"cpu": 250}, ["b"]),
        ([guest("a", 300, 10), guest("b", 300, 10, "Guaranteed")], {"cpu": 250}, ["a"]),
        ([guest("a", 300, 10), guest("b", 300, 10, "Guaranteed")], {"cpu": 400}, ["a", "b"]),
        ([guest("a", 0, 0, "BestEffort"), guest("b", 300, 10)], {"pods": 1}, ["a"]),
        ([guest("a", 300, 10, priority=2_000_000_000), guest("b", 300, 10, priority=5)], {"cpu": 200}, ["a"]),
        ([guest("a", 100, 900), guest("b", 900, 100)], {"cpu": 500, "memory": 500}, ["b", "a"]),
    ],
)
def test_as_few_and_as_unimportant_pods_as_may_be_are_ended(
    guests: list[Guest], missing: dict[str, int], ended: list[str]
) -> None:
    assert [each.pod.metadata.name for each in victims(CRITICAL, guests, missing)] == ended


@pytest.mark.parametrize("other", [guest("a", 100, 10), guest("a", 900, 10, priority=2_000_001_000)])
def test_there_is_no_room_when_all_that_may_be_ended_is_too_little(other: Guest) -> None:
    with pytest.raises(NoRoom, match="no set of running pods found"):
        victims(CRITICAL, [other], {"cpu": 200})


def test_no_two_have_the_same_address_and_one_that_is_free_is_given_again() -> None:
    addresses = Addresses("10.0.0.0/29")
    addresses.hold(("default", "old"), "10.0.0.2")
    assigned = [addresses.of(("default", str(number))) for number in range(5)]
    assert assigned == ["10.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]
    assert addresses.of(("default", "0")) == "10.0.0.1"
    addresses.release(("default", "1"))
    assert addresses.of(("default", "new")) == "10.0.0.3"


class Told(Recorder):
    """Notes what is said instead of sending it."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(Client(None), "kubelet", clock)  # type: ignore[arg-type]
        self.reasons: list[str] = []

    def event(self, about: Object, type_: str, reason: str, message: str, action: str = "", **_: Any) -> None:
        self.reasons.append(reason)


async def test_a_wave_of_pods_is_told_of_in_parts_and_not_without_end() -> None:
    clock = ManualClock(START)
    told = Told(clock)
    web = typed({**pod("web"), "metadata": {"name": "web", "namespace": "default", "uid": "1"}})
    pods: dict[Key, Pod] = {("default", "web"): web}
    announcements = ContainerEvents(lambda *key: pods.get(key), told, clock)
    for _ in range(5000):
        announcements.started(web, START)
    telling = asyncio.create_task(announcements.run())
    for second in range(1, 100):
        await asyncio.sleep(0)
        assert len(told.reasons) == 3 * 25 * min(second, 80)
        clock.advance(1)
    assert told.reasons[:3] == ["Pulled", "Created", "Started"]
    announcements.started(web, START)
    pods.clear()
    await asyncio.sleep(0)
    assert len(told.reasons) == 3 * 2000
    telling.cancel()


async def test_events_tell_of_a_hundred_containers_of_a_pod() -> None:
    clock = ManualClock(START)
    told = Told(clock)
    containers = [{"name": f"c{number}", "image": "pause"} for number in range(2000)]
    web = typed({**pod("web", containers=containers), "metadata": {"name": "web", "namespace": "default", "uid": "1"}})
    announcements = ContainerEvents(lambda *_: web, told, clock)
    announcements.started(web, START)
    telling = asyncio.create_task(announcements.run())
    await asyncio.sleep(0)
    assert len(told.reasons) == 300
    telling.cancel()
