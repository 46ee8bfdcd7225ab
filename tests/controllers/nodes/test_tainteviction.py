"""Taint eviction: who leaves a tainted node, when, and what is said of it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from moorage.api.node import Node
from moorage.client import Client, Unavailable
from moorage.client.informer import Key
from moorage.controllers.nodes.tainteviction import TaintEviction
from moorage.features import ALL_ON, NONE_ON, Gate
from tests import known_expressions as known
from tests import plane
from tests.controllers.nodes.evicting import (
    KEY,
    POD,
    clock_of_today,
    condition,
    events,
    evicted,
    exists,
    ready_node,
    recorded,
    resident,
    running,
    set_taints,
    stay,
    taint,
    timedelta,
    toleration,
)
from tests.controllers.waiting import eventually, read, settle
from tests.known_expressions import evaluation_threads
from tests.plane import api_server, create, node, pod

UNTOLERATED = f"taint {KEY}=evictTaintVal:NoExecute: no toleration for this key"


async def test_pods_are_evicted_from_tainted_nodes(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction) as controllers:
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a")
        await set_taints(client, "a", taint(added=clock.now()))
        await evicted(client, "web")
        await recorded(client, "web", f"Marking for deletion Pod default/web: {UNTOLERATED}")
        count = controllers.context.registry.get_sample_value
        assert count("taint_eviction_controller_pod_deletions_total") == 1
        assert count("taint_eviction_controller_pod_deletion_duration_seconds_count") == 1


async def test_pods_with_tolerations_are_not_evicted(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "tolerant", "a", toleration())
        await resident(client, "other", "a")
        await set_taints(client, "a", taint(added=clock.now()))
        await evicted(client, "other")
        clock.advance(65)
        await resident(client, "late", "a")
        await evicted(client, "late")
        await stay(client, "tolerant")


async def test_pods_with_finite_tolerations_are_evicted_when_those_end(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "patient", "a", toleration(70))
        await resident(client, "hasty", "a", toleration(65))
        await resident(client, "other", "a")
        await set_taints(client, "a", taint(added=clock.now()))
        await evicted(client, "other")
        clock.advance(67)
        await evicted(client, "hasty")
        await stay(client, "patient")
        clock.advance(6)
        await evicted(client, "patient")


async def test_removing_the_taint_cancels_the_eviction(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "lucky", "a", toleration(10))
        await resident(client, "other", "a")
        await set_taints(client, "a", taint(added=clock.now()))
        await evicted(client, "other")
        clock.advance(5)
        await set_taints(client, "a")
        await recorded(client, "lucky", "Cancelling deletion of Pod default/lucky")
        clock.advance(75)
        await ready_node(client, "b", taints=[])
        await resident(client, "late", "b")
        await set_taints(client, "b", taint(added=clock.now()))
        await evicted(client, "late")
        await stay(client, "lucky")


async def test_evicted_pods_have_the_disruption_condition(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        manifest = pod("kept", nodeName="a")
        manifest["metadata"]["finalizers"] = ["example.com/test-finalizer"]
        await create(client, manifest)
        await set_taints(client, "a", taint(added=clock.now()))
        await evicted(client, "kept")
        disrupted = condition(await read(client, "Pod", "kept"), "DisruptionTarget")
        assert (disrupted["status"], disrupted["reason"], disrupted["message"]) == (
            "True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint",
        )  # fmt: skip


async def test_only_pods_without_tolerations_are_evicted_from_several_nodes(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        for name in ("a", "b"):
            await ready_node(client, name)
        await resident(client, "one", "a")
        await resident(client, "two", "b", toleration())
        await resident(client, "three", "b")
        for name in ("a", "b"):
            await set_taints(client, name, taint(added=clock.now()))
        await evicted(client, "one")
        await evicted(client, "three")
        await stay(client, "two")


async def test_each_pod_has_the_seconds_of_its_own_toleration(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "five", "a", toleration(5))
        await resident(client, "twenty-five", "a", toleration(25))
        await set_taints(client, "a", taint(added=clock.now()))
        clock.advance(6)
        await evicted(client, "five")
        await stay(client, "twenty-five")
        clock.advance(20)
        await evicted(client, "twenty-five")


async def test_a_restart_does_not_give_more_time(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", toleration(60))
        async with running(server, clock, TaintEviction):
            await resident(client, "other", "a")
            await set_taints(client, "a", taint(added=clock.now()))
            await evicted(client, "other")
            clock.advance(40)
        async with running(server, clock, TaintEviction):
            await resident(client, "late", "a")
            await evicted(client, "late")
            await stay(client, "web")
            clock.advance(21)
            await evicted(client, "web")


async def test_who_is_placed_on_a_node_that_was_tainted_long_ago_has_all_its_seconds(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await create(client, node("a", taints=[taint(added=clock.now() - timedelta(days=7))]))
        await resident(client, "new", "a", toleration(300))
        await resident(client, "other", "a")
        await evicted(client, "other")
        await stay(client, "new")
        clock.advance(300)
        await evicted(client, "new")


async def test_a_taint_without_a_time_counts_from_when_it_was_seen(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", toleration(20))
        await resident(client, "other", "a")
        clock.advance(1000)
        await set_taints(client, "a", taint())
        await evicted(client, "other")
        clock.advance(19)
        await stay(client, "web")
        clock.advance(2)
        await evicted(client, "web")


async def test_tolerations_that_are_added_save_a_pod(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", toleration(30))
        await resident(client, "other", "a")
        await set_taints(client, "a", taint(added=clock.now()), taint("x", "second", clock.now()))
        await evicted(client, "other")
        await evicted(client, "web")
        await resident(client, "web", "a", toleration(30), {"key": "second", "operator": "Exists"})
        tolerations = (await read(client, "Pod", "web"))["spec"]["tolerations"]
        more = [{"key": KEY, "operator": "Exists", "effect": "NoExecute"}]
        await client.patch(POD, "default", "web", {"spec": {"tolerations": [*more, *tolerations]}})
        await recorded(client, "web", "Cancelling deletion of Pod default/web")
        clock.advance(60)
        await stay(client, "web")


async def test_a_value_that_changes_is_judged_anew(tmp_path: Path) -> None:
    clock = clock_of_today()
    long_ago = clock.now() - timedelta(days=7)
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await create(client, node("a", taints=[taint("980", "sla", long_ago)]))
        good = {"key": "sla", "operator": "Gt", "value": "950"}
        grace = {"key": "sla", "operator": "Lt", "value": "951", "effect": "NoExecute", "tolerationSeconds": 30}
        await resident(client, "graceful", "a", good, grace)
        await resident(client, "strict", "a", good)
        clock.advance(100)
        await stay(client, "strict")
        await set_taints(client, "a", taint("900", "sla", long_ago))
        await evicted(client, "strict")
        await stay(client, "graceful")
        await set_taints(client, "a", taint("990", "sla", long_ago))
        await recorded(client, "graceful", "Cancelling deletion of Pod default/graceful")
        await set_taints(client, "a", taint("900", "sla", long_ago))
        await resident(client, "late", "a", good)
        await evicted(client, "late")
        clock.advance(31)
        await evicted(client, "graceful")


async def test_the_eviction_trap_of_story_two_is_faithful(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        trap = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute", "tolerationSeconds": 30}
        await resident(client, "trapped", "a", trap)
        await resident(client, "other", "a")
        await set_taints(client, "a", taint("980", "sla", clock.now()))
        await evicted(client, "other")
        await stay(client, "trapped")
        clock.advance(40)
        await evicted(client, "trapped")


_SEMVER = {"key": "v", "operator": "SemverGt", "value": "1.0.0"}
_NUMBER = {"key": "n", "operator": "Gt", "value": "950"}
_WILDCARD = {"key": "family.io/*", "operator": "Exists"}
_EXPRESSION = {"expression": "taint.key == 'e'"}
_TAINTS = (taint("2.0.0", "v"), taint("990", "n"), taint("", "family.io/x"), taint("", "e"))
_NAMES = {Gate.SEMVER: "semver", Gate.COMPARISON: "number", Gate.WILDCARD: "wildcard", Gate.CEL: "expression"}


async def test_gates_that_are_turned_off_evict_only_expressions_and_wildcards(tmp_path: Path) -> None:
    clock = clock_of_today()
    every = {"operator": "Exists"}
    async with api_server(tmp_path) as server:
        client = server.client("test")
        for (gate, name), tolerated, mark in zip(
            _NAMES.items(), (_SEMVER, _NUMBER, _WILDCARD, _EXPRESSION), _TAINTS, strict=True
        ):
            await ready_node(client, gate.name.lower())
            await set_taints(client, gate.name.lower(), mark)
            await resident(client, name, gate.name.lower(), tolerated)
            await resident(client, f"{name}-safe", gate.name.lower(), every)
        async with running(server, clock, TaintEviction, gates=ALL_ON):
            await resident(client, "other", "cel")
            await evicted(client, "other")
            await stay(client, *_NAMES.values())
        async with running(server, clock, TaintEviction, gates=NONE_ON):
            await evicted(client, "wildcard")
            await evicted(client, "expression")
            await stay(client, "number", "semver")


async def test_a_value_that_cannot_be_read_evicts_is_counted_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = clock_of_today()
    caplog.set_level(logging.WARNING)
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction) as controllers:
        client = server.client("test")
        await ready_node(client, "a")
        for name in ("one", "two"):
            await resident(client, name, "a", {"key": "sla", "operator": "Gt", "value": "950"})
        await set_taints(client, "a", taint("high", "sla"))
        await evicted(client, "one")
        await evicted(client, "two")
        errors = controllers.context.registry.get_sample_value(
            "taint_eviction_controller_toleration_errors_total", {"error": "failed to parse taint value as int64"}
        )
        assert errors == 2
        lines = [each.getMessage() for each in caplog.records if "failed to parse" in each.getMessage()]
        assert len(lines) == 1
        assert lines[0].startswith('"failed to parse taint value as int64" taint="sla=high:NoExecute"')


async def test_two_expressions_that_fail_on_the_same_taint_are_two_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with api_server(tmp_path) as server, running(server, clock_of_today(), TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", *({"expression": f"int(taint.value) > {number}"} for number in (1, 2)))
        await set_taints(client, "a", taint("high", "sla"))
        await evicted(client, "web")
    lines = [each.getMessage() for each in caplog.records if "failed to evaluate" in each.getMessage()]
    why = "taint=\"sla=high:NoExecute\" err=\"type conversion error from 'string' to 'int'\""
    assert lines == [
        f'"CEL expression failed to evaluate" expression="int(taint.value) > {number}" {why}' for number in (1, 2)
    ]


async def test_a_pod_of_the_same_name_is_another_pod(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", toleration(30))
        await resident(client, "other", "a")
        await set_taints(client, "a", taint(added=clock.now()))
        await evicted(client, "other")
        await client.delete(POD, "default", "web", grace=0)
        await resident(client, "web", "a", toleration())
        await resident(client, "other", "a")
        await evicted(client, "other")
        clock.advance(31)
        await resident(client, "late", "a")
        await evicted(client, "late")
        await stay(client, "web")
        assert not any(each.startswith("Marking") for each in await events(client, "web"))


async def test_an_eviction_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction) as controllers:
        client = server.client("test")
        delete, failures = controllers.context.client.delete, iter(range(2))

        async def fails_twice(*given: Any, **more: Any) -> bytes:
            if next(failures, None) is not None:
                raise Unavailable(503, "ServiceUnavailable", "not now")
            return await delete(*given, **more)

        monkeypatch.setattr(controllers.context.client, "delete", fails_twice)
        await ready_node(client, "a")
        await resident(client, "web", "a")
        await set_taints(client, "a", taint(added=clock.now()))

        async def gone() -> bool:
            clock.advance(1)
            return not await exists(client, "web")

        await eventually(gone)
        assert await events(client, "web") == [f"Marking for deletion Pod default/web: {UNTOLERATED}"]


async def fill(client: Client, node_name: str, count: int) -> None:
    """Put many pods on a node."""
    names = iter(range(count))

    async def some() -> None:
        for number in names:
            await resident(client, f"many-{number}", node_name)

    await asyncio.gather(*(some() for _ in range(16)))


async def test_a_node_with_many_pods_holds_up_no_other(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction) as controllers:
        client, count = server.client("test"), controllers.context.registry.get_sample_value
        for name in ("full", "small"):
            await ready_node(client, name)
        await resident(client, "other", "small")
        await fill(client, "full", 600)
        await set_taints(client, "full", taint(added=clock.now()))

        async def burst_is_over() -> bool:
            return count("taint_eviction_controller_pod_deletions_total") == 400

        # The clock stands, so no more than the first burst is evicted.
        await plane.eventually(burst_is_over)
        await set_taints(client, "small", taint(added=clock.now()))
        (controller,), nodes = controllers.controllers, controllers.context.informers.of(Node)

        async def both_wait() -> bool:
            small = nodes.get("", "small")
            return small is not None and bool(small.spec.taints) and controller.queue.is_idle

        await plane.eventually(both_wait)
        clock.advance(0.01)

        async def left() -> set[str]:
            names = {each["metadata"]["name"] for each in await plane.read_all(client, "Pod")}
            return names if "other" not in names else set()

        assert len(await plane.eventually(left)) >= 198


async def test_the_pods_of_a_node_are_judged_in_parts_so_that_others_get_their_turn(tmp_path: Path) -> None:
    clock, turns = clock_of_today(), 0

    class Watched(TaintEviction):
        async def reconcile(self, key: Key) -> None:
            watcher = asyncio.create_task(count_turns())
            await super().reconcile(key)
            watcher.cancel()

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with api_server(tmp_path) as server:
        client = server.client("test")
        await ready_node(client, "full")
        await fill(client, "full", 600)
        async with running(server, clock, Watched):
            await settle()
    assert turns >= 2


async def test_tolerations_that_take_long_are_evaluated_off_the_event_loop(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        with evaluation_threads() as threads:
            await resident(client, "intolerant", "a", {"expression": f"{known.SLOW} && taint.value == 'other'"})
            await resident(client, "tolerant", "a", {"expression": f"{known.SLOW} && taint.value != 'other'"})
            await set_taints(client, "a", taint("this", added=clock.now()))
            await evicted(client, "intolerant")
            await stay(client, "tolerant")
            assert set(threads) == {"evaluations"}
