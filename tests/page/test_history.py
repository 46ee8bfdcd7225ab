"""What happened before the page was opened, from events and pods."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from moorage.api.decode import convert
from moorage.api.pod import Pod
from moorage.client import Client
from moorage.client.transport import Answer
from moorage.page.history import add_owners, happened_before, pending_before

NOW = 1_800_000_000.0


def stamp(seconds_ago: float) -> str:
    return datetime.fromtimestamp(NOW - seconds_ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def event(reason: str, message: str, ago: float, name: str = "web", namespace: str = "default") -> dict[str, Any]:
    return {
        "involvedObject": {"kind": "Pod", "name": name, "namespace": namespace},
        "reason": reason, "message": message, "lastTimestamp": stamp(ago),
    }  # fmt: skip


class _Events:
    """A transport that has events by reason, in pages of one."""

    def __init__(self, *events: dict[str, Any], status: int = 200) -> None:
        self._events, self._status = events, status
        self.asked = 0

    async def request(self, _: str, path: str, *__: Any) -> Answer:
        self.asked += 1
        found = [each for each in self._events if f"reason%3D{each['reason']}" in path]
        at = int(path.partition("continue=")[2].partition("&")[0] or 0)
        more = {"continue": str(at + 1)} if at + 1 < len(found) else {}
        return Answer(self._status, msgspec.json.encode({"metadata": more, "items": found[at : at + 1]}))


async def test_events_become_what_happened_the_oldest_first() -> None:
    taint = "Marking for deletion Pod default/web: taint sla=900:NoExecute: 900 is not greater than 950"
    transport: Any = _Events(
        event("TaintManagerEviction", taint, 60),
        event("TaintManagerEviction", "Cancelling deletion of Pod default/web", 50),
        event("Scheduled", "Successfully assigned default/web to node-1", 120),
        event("FailedScheduling", "0/1 nodes are available", 180),
        event("FailedScheduling", "0/1 nodes are available", 7200),
        event("Preempted", "Preempted by pod x on node node-1", 30),
        event("NodeNotReady", "Node node-1 status is now: NodeNotReady", 10, "node-1", ""),
    )
    found = await happened_before(Client(transport), NOW)
    assert [(each.kind, each.subject, each.text, each.cause) for each in found] == [
        ("waiting", "default/web", "fits no node", "0/1 nodes are available"),
        ("placed", "default/web", "on node-1", ""),
        ("evicted", "default/web", "from node-1", "taint sla=900:NoExecute: 900 is not greater than 950"),
        ("preempted", "default/web", "", "Preempted by pod x on node node-1"),
        ("node", "node-1", "not ready", ""),
    ]


async def test_who_may_not_read_events_sees_what_happens_from_now_on() -> None:
    transport: Any = _Events(status=403)
    assert await happened_before(Client(transport), NOW) == []


async def test_only_so_many_events_are_read() -> None:
    transport: Any = _Events(*(event("Scheduled", "", number) for number in range(100)))
    await happened_before(Client(transport), NOW)
    assert transport.asked < 20


def test_how_many_pods_waited_is_known_from_the_pods() -> None:
    def pod(created: float, placed: float | None) -> Pod:
        data: dict[str, Any] = {"metadata": {"name": "p", "creationTimestamp": stamp(created)}}
        if placed is not None:
            condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(placed)}
            data |= {"spec": {"nodeName": "n", "containers": []}, "status": {"conditions": [condition]}}
        return convert(data, Pod)

    samples = pending_before([pod(300, 200), pod(250, None), pod(9000, 100), pod(9000, 8000)], NOW)
    assert [(NOW - at, number) for at, number in samples] == [(3600, 1), (300, 2), (250, 3), (200, 2), (100, 1)]


async def test_what_followed_an_eviction_is_known_though_events_name_no_owner_and_seconds_only() -> None:
    taint = "Marking for deletion Pod default/web-abc-1: taint sla=900:NoExecute: 900 is not greater than 950"
    transport: Any = _Events(
        event("Scheduled", "Successfully assigned default/web-abc-1 to node-1", 120, "web-abc-1"),
        event("Scheduled", "Successfully assigned default/web-abc-2 to node-2", 60, "web-abc-2"),
        event("Scheduled", "Successfully assigned default/other to node-2", 60, "other"),
        event("TaintManagerEviction", taint, 60, "web-abc-1"),
    )
    found = await happened_before(Client(transport), NOW)
    owner = {"kind": "StatefulSet", "name": "web-abc", "controller": True}
    metadata = {"name": "web-abc-2", "namespace": "default", "ownerReferences": [owner]}
    add_owners(found, [convert({"metadata": metadata}, Pod), convert({"metadata": {"name": "other"}}, Pod)])
    assert [(each.kind, each.subject, each.text, each.owner) for each in found] == [
        ("placed", "default/web-abc-1", "on node-1", "StatefulSet/web-abc"),
        ("evicted", "default/web-abc-1", "from node-1", "StatefulSet/web-abc"),
        ("placed", "default/web-abc-2", "on node-2", "StatefulSet/web-abc"),
        ("placed", "default/other", "on node-2", ""),
    ]
