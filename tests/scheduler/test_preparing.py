"""An expensive pod delays itself: others pass it while its expressions are evaluated."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from moorage.match import expressions
from moorage.match.verdict import Verdict
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
