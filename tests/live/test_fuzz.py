"""Requests at random never break a control plane: a short run of the fuzzer, always with the same seed."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path

import pytest

from attack_rows.frame import Site
from fuzz import Run, fuzz, prepare
from fuzzing.asking import CUT, WHOLE, Asked, stream
from fuzzing.sending import Told
from fuzzing.stored import unusable
from tests.plane import PATIENCE

REQUESTS = 400
PODS = "/api/v1/namespaces/default/pods"
TWO_BUDGETS = "This pod has more than one PodDisruptionBudget"


def test_nothing_that_is_sent_breaks_the_server(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir(0o700)
    site = Site(directory, "administrator", ("up", "--nodes", "3"))
    run = Run(site, seed=1)

    async def play() -> None:
        await site.serve()
        await prepare(site)
        await fuzz(run, islice(stream(run.seed), REQUESTS), PATIENCE)
        run.problems += await unusable(site)

    try:
        asyncio.run(play())
    finally:
        if site.process:
            site.process.stop()
            run.judge_log(site.process.log.read_text())
    assert run.problems == []
    assert run.answers.total() == REQUESTS
    assert {200, 201, 400, 401, 403, 404, 409, 422} <= run.answers.keys()


def test_a_seed_gives_the_same_requests_again() -> None:
    assert list(islice(stream(7), 300)) == list(islice(stream(7), 300)) != list(islice(stream(8), 300))


@pytest.mark.parametrize(
    ("status", "text", "target", "delivery", "wrong"),
    [
        (500, "", PODS, WHOLE, True),
        (0, "ConnectionResetError()", PODS, WHOLE, True),
        (0, "", PODS, CUT, False),
        (501, "", PODS, WHOLE, False),
        (422, "", PODS, WHOLE, False),
        (500, TWO_BUDGETS, f"{PODS}/x/eviction", WHOLE, False),
        (500, TWO_BUDGETS, PODS, WHOLE, True),
        (500, "KeyError", f"{PODS}/x/eviction", WHOLE, True),
    ],
)
def test_wrong_answers_are_reported_with_a_command(
    status: int, text: str, target: str, delivery: str, wrong: bool, tmp_path: Path
) -> None:
    run = Run(Site(tmp_path, "administrator", (), url="https://127.0.0.1:1"), seed=1)
    run.judge(Asked(5, "viewer", "GET", target, delivery=delivery), Told(status, text))
    assert len(run.problems) == wrong
    assert all("curl" in problem and f"https://127.0.0.1:1{target}" in problem for problem in run.problems)


def test_a_traceback_in_the_log_is_reported(tmp_path: Path) -> None:
    run = Run(Site(tmp_path, "administrator", ()), seed=1)
    run.judge_log("stopping\n")
    assert run.problems == []
    run.judge_log("GET /x failed\nTraceback (most recent call last):\n  File x\n    y\nKeyError: 'x'\nstopping\n")
    assert len(run.problems) == 1
    assert "GET /x failed" in run.problems[0]
    assert "KeyError" in run.problems[0]
