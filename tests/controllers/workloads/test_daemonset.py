"""DaemonSets: a pod on each node that admits it, and on no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.api import kinds
from moorage.api.meta import Data, ObjectMeta
from moorage.api.node import Node, NodeSpec, Taint
from moorage.client import Client
from moorage.client.clock import Clock, ManualClock
from moorage.controllers.cluster.garbage import GarbageCollector
from moorage.controllers.workloads.daemonplacement import DaemonFit, DaemonPlacement
from moorage.controllers.workloads.daemonset import DaemonSets
from moorage.features import ALL_ON, NONE_ON, Gates
from moorage.match.tolerations import Tolerations
from tests import known_expressions as known
from tests.controllers.kubelet import Kubelet, kubelet
from tests.controllers.small_cluster import becomes, change, cluster, remove
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import create, node

SET = ("DaemonSet", "agent")
NODE = kinds.row("v1", "Node")
HASH = "controller-revision-hash"
NO_SCHEDULE, NO_EXECUTE = (
    {"key": "example.com/special", "value": "yes", "effect": effect} for effect in ("NoSchedule", "NoExecute")
)
READINESS = {"key": "readiness.k8s.io/cni", "effect": "NoSchedule"}


def daemon_set(pod: Data | None = None, **spec: Any) -> Data:
    container = {"name": "main", "image": "agent:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [container], **(pod or {})},
            },
            **spec,
        },
    }


def image(text: str) -> Data:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": text}]}}}}


@asynccontextmanager
async def running(directory: Path, *nodes: str, clock: Clock | None = None) -> AsyncIterator[tuple[Client, Kubelet]]:
    async with (
        cluster(directory, DaemonSets, GarbageCollector, clock=clock) as client,
        kubelet(client, clock) as agent,
    ):
        for name in nodes:
            await new_node(client, name)
        yield client, agent


async def new_node(client: Client, name: str, *taints: Data, **labels: str) -> None:
    await create(client, node(name, labels))
    await taint(client, name, *taints)


async def taint(client: Client, name: str, *taints: Data) -> None:
    await client.patch(NODE, "", name, {"spec": {"taints": list(taints)}})


async def pods(client: Client) -> dict[str, Data]:
    """The pods by their node."""
    found = await read_all(client, "Pod", "default")
    return {pod["spec"].get("nodeName", pod["metadata"]["name"]): pod for pod in found}


async def runs_on(client: Client, *nodes: str) -> dict[str, Data]:
    async def check() -> bool:
        return sorted(await pods(client)) == sorted(nodes)

    await eventually(check)
    return await pods(client)


async def settled(client: Client, count: int, **status: int) -> Data:
    def is_settled(data: Data) -> bool:
        known = data.get("status", {})
        return known.get("observedGeneration") == data["metadata"]["generation"] and all(
            known.get(name, 0) == value
            for name, value in {
                "desiredNumberScheduled": count,
                "currentNumberScheduled": count,
                "numberReady": count,
                "numberAvailable": count,
                "updatedNumberScheduled": count,
                "numberMisscheduled": 0,
                "numberUnavailable": 0,
                **status,
            }.items()
        )

    return await becomes(client, *SET, is_settled, "apps/v1")


async def test_every_node_has_a_pod_and_a_pod_that_is_stopped_comes_back(tmp_path: Path) -> None:
    async with running(tmp_path, "n1", "n2") as (client, _):
        await create(client, daemon_set())
        await settled(client, 2)
        found = await runs_on(client, "n1", "n2")
        tolerations = found["n1"]["spec"]["tolerations"]
        assert {(each["key"], each["effect"]) for each in tolerations if "tolerationSeconds" not in each} == {
            ("node.kubernetes.io/not-ready", "NoExecute"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
            ("node.kubernetes.io/disk-pressure", "NoSchedule"),
            ("node.kubernetes.io/memory-pressure", "NoSchedule"),
            ("node.kubernetes.io/pid-pressure", "NoSchedule"),
            ("node.kubernetes.io/unschedulable", "NoSchedule"),
        }
        await remove(client, "Pod", found["n1"]["metadata"]["name"])

        async def replaced() -> bool:
            now = await pods(client)
            return "n1" in now and now["n1"]["metadata"]["uid"] != found["n1"]["metadata"]["uid"]

        await eventually(replaced)
        await new_node(client, "n3")
        await settled(client, 3)
        await client.delete(NODE, "", "n3")
        await settled(client, 2)
        await remove(client, *SET, "apps/v1", propagation="Background")
        await runs_on(client)


async def test_pods_follow_node_labels(tmp_path: Path) -> None:
    async with running(tmp_path, "n1", "n2") as (client, _):
        await create(client, daemon_set({"nodeSelector": {"color": "blue"}}))
        await settled(client, 0)
        await client.patch(NODE, "", "n1", {"metadata": {"labels": {"color": "blue"}}})
        await settled(client, 1)
        await runs_on(client, "n1")
        await client.patch(NODE, "", "n1", {"metadata": {"labels": {"color": "green"}}})
        await settled(client, 0)
        await runs_on(client)
        await change(client, *SET, {"spec": {"template": {"spec": {"nodeSelector": {"color": "green"}}}}}, "apps/v1")
        await settled(client, 1)
        await runs_on(client, "n1")


async def test_pods_follow_node_affinity(tmp_path: Path) -> None:
    terms = [{"matchExpressions": [{"key": "color", "operator": "In", "values": ["blue"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    async with running(tmp_path, "n1", "n2") as (client, _):
        await create(client, daemon_set({"affinity": affinity}))
        await settled(client, 0)
        await client.patch(NODE, "", "n2", {"metadata": {"labels": {"color": "blue"}}})
        await settled(client, 1)
        await runs_on(client, "n2")


async def test_affinity_that_takes_long_is_evaluated_off_the_event_loop(tmp_path: Path) -> None:
    with known.evaluation_threads() as threads:
        async with running(tmp_path, "a", "b") as (client, _):
            term = {"matchCELExpressions": [f"{known.SLOW} && node.labels[?'disk'].orValue('') == 'ssd'"]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            await create(client, daemon_set({"affinity": {"nodeAffinity": required}}))
            await new_node(client, "c", disk="ssd")
            await runs_on(client, "c")
            assert set(threads) == {"evaluations"}


async def test_a_pod_stays_beside_a_no_schedule_taint_and_leaves_a_no_execute_taint(tmp_path: Path) -> None:
    async with running(tmp_path, "n1", "n2") as (client, _):
        await create(client, daemon_set())
        await settled(client, 2)
        before = await pods(client)
        await taint(client, "n1", NO_SCHEDULE)
        await settled(client, 1, numberMisscheduled=1)
        assert (await pods(client))["n1"]["metadata"]["uid"] == before["n1"]["metadata"]["uid"]
        await taint(client, "n1", NO_EXECUTE)
        await settled(client, 1)
        await runs_on(client, "n2")
        await taint(client, "n1")
        await settled(client, 2)


async def test_a_wildcard_toleration_lands_on_nodes_with_readiness_taints(tmp_path: Path) -> None:
    wildcard = {"key": "readiness.k8s.io/*", "operator": "Exists"}
    async with running(tmp_path) as (client, _):
        await new_node(client, "n1", READINESS)
        await new_node(client, "n2", READINESS, NO_SCHEDULE)
        await create(client, daemon_set({"tolerations": [wildcard]}))
        await settled(client, 1)
        await runs_on(client, "n1")
        await taint(client, "n1")
        await taint(client, "n2", READINESS, {"key": "readiness.k8s.io/csi", "effect": "NoExecute"})
        await settled(client, 2)
        await runs_on(client, "n1", "n2")


GRID: list[tuple[list[Data], list[Taint], Gates, DaemonFit]] = [
    ([], [], ALL_ON, DaemonFit(runs=True, stays=True)),
    ([], [Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")], ALL_ON, DaemonFit(runs=True, stays=True)),
    (
        [],
        [Taint("node.kubernetes.io/network-unavailable", "", "NoSchedule")],
        ALL_ON,
        DaemonFit(runs=False, stays=True),
    ),
    ([], [Taint("a", "", "PreferNoSchedule")], ALL_ON, DaemonFit(runs=True, stays=True)),
    ([], [Taint("a", "", "NoSchedule")], ALL_ON, DaemonFit(runs=False, stays=True)),
    ([], [Taint("a", "", "NoExecute")], ALL_ON, DaemonFit(runs=False, stays=False)),
    ([{"operator": "Exists"}], [Taint("a", "", "NoExecute")], ALL_ON, DaemonFit(runs=True, stays=True)),
    ([{"key": "r/*", "operator": "Exists"}], [Taint("r/a", "", "NoExecute")], ALL_ON, DaemonFit(runs=True, stays=True)),
    (
        [{"key": "r/*", "operator": "Exists"}],
        [Taint("r/a", "", "NoExecute")],
        NONE_ON,
        DaemonFit(runs=False, stays=False),
    ),
    (
        [{"key": "sla", "operator": "Gt", "value": "9"}],
        [Taint("sla", "10", "NoSchedule")],
        ALL_ON,
        DaemonFit(True, True),
    ),
    (
        [{"key": "sla", "operator": "Gt", "value": "9"}],
        [Taint("sla", "10", "NoExecute")],
        NONE_ON,
        DaemonFit(False, True),
    ),
    ([{"expression": "taint.key == 'a'"}], [Taint("a", "", "NoExecute")], ALL_ON, DaemonFit(runs=True, stays=True)),
    ([{"expression": "taint.key == 'a'"}], [Taint("a", "", "NoExecute")], NONE_ON, DaemonFit(runs=False, stays=False)),
]


@pytest.mark.parametrize(("tolerations", "taints", "gates", "place"), GRID)
def test_where_a_template_may_run(tolerations: list[Data], taints: list[Taint], gates: Gates, place: DaemonFit) -> None:
    tainted = Node(metadata=ObjectMeta(name="n"), spec=NodeSpec(taints=tuple(taints)))
    assert DaemonPlacement({"spec": {"tolerations": tolerations}}, gates).fit(tainted) == place


def test_five_thousand_nodes_cost_one_judgement_for_each_set_of_taints(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[tuple[Taint, ...]] = []
    placement = DaemonPlacement({"spec": {"tolerations": [{"key": "r/*", "operator": "Exists"}]}}, ALL_ON)
    judge = Tolerations.first_untolerated

    def counted(self: Tolerations, taints: Iterable[Taint]) -> Taint | None:
        judged.append(tuple(taints))
        return judge(self, judged[-1])

    monkeypatch.setattr(Tolerations, "first_untolerated", counted)
    nodes = [
        Node(
            metadata=ObjectMeta(name=f"n{number}"),
            spec=NodeSpec(taints=(Taint(f"r/{number % 3}", "", "NoExecute", datetime.fromtimestamp(number, UTC)),)),
        )
        for number in range(5000)
    ]
    assert all(placement.fit(each).runs for each in nodes)
    assert len(judged) == 3


async def test_a_taint_wakes_only_the_sets_that_it_concerns(tmp_path: Path) -> None:
    synced: list[str] = []

    class Counted(DaemonSets):
        async def sync(self, owner: Any) -> None:
            synced.append(owner.metadata.name)
            await super().sync(owner)

    async with cluster(tmp_path, Counted) as client, kubelet(client):
        await new_node(client, "n1")
        tolerant = daemon_set({"tolerations": [{"operator": "Exists"}]})
        tolerant["metadata"]["name"] = "tolerant"
        tolerant["spec"]["selector"]["matchLabels"] = {"app": "tolerant"}
        tolerant["spec"]["template"]["metadata"]["labels"] = {"app": "tolerant"}
        await create(client, tolerant)
        await create(client, daemon_set())
        await settled(client, 1)
        await becomes(client, "DaemonSet", "tolerant", lambda data: data["status"].get("numberReady") == 1, "apps/v1")
        synced.clear()
        await taint(client, "n1", NO_SCHEDULE)
        await settled(client, 0, numberMisscheduled=1)
        assert "agent" in synced
        assert "tolerant" not in synced


async def test_failed_daemon_pods_are_replaced_later_each_time(tmp_path: Path) -> None:
    clock = ManualClock(datetime.now(UTC))
    async with running(tmp_path, "n1", clock=clock) as (client, agent):
        await create(client, daemon_set())
        await settled(client, 1)

        async def fail() -> str:
            await settled(client, 1)
            pod = (await pods(client))["n1"]["metadata"]
            await agent.fail(pod["name"])
            return str(pod["uid"])

        async def replaced(uid: str) -> bool:
            now = await pods(client)
            return "n1" in now and now["n1"]["metadata"]["uid"] != uid

        first = await fail()
        await eventually(lambda: replaced(first))
        second = await fail()
        await becomes(client, *SET, lambda data: data["status"]["numberUnavailable"] == 1, "apps/v1")
        assert not await replaced(second)
        clock.advance(1)
        await eventually(lambda: replaced(second))


async def test_a_rolling_update_replaces_as_many_as_may_be_missing(tmp_path: Path) -> None:
    async with running(tmp_path, "n1", "n2", "n3") as (client, agent):
        await create(client, daemon_set())
        await settled(client, 3)
        agent.runs = lambda _: False
        await change(client, *SET, image("agent:2"), "apps/v1")
        await becomes(client, *SET, lambda data: data["status"].get("updatedNumberScheduled") == 1, "apps/v1")
        found = await read_all(client, "Pod", "default")
        assert sorted(pod["spec"]["containers"][0]["image"] for pod in found) == ["agent:1", "agent:1", "agent:2"]
        agent.runs = lambda _: True
        agent.look_again()
        await settled(client, 3)
        after = await pods(client)
        assert {pod["spec"]["containers"][0]["image"] for pod in after.values()} == {"agent:2"}
        revisions = await read_all(client, "ControllerRevision", "default", "apps/v1")
        newest = max(revisions, key=lambda each: each["revision"])
        assert {pod["metadata"]["labels"][HASH] for pod in after.values()} == {newest["metadata"]["labels"][HASH]}


async def test_a_revision_is_kept_as_clients_compare_it_byte_by_byte(tmp_path: Path) -> None:
    async with running(tmp_path, "n1") as (client, _):
        await create(client, daemon_set())
        await settled(client, 1)
        (revision,) = (await client.list(kinds.row("apps/v1", "ControllerRevision"), "default")).items
        template = (await read(client, *SET, api_version="apps/v1"))["spec"]["template"]
        kept = msgspec.json.encode({"spec": {"template": {**template, "$patch": "replace"}}}, order="sorted")
        assert b'"data":' + kept in bytes(revision)


async def test_a_rollback_restarts_only_what_was_changed(tmp_path: Path) -> None:
    async with running(tmp_path, "n1", "n2", "n3") as (client, agent):
        await create(client, daemon_set())
        await settled(client, 3)
        before = {pod["metadata"]["uid"] for pod in (await pods(client)).values()}
        agent.runs = lambda _: False
        await change(client, *SET, image("broken"), "apps/v1")
        await becomes(client, *SET, lambda data: data["status"].get("updatedNumberScheduled") == 1, "apps/v1")
        agent.runs = lambda pod: pod.spec.containers[0].image != "broken"
        await change(client, *SET, image("agent:1"), "apps/v1")
        await settled(client, 3)
        after = {pod["metadata"]["uid"] for pod in (await pods(client)).values()}
        assert len(before & after) == 2


async def test_on_delete_leaves_old_pods_alone(tmp_path: Path) -> None:
    async with running(tmp_path, "n1", "n2") as (client, _):
        await create(client, daemon_set(updateStrategy={"type": "OnDelete"}))
        await settled(client, 2)
        await change(client, *SET, image("agent:2"), "apps/v1")
        await settled(client, 2, updatedNumberScheduled=0)
        await remove(client, "Pod", (await pods(client))["n1"]["metadata"]["name"])
        await settled(client, 2, updatedNumberScheduled=1)


async def test_an_old_pod_goes_as_soon_as_the_one_beside_it_was_ready_long_enough(tmp_path: Path) -> None:
    clock = ManualClock(datetime.now(UTC))
    async with running(tmp_path, "n1", clock=clock) as (client, _):
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await create(client, daemon_set(updateStrategy=rolling, minReadySeconds=10))
        await settled(client, 1, numberAvailable=0, numberUnavailable=1)
        clock.advance(10)
        await settled(client, 1)
        await change(client, *SET, image("agent:2"), "apps/v1")

        async def both_ready() -> bool:
            pods = await read_all(client, "Pod", "default")
            return len(pods) == 2 and all(pod["status"]["phase"] == "Running" for pod in pods)

        async def only_new() -> bool:
            pods = await read_all(client, "Pod", "default")
            return [pod["spec"]["containers"][0]["image"] for pod in pods] == ["agent:2"]

        await eventually(both_ready)
        clock.advance(10)
        await eventually(only_new)


async def test_surge_makes_new_pods_before_old_ones_go(tmp_path: Path) -> None:
    async with running(tmp_path, "n1", "n2") as (client, agent):
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await create(client, daemon_set(updateStrategy=rolling))
        await settled(client, 2)
        agent.runs = lambda _: False
        await change(client, *SET, image("agent:2"), "apps/v1")

        async def three() -> bool:
            return len(await read_all(client, "Pod", "default")) == 3

        await eventually(three)
        await settled(client, 2, updatedNumberScheduled=0)
        agent.runs = lambda _: True
        agent.look_again()
        await settled(client, 2)
        assert {pod["spec"]["containers"][0]["image"] for pod in (await pods(client)).values()} == {"agent:2"}


async def test_what_others_say_in_the_status_is_kept(tmp_path: Path) -> None:
    async with running(tmp_path, "n1") as (client, _):
        await create(client, daemon_set())
        await settled(client, 1)
        condition = {"type": "StatusUpdate", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await change(client, *SET, {"status": {"conditions": [condition]}}, "apps/v1", subresource="status")
        await new_node(client, "n2")
        await settled(client, 2)
        kept = await read(client, *SET, api_version="apps/v1")
        assert [each["type"] for each in kept["status"]["conditions"]] == ["StatusUpdate"]
