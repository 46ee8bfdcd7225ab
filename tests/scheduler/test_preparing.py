"""An expensive pod delays itself: others pass it while its expressions are evaluated."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.match import expressions
from moorage.match.verdict import Verdict
from moorage.scheduler import preparing, scheduler
from moorage.scheduler.pods import counts, victimsearch
from moorage.scheduler.preparing import Preparing
from moorage.scheduler.queue import Queue, Queued
from tests.plane import create, eventually, read_all
from tests.scheduler.stage import stage

NUMBERS = ",".join(map(str, range(200)))
LOOPS = f"[{NUMBERS}].all(a, [{NUMBERS}].all(b, a + b >= 0))"


def on_host(name: str) -> dict[str, Any]:
    term = {"matchCELExpressions": [f"{LOOPS} && node.labels['kubernetes.io/hostname'] == '{name}'"]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


class Held:
    """Costly evaluations wait until they are let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = 0
        self.threads: set[str] = set()

    def hold(self, verdict: Any) -> Any:
        def held(subject: Any) -> Verdict:
            self.begun += 1
            self.threads.add(threading.current_thread().name)
            assert self.go.wait(60)
            answer: Verdict = verdict(subject)
            return answer

        return held


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    holder, original = Held(), expressions.verdict_of
    monkeypatch.setattr(expressions, "verdict_of", lambda function: holder.hold(original(function)))
    return holder


async def test_other_pods_pass_one_whose_expressions_take_long(held: Held, tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for name in ("east", "west"):
            await here.node(name, labels={"kubernetes.io/hostname": name})
        await here.pod("expensive", affinity=on_host("west"))
        await here.pod("cheap")
        assert await here.node_of("cheap") in ("east", "west")
        assert not (await here.get("expensive"))["spec"].get("nodeName")
        held.go.set()
        assert await here.node_of("expensive") == "west"
        assert held.threads == {"evaluations"}


async def test_a_pod_that_is_deleted_is_no_longer_prepared(held: Held, tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for number in range(20):
            await here.node(f"node-{number}", labels={"kubernetes.io/hostname": f"gone-{number}"})
        await here.pod("expensive", affinity=on_host("gone-19"))
        await here.pod("first")
        await here.node_of("first")
        await here.delete("expensive")
        await here.pod("second")
        await here.node_of("second")
        held.go.set()
        assert held.begun <= 2


async def test_pods_of_one_template_are_prepared_once(held: Held, tmp_path: Path) -> None:
    held.go.set()
    async with stage(tmp_path) as here:
        for name in ("north", "south"):
            await here.node(name, labels={"kubernetes.io/hostname": name})
        for number in range(5):
            await here.pod(f"expensive-{number}", affinity=on_host("south"))
        for number in range(5):
            assert await here.node_of(f"expensive-{number}") == "south"
        assert held.begun == 3  # the two host names, and a node without one


async def test_a_pod_that_takes_long_to_be_prepared_lets_others_pass_and_is_placed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scheduler, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(counts, "AT_ONCE", 1)
    joined: list[str] = []
    go_on = Preparing.go_on

    def noted(self: Preparing, entry: Queued, steps: Iterator[None]) -> None:
        joined.append(entry.info.key[1])
        go_on(self, entry, steps)

    monkeypatch.setattr(Preparing, "go_on", noted)
    monkeypatch.setattr(Queue, "has_other", lambda *_: True)
    async with stage(tmp_path) as here:
        for name in ("east", "west"):
            await here.node(name, labels={"zone": name, "kubernetes.io/hostname": name})
        await here.pod("there", labels={"app": "web"}, nodeName="west")
        for number in range(20):
            await here.pod(f"old-{number}", nodeName=f"gone-{number}")
        selector = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
        far = {"topologyKey": "zone", "labelSelector": selector}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [far]}}
        for number in range(3):
            await here.pod(f"expensive-{number}", affinity=affinity)
        for number in range(3):
            assert await here.node_of(f"expensive-{number}") == "east"
    assert joined == ["expensive-0"], "what was counted is kept"


@pytest.mark.parametrize("affinity", [False, True], ids=["by sums", "by trial"])
async def test_a_long_search_for_victims_lets_others_pass_and_finds_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, affinity: bool
) -> None:
    monkeypatch.setattr(scheduler, "SEARCH_STEPS", 0)
    monkeypatch.setattr(victimsearch, "ROWS_A_STEP", 1)
    monkeypatch.setattr(preparing, "SLICE_SECONDS", 0.0)
    searched: list[str] = []
    go_on = Preparing.go_on

    def noted(self: Preparing, entry: Queued, steps: Iterator[None]) -> None:
        searched.append(entry.info.key[1])
        go_on(self, entry, steps)

    monkeypatch.setattr(Preparing, "go_on", noted)
    async with stage(tmp_path) as here:
        data = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
        await create(here.client, {**data, "value": 1000})
        for number in range(20):
            await here.node(f"node-{number}", cpu="1", labels={"kubernetes.io/hostname": f"node-{number}"})
            await here.pod(f"low-{number}", requests={"cpu": "900m"})
        for number in range(20):
            await here.node_of(f"low-{number}")
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "high"}}}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        more: dict[str, Any] = {"affinity": apart} if affinity else {}
        await here.pod("high", requests={"cpu": "900m"}, priorityClassName="high", labels={"app": "high"}, **more)
        await here.pod("small", requests={"cpu": "50m"})
        await here.node_of("small")

        async def leaving() -> list[str]:
            pods = await read_all(here.client, "Pod")
            return [each["metadata"]["name"] for each in pods if "deletionTimestamp" in each["metadata"]]

        (victim,) = await eventually(leaving)
        node = await here.node_of(victim)
        await here.delete(victim)
        assert await here.node_of("high") == node
    assert set(searched) == {"high"}
