from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client.clock import ManualClock
from moorage.client.informer import Key
from moorage.controllers.hollow.addresses import Addresses
from moorage.controllers.hollow.admission import Need, need_of, refusal
from moorage.controllers.hollow.alarms import Alarms
from moorage.controllers.hollow.lifecycle import Step, plan
from moorage.controllers.hollow.wishes import mistakes
from moorage.features import ALL_ON
from tests.plane import Data, node, pod

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


def ending(seconds: int, told: dict[str, str] | None = None, **status: Any) -> Data:
    data = running(told)
    data["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": seconds}
    data["status"] |= status
    return data


def restarted(count: int) -> Data:
    data = running({"run-seconds": "1", "exit-code": "1"}, restartPolicy="OnFailure")
    data["status"]["containerStatuses"] = [{"name": "main", "restartCount": count}]
    return data


@pytest.mark.parametrize(
    ("data", "now", "expected"),
    [
        (pod("web", nodeName="n1"), 0, Step.ADMIT),
        (running(), 10**6, None),
        (running({"run-seconds": "5"}), 10**6, None),
        (running({"run-seconds": "5"}, restartPolicy="Never"), 4, after(5)),
        (running({"run-seconds": "5"}, restartPolicy="Never"), 5, Step.FINISH),
        (running({"exit-code": "1"}, restartPolicy="Never"), 0, after(1)),
        (running(restartPolicy="Never"), 10**6, None),
        (running({"run-seconds": "5"}, restartPolicy="Never", activeDeadlineSeconds=3), 0, after(3)),
        (running({"run-seconds": "5"}, restartPolicy="Never", activeDeadlineSeconds=3), 9, Step.KILL),
        (restarted(0), 1, Step.RESTART),
        (restarted(1), 1, after(2)),
        (restarted(2), 2, after(13)),
        (restarted(3), 13, after(34)),
        (restarted(8), 13, after(9 + 310 + 2 * 300)),
        (restarted(2**31 - 1), 13, datetime.max.replace(tzinfo=UTC)),
        (ending(30), 0, Step.STOP),
        (ending(0), 0, Step.STOP),
        (ending(30, {"stop-seconds": "10"}), 0, after(10)),
        (ending(30, {"stop-seconds": "100"}), 0, after(30)),
        (ending(30, phase="Failed"), 0, Step.LET_GO),
        (ending(0, phase="Failed"), 0, None),
    ],
)
def test_what_is_to_be_done_about_a_pod(data: Data, now: float, expected: Step | datetime | None) -> None:
    assert plan(typed(data), after(now)) == expected


def test_a_time_that_is_out_of_all_calendars_never_comes() -> None:
    data = running({"run-seconds": "1e300"}, restartPolicy="Never")
    data["status"]["startTime"] = "9999-12-31T23:59:59Z"
    ends = plan(typed(data), START)
    assert isinstance(ends, datetime)
    assert ends.year == 9999


def test_a_pod_that_was_changed_is_reported_again() -> None:
    data = running()
    data["metadata"]["generation"] = 2
    data["status"]["observedGeneration"] = 1
    assert plan(typed(data), START) is Step.REPORT
    data["status"]["observedGeneration"] = 2
    assert plan(typed(data), START) is None


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
    verdict = refusal(web, need, msgspec.convert(node("n1"), Node), [there], ALL_ON)
    assert (verdict is None) == fits


async def test_alarms_ring_in_order_and_only_for_the_last_moment_that_was_set() -> None:
    clock = ManualClock(START)
    rung: list[Key] = []
    alarms = Alarms(clock, rung.append)
    alarms.set(A, after(5))
    alarms.set(B, after(3))
    alarms.set(A, after(2))
    alarms.set(("default", "c"), after(1))
    alarms.cancel(("default", "c"))
    clock.advance(4)
    assert rung == [A, B]
    clock.advance(100)
    assert rung == [A, B]
    alarms.set(A, after(1))
    clock.advance(0)
    assert rung == [A, B, A]
    alarms.set(B, after(1000))
    alarms.close()
    clock.advance(10_000)
    assert rung == [A, B, A]


def test_no_two_have_the_same_address_and_one_that_is_free_is_given_again() -> None:
    addresses = Addresses("10.0.0.0/29")
    addresses.hold(("default", "old"), "10.0.0.2")
    given = [addresses.of(("default", str(number))) for number in range(5)]
    assert given == ["10.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]
    assert addresses.of(("default", "0")) == "10.0.0.1"
    addresses.release(("default", "1"))
    assert addresses.of(("default", "new")) == "10.0.0.3"
