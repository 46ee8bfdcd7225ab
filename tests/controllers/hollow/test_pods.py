from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.client import Client, Missing
from moorage.client.client import STRATEGIC
from moorage.client.clock import ManualClock
from moorage.client.transport import Transport
from moorage.controllers.hollow import HollowNodes
from moorage.features import ALL_ON, NONE_ON
from tests import known_expressions as known
from tests.controllers.small_cluster import becomes, change, cluster, controllers, gone, remove
from tests.controllers.waiting import eventually, read, read_all, started
from tests.plane import api_server, create, node, pod

POD = kinds.row("v1", "Pod")
START = datetime(2026, 1, 1, tzinfo=UTC)
NO_EXECUTE = {"key": "sla", "value": "900", "effect": "NoExecute"}
GT = {"key": "sla", "operator": "Gt", "value": "800", "effect": "NoExecute"}


def has_phase(phase: str) -> Any:
    return lambda data: data["status"]["phase"] == phase


def says(data: Data) -> dict[str, str]:
    return {each["type"]: each["status"] for each in data["status"]["conditions"]}


def task(name: str, *, policy: str = "Never", job: bool = True, **told: str) -> Data:
    manifest = pod(name, nodeName="n1", restartPolicy=policy)
    manifest["spec"]["containers"][0]["image"] = "task:1"
    manifest["metadata"]["annotations"] = {f"moorage.dev/{key.replace('_', '-')}": value for key, value in told.items()}
    if job:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job", "controller": True}
        manifest["metadata"]["ownerReferences"] = [owner]
    return manifest


async def until_phase(client: Client, clock: ManualClock, name: str, phase: str) -> Data:
    async def there() -> Data | None:
        clock.advance(0.1)
        data = await read(client, "Pod", name)
        return data if data["status"]["phase"] == phase else None

    found: Data = await eventually(there)
    return found


async def test_a_pod_that_is_bound_runs_and_is_ready(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        manifest = pod("web")
        helper = {"name": "helper", "image": "helper:1", "restartPolicy": "Always"}
        manifest["spec"]["initContainers"] = [{"name": "setup", "image": "setup:1"}, helper]
        created = await create(client, manifest)
        await client.bind("default", "web", created["metadata"]["uid"], "n1")
        runs = await becomes(client, "Pod", "web", has_phase("Running"))
        status = runs["status"]
        assert says(runs) == {
            "PodScheduled": "True", "PodReadyToStartContainers": "True", "Initialized": "True",
            "ContainersReady": "True", "Ready": "True",
        }  # fmt: skip
        (main,) = status["containerStatuses"]
        assert main["ready"]
        assert main["started"]
        assert "startedAt" in main["state"]["running"]
        assert main["image"] == "pause:3.10"
        assert main["imageID"].startswith("pause@sha256:")
        setup, beside = status["initContainerStatuses"]
        assert setup["state"]["terminated"]["reason"] == "Completed"
        assert "running" in beside["state"]
        assert status["hostIP"] == (await read(client, "Node", "n1"))["status"]["addresses"][0]["address"]
        assert status["podIPs"] == [{"ip": status["podIP"]}]
        assert status["podIP"] != status["hostIP"]
        assert status["startTime"]


async def test_a_pod_waits_for_an_image_that_is_not_to_be_had_until_it_is_given_another(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        manifest = pod("web", nodeName="n1")
        manifest["spec"]["containers"].append({"name": "bad", "image": "web:404"})
        await create(client, manifest)
        waits = await becomes(client, "Pod", "web", lambda data: "containerStatuses" in data["status"])
        assert (waits["status"]["phase"], says(waits)["Ready"]) == ("Pending", "False")
        main, bad = waits["status"]["containerStatuses"]
        assert "running" in main["state"]
        assert bad["state"]["waiting"]["reason"] == "ImagePullBackOff"

        async def events_are_right() -> bool:
            return {"Failed", "BackOff"} <= {each["reason"] for each in await read_all(client, "Event", "default")}

        await eventually(events_are_right)
        better = {"spec": {"containers": [{"name": "bad", "image": "web:1"}]}}
        await client.patch(POD, "default", "web", better, form=STRATEGIC)
        runs = await becomes(client, "Pod", "web", has_phase("Running"))
        assert says(runs)["Ready"] == "True"


async def test_a_container_that_is_added_to_look_into_a_pod_runs_until_the_pod_ends(tmp_path: Path) -> None:
    clock = ManualClock(START)
    async with cluster(tmp_path, HollowNodes, clock=clock) as client:
        await create(client, node("n1"))
        await create(client, pod("web", nodeName="n1", activeDeadlineSeconds=60))
        await becomes(client, "Pod", "web", has_phase("Running"))

        def debuggers(data: Data) -> Data:
            return {each["name"]: each["state"] for each in data["status"].get("ephemeralContainerStatuses", ())}

        async def debug(*names: str) -> Data:
            added = [{"name": name, "image": "tools:1", "targetContainerName": "main"} for name in names]
            patch = {"spec": {"ephemeralContainers": added}}
            await client.patch(POD, "default", "web", patch, form=STRATEGIC, subresource="ephemeralcontainers")
            debugged = await becomes(client, "Pod", "web", lambda data: len(debuggers(data)) == len(names))
            return debuggers(debugged)

        clock.advance(10)
        first = await debug("debugger")
        assert first == {"debugger": {"running": {"startedAt": "2026-01-01T00:00:10Z"}}}
        clock.advance(10)
        both = await debug("debugger", "second")
        assert both == {**first, "second": {"running": {"startedAt": "2026-01-01T00:00:20Z"}}}
        clock.advance(60)
        over = await becomes(client, "Pod", "web", has_phase("Failed"))
        assert all("terminated" in state for state in debuggers(over).values())


class Counting(Client):
    """Counts what is written of each pod."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.writes: Counter[str] = Counter()

    async def patch(self, kind: Kind, namespace: str, name: str, patch: Any, **how: Any) -> bytes:
        self.writes[name] += kind is POD
        return await super().patch(kind, namespace, name, patch, **how)


async def test_one_write_is_enough_for_a_pod_to_run(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client, counting = server.client("test"), Counting(server.client("kubelet").transport)
        await create(client, node("n1"))
        async with controllers(counting, HollowNodes):
            for name in ("one", "two"):
                await create(client, pod(name, nodeName="n1"))
                await becomes(client, "Pod", name, has_phase("Running"))
        assert (counting.writes["one"], counting.writes["two"]) == (1, 1)


async def test_what_a_kubelet_does_can_be_read_in_the_events_of_a_pod(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        manifest = pod("web", nodeName="n1")
        manifest["spec"]["initContainers"] = [{"name": "setup", "image": "setup:1"}]
        await create(client, manifest)

        async def events_are_right() -> list[Data]:
            events = sorted(await read_all(client, "Event", "default"), key=lambda each: str(each["metadata"]["name"]))
            about_pods = [each for each in events if each["involvedObject"]["kind"] == "Pod"]
            return about_pods if len(about_pods) == 6 else []

        events = await eventually(events_are_right)
        present = "already present on machine and can be accessed by the pod"
        assert [(each["involvedObject"]["fieldPath"], each["reason"], each["message"]) for each in events] == [
            ("spec.initContainers{setup}", "Pulled", f'Container image "setup:1" {present}'),
            ("spec.initContainers{setup}", "Created", "Container created"),
            ("spec.initContainers{setup}", "Started", "Container started"),
            ("spec.containers{main}", "Pulled", f'Container image "pause:3.10" {present}'),
            ("spec.containers{main}", "Created", "Container created"),
            ("spec.containers{main}", "Started", "Container started"),
        ]
        runs = await read(client, "Pod", "web")
        assert {each["firstTimestamp"] for each in events} == {runs["status"]["startTime"]}
        assert [each["source"] for each in events] == [{"component": "kubelet", "host": "n1"}] * 6


async def test_pods_on_the_network_of_the_node_have_its_address(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        await create(client, pod("net", nodeName="n1", hostNetwork=True))
        status = (await becomes(client, "Pod", "net", has_phase("Running")))["status"]
        assert status["podIP"] == status["hostIP"]


async def test_a_pod_is_not_ready_before_its_readiness_gates_are(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        await create(client, pod("web", nodeName="n1", readinessGates=[{"conditionType": "example.com/warm"}]))
        runs = await becomes(client, "Pod", "web", has_phase("Running"))
        assert says(runs)["ContainersReady"] == "True"
        (ready,) = (each for each in runs["status"]["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "ReadinessGatesNotReady")
        assert ready["message"] == 'corresponding condition of pod readiness gate "example.com/warm" does not exist.'

        warm = [*runs["status"]["conditions"], {"type": "example.com/warm", "status": "True"}]
        await change(client, "Pod", "web", {"status": {"conditions": warm}}, subresource="status")
        done = await becomes(client, "Pod", "web", lambda data: says(data)["Ready"] == "True")
        assert says(done)["example.com/warm"] == "True"


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, "NodeAffinity",
         "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"),
        ({"requests": {"cpu": "17"}}, "OutOfcpu",
         "Node didn't have enough resource: cpu, requested: 17000, used: 100, capacity: 16000"),
        ({"requests": {"ephemeral-storage": "101Gi"}}, "OutOfephemeral-storage",
         "Node didn't have enough resource: ephemeral-storage, requested: 108447924224, used: 0, "
         "capacity: 107374182400"),
        ({"tolerations": [{"key": "other", "operator": "Exists"}]}, "TaintToleration",
         "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"),
        ({"tolerations": [GT | {"value": "950"}]}, "TaintToleration",
         "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"),
        ({"os": {"name": "windows"}, "tolerations": [GT]}, "PodOSNotSupported",
         "Failed to admit pod as the OS field doesn't match node OS"),
        ({"labels": {"kubernetes.io/os": "windows"}}, "PodOSSelectorNodeLabelDoesNotMatch",
         "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"),
    ],
)  # fmt: skip
async def test_a_pod_that_does_not_belong_on_a_node_is_rejected(
    tmp_path: Path, spec: Data, reason: str, message: str
) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1", taints=[NO_EXECUTE]))
        await create(client, pod("first", nodeName="n1", tolerations=[GT]))
        await becomes(client, "Pod", "first", has_phase("Running"))
        await create(client, pod("web", nodeName="n1", **{"tolerations": [GT], **spec}))
        status = (await becomes(client, "Pod", "web", has_phase("Failed")))["status"]
        assert status["reason"] == reason
        assert status["message"] == f"Pod was rejected: {message}"

        async def events_are_right() -> bool:
            return any(each["reason"] == reason for each in await read_all(client, "Event", "default"))

        await eventually(events_are_right)


async def test_a_full_node_rejects_and_has_room_again_when_pods_end(tmp_path: Path) -> None:
    clock = ManualClock(START)
    async with cluster(tmp_path, HollowNodes, clock=clock) as client:
        await create(client, node("n1", pods="1"))
        await create(client, task("first"))
        await becomes(client, "Pod", "first", has_phase("Running"))
        await create(client, pod("second", nodeName="n1"))
        status = (await becomes(client, "Pod", "second", has_phase("Failed")))["status"]
        assert status["reason"] == "OutOfpods"
        assert status["message"].endswith("Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1")
        await until_phase(client, clock, "first", "Succeeded")
        await create(client, pod("third", nodeName="n1"))
        await becomes(client, "Pod", "third", has_phase("Running"))


async def test_a_critical_pod_takes_the_room_of_others(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1", cpu="1"))
        for name, cpu in (("small", "200m"), ("large", "700m")):
            await create(client, pod(name, nodeName="n1", requests={"cpu": cpu}))
            await becomes(client, "Pod", name, has_phase("Running"))
        critical: Data = {"nodeName": "n1", "priorityClassName": "system-node-critical"}
        await create(client, pod("agent", requests={"cpu": "600m"}, **critical))
        await becomes(client, "Pod", "agent", has_phase("Running"))
        ended = await becomes(client, "Pod", "large", has_phase("Failed"))
        assert (ended["status"]["reason"], ended["status"]["message"]) == (
            "Preempting", "Preempted in order to admit critical pod",
        )  # fmt: skip
        assert says(ended)["DisruptionTarget"] == "True"
        assert (await read(client, "Pod", "small"))["status"]["phase"] == "Running"

        await create(client, pod("greedy", requests={"cpu": "2"}, **critical))
        refused = (await becomes(client, "Pod", "greedy", has_phase("Failed")))["status"]
        assert refused["reason"] == "UnexpectedAdmissionError"
        assert "no set of running pods found to reclaim resources: [(res: cpu, q: 1600), ]" in refused["message"]
        elsewhere = pod("elsewhere", requests={"cpu": "600m"}, nodeSelector={"disk": "ssd"}, **critical)
        await create(client, elsewhere)
        assert (await becomes(client, "Pod", "elsewhere", has_phase("Failed")))["status"]["reason"] == "NodeAffinity"


async def test_a_port_of_a_node_is_taken_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        for name in ("first", "second"):
            manifest = pod(name, nodeName="n1")
            manifest["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
            await create(client, manifest)
        phases = {}
        for name in ("first", "second"):
            judged = await becomes(client, "Pod", name, lambda data: data["status"]["phase"] != "Pending")
            phases[judged["status"]["phase"]] = judged["status"].get("reason")
        assert phases == {"Running": None, "Failed": "NodePorts"}


async def test_what_no_kubelet_has_heard_of_keeps_no_pod_out(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        manifest = pod("web", nodeName="n1")
        asked = {"example.com/licence": "1"}
        manifest["spec"]["containers"][0]["resources"] = {"requests": asked, "limits": asked}
        await create(client, manifest)
        await becomes(client, "Pod", "web", has_phase("Running"))


async def test_a_gate_that_is_off_in_the_kubelet_rejects_what_needs_it(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await create(client, node("n1", taints=[NO_EXECUTE]))
        for gates, phase in ((ALL_ON, "Running"), (NONE_ON, "Failed")):
            async with started(server.client("kubelet"), None, HollowNodes, gates=gates):
                await create(client, pod(f"pod-{phase.lower()}", nodeName="n1", tolerations=[GT]))
                await becomes(client, "Pod", f"pod-{phase.lower()}", has_phase(phase))
        assert (await read(client, "Pod", "pod-running"))["status"]["phase"] == "Running"


async def test_pods_of_jobs_finish_and_plain_pods_run_on(tmp_path: Path) -> None:
    clock = ManualClock(START)
    async with cluster(tmp_path, HollowNodes, clock=clock) as client:
        await create(client, node("n1"))
        await create(client, task("job"))
        await create(client, task("plain", job=False))
        await create(client, task("fails", run_seconds="5", exit_code="3"))
        await create(client, pod("web", nodeName="n1"))
        for name in ("job", "plain", "fails", "web"):
            await becomes(client, "Pod", name, has_phase("Running"))
        clock.advance(1)
        done = await becomes(client, "Pod", "job", has_phase("Succeeded"))
        (main,) = done["status"]["containerStatuses"]
        assert main["state"]["terminated"]["exitCode"] == 0
        assert main["state"]["terminated"]["reason"] == "Completed"
        assert says(done)["Ready"] == "False"
        assert (await read(client, "Pod", "fails"))["status"]["phase"] == "Running"
        clock.advance(4)
        failed = await becomes(client, "Pod", "fails", has_phase("Failed"))
        assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        for name in ("plain", "web"):
            assert (await read(client, "Pod", name))["status"]["phase"] == "Running"


async def test_a_task_that_fails_on_failure_starts_again(tmp_path: Path) -> None:
    clock = ManualClock(START)
    async with cluster(tmp_path, HollowNodes, clock=clock) as client:
        await create(client, node("n1"))
        await create(client, task("again", policy="OnFailure", exit_code="1"))

        def restarted(count: int) -> Any:
            return lambda data: data["status"]["containerStatuses"][0]["restartCount"] == count

        await becomes(client, "Pod", "again", has_phase("Running"))
        clock.advance(1)
        runs = await becomes(client, "Pod", "again", restarted(1))
        assert runs["status"]["phase"] == "Running"
        assert runs["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
        clock.advance(1)
        await becomes(client, "Pod", "again", restarted(2))
        clock.advance(11)
        await becomes(client, "Pod", "again", restarted(3))


async def test_a_pod_ends_when_its_time_is_up(tmp_path: Path) -> None:
    clock = ManualClock(START)
    async with cluster(tmp_path, HollowNodes, clock=clock) as client:
        await create(client, node("n1"))
        await create(client, pod("short", nodeName="n1", activeDeadlineSeconds=30))
        await becomes(client, "Pod", "short", has_phase("Running"))
        clock.advance(30)
        status = (await becomes(client, "Pod", "short", has_phase("Failed")))["status"]
        assert status["reason"] == "DeadlineExceeded"
        assert status["message"] == "Pod was active on the node longer than the specified deadline"


async def test_what_was_running_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client, kubelet = server.client("test"), server.client("kubelet")
        await create(client, node("n1", pods="2"))
        async with started(kubelet, ManualClock(START), HollowNodes):
            await create(client, task("job", run_seconds="60"))
            before = await becomes(client, "Pod", "job", has_phase("Running"))
        clock = ManualClock(datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC))
        async with started(kubelet, clock, HollowNodes):
            await create(client, pod("new", nodeName="n1"))
            new = await becomes(client, "Pod", "new", has_phase("Running"))
            assert new["status"]["podIP"] != before["status"]["podIP"]
            await create(client, pod("much", nodeName="n1"))
            assert (await becomes(client, "Pod", "much", has_phase("Failed")))["status"]["reason"] == "OutOfpods"
            assert await read(client, "Pod", "job") == before
            clock.advance(30)
            await becomes(client, "Pod", "job", has_phase("Succeeded"))


async def test_a_deleted_pod_goes_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        await create(client, pod("web", nodeName="n1"))
        await becomes(client, "Pod", "web", has_phase("Running"))
        await remove(client, "Pod", "web")
        await gone(client, "Pod", "web")


async def test_a_pod_may_take_its_time_to_stop_within_the_grace_period(tmp_path: Path) -> None:
    clock = ManualClock(datetime.now(UTC))
    async with cluster(tmp_path, HollowNodes, clock=clock) as client:
        await create(client, node("n1"))
        for name, seconds in (("slow", "10"), ("slower", "1000")):
            manifest = pod(name, nodeName="n1", terminationGracePeriodSeconds=20)
            manifest["metadata"]["annotations"] = {"moorage.dev/stop-seconds": seconds}
            await create(client, manifest)
            await becomes(client, "Pod", name, has_phase("Running"))
            await remove(client, "Pod", name)
        clock.advance(5)
        await create(client, pod("meanwhile", nodeName="n1"))
        await becomes(client, "Pod", "meanwhile", has_phase("Running"))
        assert (await read(client, "Pod", "slow"))["status"]["phase"] == "Running"
        clock.advance(6)
        await gone(client, "Pod", "slow")
        assert (await read(client, "Pod", "slower"))["status"]["phase"] == "Running"
        clock.advance(10)
        await gone(client, "Pod", "slower")


async def test_a_task_that_is_interrupted_has_failed_and_waits_for_its_finalizers(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        for name, grace in (("asked", None), ("forced", 0)):
            manifest = task(name, run_seconds="1000")
            manifest["metadata"]["finalizers"] = ["example.com/counted"]
            await create(client, manifest)
            await becomes(client, "Pod", name, has_phase("Running"))
            await remove(client, "Pod", name, grace=grace)
            ended = await becomes(client, "Pod", name, has_phase("Failed"))
            assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
            await becomes(client, "Pod", name, lambda data: data["metadata"]["deletionGracePeriodSeconds"] == 0)
            await change(client, "Pod", name, {"metadata": {"finalizers": None}})
            await gone(client, "Pod", name)


async def test_a_wish_that_cannot_be_understood_is_told(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        await create(client, task("odd", job=False, run_seconds="soon"))
        await becomes(client, "Pod", "odd", has_phase("Running"))

        async def events_are_right() -> bool:
            events = await read_all(client, "Event", "default")
            return any('run-seconds: "soon" is not a number of seconds' in each["message"] for each in events)

        await eventually(events_are_right)


async def test_what_others_say_of_a_pod_is_kept(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, pod("web", nodeName="n1"), conditions=[{"type": "example.com/seen", "status": "True"}])
        await create(client, node("n1"))
        runs = await becomes(client, "Pod", "web", has_phase("Running"))
        assert says(runs)["example.com/seen"] == "True"


async def test_a_pod_that_is_gone_meanwhile_is_no_trouble(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        for number in range(20):
            await create(client, pod(f"short-{number}", nodeName="n1"))
            await remove(client, "Pod", f"short-{number}", grace=0)
        await create(client, pod("last", nodeName="n1"))
        await becomes(client, "Pod", "last", has_phase("Running"))
        with pytest.raises(Missing):
            await client.get(POD, "default", "short-0")


async def test_affinity_that_takes_long_is_judged_off_the_event_loop_while_other_pods_are_admitted(
    tmp_path: Path,
) -> None:
    term = {"matchCELExpressions": [f"{known.SLOW} && node.labels[?'disk'].orValue('') == 'tape'"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("n1"))
        with known.evaluation_threads() as threads:
            await create(client, pod("slow", nodeName="n1", affinity={"nodeAffinity": required}))
            await create(client, pod("plain", nodeName="n1"))
            await becomes(client, "Pod", "plain", has_phase("Running"))
            refused = await becomes(client, "Pod", "slow", has_phase("Failed"))
        assert refused["status"]["reason"] == "NodeAffinity"
        assert set(threads) == {"evaluations"}
