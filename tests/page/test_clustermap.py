"""What a page is sent: applied one after the other, changes give what it would see if it asked for everything."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from moorage.api.decode import convert
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client import Client, Informers
from moorage.client.clock import Clock, ManualClock
from moorage.features import ALL_ON
from moorage.page import clustermap as module
from moorage.page.clustermap import ClusterMap, Delta, Whole
from moorage.page.timeline import BY_TAINT, KEPT_SECONDS, Happening, Timeline
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from tests.plane import Data
from tests.seeds import seed


class _Silent:
    """A transport that nobody uses: objects are put into informers by hand."""


def watcher() -> tuple[ClusterMap, Informers]:
    client: Any = Client(_Silent())  # type: ignore[arg-type]
    scheduler = Scheduler(client, ALL_ON, Configuration(), clock=Clock())
    informers = scheduler.handle.informers
    for informer in informers:
        informer.synced.set()
    return ClusterMap(scheduler), informers


def node(name: str, number: int, **more: Any) -> Node:
    data = {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "resourceVersion": str(number), "uid": name, **more.pop("metadata", {})},
        "spec": more,
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }  # fmt: skip
    return convert(data, Node)


def pod(name: str, number: int, on: str = "", **more: Any) -> Pod:
    data: Data = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "resourceVersion": str(number), "uid": name,
            **more.pop("metadata", {}),
        },
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
        "status": more or {"phase": "Running" if on else "Pending"},
    }  # fmt: skip
    return convert(data, Pod)


def applied(whole: Whole, delta: Delta) -> Whole:
    """What a page makes of a change."""
    nodes = {each.name: each for each in whole.nodes} | {each.name: each for each in delta.nodes}
    for name, usage in delta.usage.items():
        nodes[name] = msgspec.structs.replace(nodes[name], usage=usage)
    pods = {each.key: each for each in whole.pods} | {each.key: each for each in delta.pods}
    return Whole(
        whole.epoch, delta.revision,
        [each for each in nodes.values() if each.name not in delta.gone_nodes],
        [each for each in pods.values() if each.key not in delta.gone_pods],
        [*whole.happened, *delta.happened], [],
    )  # fmt: skip


def told(whole: Whole) -> tuple[Any, ...]:
    return (
        whole.revision,
        sorted(map(msgspec.json.encode, whole.nodes)),
        sorted(map(msgspec.json.encode, whole.pods)),
        [each.number for each in whole.happened],
    )


async def test_changes_add_up_to_what_is_there() -> None:
    placement, informers = watcher()
    chance = random.Random(seed(11))
    nodes, pods = informers.of(Node), informers.of(Pod)
    seen = placement.whole()
    for number in range(1, 400):
        name = f"node-{chance.randrange(4)}"
        own = f"pod-{chance.randrange(12)}"
        match chance.randrange(6):
            case 0:
                nodes.put(node(name, number, unschedulable=chance.random() < 0.5))
            case 1 if found := nodes.get("", name):
                nodes.remove(found)
            case 2 if found_pod := pods.get("default", own):
                pods.remove(found_pod)
            case _:
                before = pods.get("default", own)
                # A pod that is bound stays where it is.
                pods.put(pod(own, number, (before and before.spec.node_name) or chance.choice(["", name])))
        if chance.random() < 0.3:
            delta = placement.since(seen.revision)
            assert delta is not None
            seen = applied(seen, delta)
            assert told(seen) == told(placement.whole())


async def test_a_page_that_missed_too_much_asks_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOG_MAX", 10)
    placement, informers = watcher()
    start = placement.revision
    for number in range(1, 40):
        informers.of(Pod).put(pod(f"pod-{number}", number))
    assert placement.since(start) is None
    assert placement.since(placement.revision + 1) is None
    newest = placement.since(placement.revision)
    assert newest is not None
    assert not newest.pods


async def test_a_heartbeat_is_no_change() -> None:
    placement, informers = watcher()
    informers.of(Node).put(node("node-1", 1))
    informers.of(Pod).put(pod("web", 2, "node-1"))
    revision = placement.revision
    informers.of(Node).put(node("node-1", 3))
    informers.of(Pod).put(pod("web", 4, "node-1"))
    assert placement.revision == revision


async def test_the_timeline_says_why_a_pod_left() -> None:
    placement, informers = watcher()
    pods = informers.of(Pod)
    pods.put(pod("web", 1))
    unmet = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    pods.put(pod("web", 2, phase="Pending", conditions=[unmet]))
    pods.put(pod("web", 3, "node-1"))
    target = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "sla=900"}
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    pods.put(pod("web", 4, "node-1", phase="Running", conditions=[target], metadata=deleted))
    assert [(each.kind, each.text, each.cause) for each in placement.timeline.happenings] == [
        ("waiting", "fits no node", "0/1 nodes are available"),
        ("placed", "on node-1", ""),
        ("evicted", "from node-1", "sla=900"),
    ]


async def test_the_timeline_is_bounded() -> None:
    placement, informers = watcher()
    most = placement.timeline.happenings.maxlen
    assert most
    for number in range(most + 10):
        informers.of(Node).put(
            node(f"node-{number % 7}", number + 1, taints=[{"key": f"k{number}", "effect": "NoExecute"}])
        )
    assert len(placement.timeline.happenings) == most


def test_a_page_never_sees_what_is_inside_a_pod() -> None:
    secret = {"name": "TOKEN", "value": "canary"}
    data = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "annotations": {"note": "canary"}},
        "spec": {"containers": [{"name": "c", "env": [secret], "args": ["canary"], "command": ["canary"]}]},
    }  # fmt: skip
    assert b"canary" not in msgspec.json.encode(module.pod_row(convert(data, Pod)))


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00", "soon", "9" * 5000, ""])
def test_a_time_of_eviction_that_is_none_is_ignored(text: str) -> None:
    strange = pod("web", 1, "node-1", metadata={"annotations": {"moorage.dev/evict-at": text}})
    assert module.pod_row(strange).evict_at == 0


async def test_a_reason_of_a_megabyte_does_not_go_to_every_page() -> None:
    placement, informers = watcher()
    unmet = {"type": "PodScheduled", "status": "False", "message": "x" * 1_000_000}
    informers.of(Pod).put(pod("web", 1))
    informers.of(Pod).put(pod("web", 2, phase="Pending", conditions=[unmet]))
    assert len(msgspec.json.encode(placement.whole())) < 10_000


async def test_an_eviction_names_the_taint_that_its_condition_does_not() -> None:
    placement, informers = watcher()
    informers.of(Node).put(node("node-1", 1, taints=[{"key": "sla", "value": "900", "effect": "NoExecute"}]))
    informers.of(Pod).put(pod("web", 2, "node-1"))
    target = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": BY_TAINT}
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    informers.of(Pod).put(pod("web", 3, "node-1", metadata=gone, conditions=[target]))
    (evicted,) = [each for each in placement.timeline.last_hour() if each.kind == "evicted"]
    assert evicted.cause == "taint sla=900:NoExecute: no toleration for this key"


async def test_what_happened_more_than_an_hour_ago_is_gone() -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    timeline = Timeline(clock)
    timeline.begin_with([Happening(0, clock.now().timestamp() - 1, "node", "node-1", "cordoned")])
    assert len(timeline.last_hour()) == 1
    clock.advance(KEPT_SECONDS)
    assert timeline.last_hour() == []
