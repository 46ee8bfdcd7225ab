"""What a scheduler counts and logs: under the names that people know, once for each decision, errors told apart."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from moorage.features import ALL_ON, NONE_ON
from tests.plane import eventually
from tests.scheduler.stage import Stage, stage
from tests.scheduler.test_truth import play

FIT = "NodeResourcesFit"


def sample(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0


def evaluations(here: Stage, plugin: str, point: str, status: str) -> float:
    return sample(
        here.scheduler.metrics.registry, "scheduler_plugin_evaluation_total",
        plugin=plugin, extension_point=point, profile="default-scheduler", status=status,
    )  # fmt: skip


async def test_a_scheduler_tells_all_that_kube_schedulers_dashboards_ask_for(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", taints=[{"key": "readiness.io/cni", "effect": "NoSchedule"}])
        await here.pod("placed", tolerations=[{"key": "readiness.io/*", "operator": "Exists"}])
        await here.pod("waiting")
        await here.pod("gated", schedulingGates=[{"name": "later"}])
        await here.node_of("placed")
        await here.unschedulable("waiting")
        registry = here.scheduler.metrics.registry

        async def counted() -> bool:
            placed = sample(
                registry, "scheduler_schedule_attempts_total", result="scheduled", profile="default-scheduler"
            )
            return bool(placed and sample(registry, "scheduler_pending_pods", queue="gated"))

        assert await eventually(counted)
        profile = {"profile": "default-scheduler"}
        assert sample(registry, "scheduler_schedule_attempts_total", result="unschedulable", **profile) == 1
        for result in ("scheduled", "unschedulable"):
            name = "scheduler_scheduling_attempt_duration_seconds_count"
            assert sample(registry, name, result=result, **profile) == 1
        queues = {queue: sample(registry, "scheduler_pending_pods", queue=queue) for queue in
                  ("active", "backoff", "unschedulable", "gated")}  # fmt: skip
        assert queues == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1}
        assert sample(registry, "scheduler_unschedulable_pods", plugin="TaintToleration", **profile) == 1
        assert sample(registry, "scheduler_wildcard_match_duration_seconds_count") >= 1
        assert sample(registry, "scheduler_pod_scheduling_attempts_count") == 1
        assert sample(registry, "scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 1
        assert sample(registry, "scheduler_preemption_attempts_total") == 1
        assert sample(registry, "scheduler_scheduling_algorithm_duration_seconds_count") == 2
        text = generate_latest(registry).decode()
        for name in ("plugin_execution_duration_seconds", "framework_extension_point_duration_seconds"):
            assert f"\nscheduler_{name}_count" in text


async def test_what_plugins_say_is_counted_once_a_decision_whatever_the_number_of_nodes(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for number in range(12):
            await here.node(f"node-{number}", taints=[{"key": f"taint-{number}", "effect": "NoSchedule"}])
        await here.node("full", cpu="1")
        await here.pod("big", requests={"cpu": "2"})
        await here.unschedulable("big", "0/13")
        rejected = "UnschedulableAndUnresolvable"
        registry = here.scheduler.metrics.registry
        profile = "default-scheduler"
        tries = sample(registry, "scheduler_schedule_attempts_total", result="unschedulable", profile=profile)
        assert evaluations(here, "TaintToleration", "Filter", rejected) == tries
        assert evaluations(here, FIT, "Filter", rejected) <= tries
        await here.pod("small")
        await here.node_of("small")

        async def said() -> bool:
            return evaluations(here, FIT, "Score", "Success") == 1 == evaluations(here, FIT, "Filter", "Success")

        assert await eventually(said)


async def test_an_error_is_told_apart_from_a_mismatch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gt = [{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}]
    async with stage(tmp_path) as here:
        await here.node("low", taints=[{"key": "sla", "value": "900", "effect": "NoSchedule"}])
        await here.pod("mismatch", tolerations=gt)
        await here.unschedulable("mismatch", "untolerated taint(s)")
        assert evaluations(here, "TaintToleration", "Filter", "Error") == 0
        assert evaluations(here, "TaintToleration", "Filter", "UnschedulableAndUnresolvable") == 1
        with caplog.at_level(logging.WARNING):
            await here.taint("low", {"key": "sla", "value": "high", "effect": "NoSchedule"})
            await here.pod("error", tolerations=gt)
            await here.unschedulable("error", "untolerated taint(s)")
            assert evaluations(here, "TaintToleration", "Filter", "Error") == 1
            registry = here.scheduler.metrics.registry
            message = "failed to parse taint value as int64"
            assert sample(registry, "scheduler_unclear_verdicts_total", message=message) >= 1
            await here.node("other", taints=[{"key": "sla", "value": "high", "effect": "NoSchedule"}])
            await here.pod("again", requests={"cpu": "1"}, tolerations=gt)
            await here.unschedulable("again", "2 node(s) had untolerated taint(s)")
        logged = [each.getMessage() for each in caplog.records if message in each.getMessage()]
        assert logged == [f'"{message}" taint="sla=high:NoSchedule" err="\\"high\\" is not a decimal integer"']


@pytest.mark.parametrize(
    ("toleration", "value", "words"),
    [
        ({"key": "k", "operator": "Lt", "value": "5"}, "1e3", "failed to parse taint value as int64"),
        (
            {"key": "k", "operator": "SemverGt", "value": "1.2"},
            "latest",
            "failed to parse taint value as semantic version",
        ),
        ({"expression": "int(taint.value) > 5"}, "many", "type conversion error"),
    ],
)
async def test_each_value_that_cannot_be_understood_is_logged_once(
    toleration: dict[str, str], value: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with play() as here:
        for effect in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            here.node(f"{effect.lower()}", "4", {"key": "k", "value": value, "effect": effect})
        for number in range(3):
            here.pod(f"pod-{number}", cpu=f"{number + 1}", tolerations=[toleration])
        await here.settle()
        assert len([each for each in caplog.records if words in each.getMessage()]) == 1


async def test_with_the_gate_off_there_is_no_error_but_a_mismatch(tmp_path: Path) -> None:
    gt = [{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}]
    async with stage(tmp_path, NONE_ON) as here:
        await here.node("high", taints=[{"key": "sla", "value": "high", "effect": "NoSchedule"}])
        await here.pod("web", tolerations=gt)
        await here.unschedulable("web", "untolerated taint(s)")
        assert evaluations(here, "TaintToleration", "Filter", "Error") == 0
        await here.restart(ALL_ON)

        async def parse_error_is_counted() -> bool:
            return evaluations(here, "TaintToleration", "Filter", "Error") == 1

        assert await eventually(parse_error_is_counted)


async def test_bindings_that_fail_are_counted_as_errors() -> None:
    async with play() as here:
        answers = iter(["refused", "refused"])
        here.api.trouble = lambda verb, key: next(answers, "") if verb == "bind" else ""
        here.node("only")
        here.pod("web")
        await here.settle()
        registry = here.scheduler.metrics.registry
        profile = {"profile": "default-scheduler"}
        assert sample(registry, "scheduler_schedule_attempts_total", result="error", **profile) == 2
        assert sample(registry, "scheduler_schedule_attempts_total", result="scheduled", **profile) == 1


async def test_without_nodes_no_plugin_is_blamed() -> None:
    async with play() as here:
        here.pod("web")
        await here.settle()
        text = generate_latest(here.scheduler.metrics.registry).decode()
        assert 'scheduler_unschedulable_pods{plugin=""' not in text
        assert 'scheduler_pending_pods{queue="unschedulable"} 1.0' in text


async def test_counting_takes_no_more_room_the_more_is_counted() -> None:
    async with play() as here:
        for round_ in range(30):
            for number in range(8):
                taints = [{"key": f"t{round_ % (number + 1)}", "effect": "NoSchedule"}]
                here.node(f"node-{number}", "4", *taints)
            here.pod(f"pod-{round_}", cpu=f"{round_ + 1}m")
            await here.settle()
        assert len(here.scheduler.metrics.evaluations) < 12


async def test_events_and_conditions_say_the_same(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.pod("web")
        assert await here.unschedulable("web") == "no nodes available to schedule pods"
        await here.node("only", taints=[{"key": "gpu", "effect": "NoSchedule"}])
        await here.pod("second")
        why = await here.unschedulable("second", "gpu")

        async def told() -> bool:
            events = [each for each in await here.events("second") if each["reason"] == "FailedScheduling"]
            return [(each["type"], each["message"]) for each in events] == [("Warning", why)]

        assert await eventually(told)
        event = (await here.events("second"))[0]
        assert event["reportingComponent"] == "default-scheduler"
        assert event["involvedObject"]["uid"] == (await here.get("second"))["metadata"]["uid"]
