"""`moorage perf` as people run it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml

from moorage.cli.perf import ProgressLine
from moorage.tools.perf.run import Progress, run
from moorage.tools.perf.workloads import File
from tests.cli.commands import moorage

BENCH = Path(__file__).parents[2] / "bench" / "workloads.yaml"


def small(folder: Path, *thresholds: float) -> str:
    operations = [{"opcode": "createNodes", "count": 2}, {"opcode": "createPods", "count": 5, "collectMetrics": True}]
    workloads = [{"name": f"size-{number}", "threshold": each} for number, each in enumerate(thresholds)]
    test = {
        "name": "Tiny", "featureGates": {"SomeGate": True}, "workloadTemplate": operations, "workloads": workloads,
    }  # fmt: skip
    file = folder / "workloads.yaml"
    file.write_text(yaml.safe_dump([test]))
    return str(file)


def test_the_table_fits_into_100_columns_and_a_missed_threshold_ends_with_1(tmp_path: Path) -> None:
    answer = moorage("perf", "--config", small(tmp_path, 0, 10**9))
    assert answer.returncode == 1, answer.stderr
    lines = answer.stdout.splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [["Tiny/size-0", "5"], ["Tiny/size-1", "5"]]
    assert max(map(len, lines)) <= 100
    assert "note: Tiny/size-0: feature gate SomeGate is none of Moorage's: left out" in answer.stderr
    assert "moorage: Tiny/size-1/namespace-1: " in answer.stderr
    assert "pods/s, and at least 1,000,000,000 are expected" in answer.stderr
    assert "size-0/namespace-1" not in answer.stderr


def test_json_is_what_the_dashboard_of_scheduler_perf_reads() -> None:
    answer = moorage("perf", "--config", str(BENCH), "--workload", "CELToleration/20Nodes", "-o", "json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["version"] == "v1"
    rate = document["dataItems"][0]
    assert rate["labels"] == {"Name": "CELToleration/20Nodes/namespace-2", "Metric": "SchedulingThroughput"}
    assert rate["unit"] == "pods/s"
    assert rate["data"].keys() == {"Average", "Perc50", "Perc90", "Perc95", "Perc99"}


@pytest.mark.parametrize("name", ["VolumeAffinity", "TopologySpread", "TaintChurn", "DeviceTaints"])
async def test_our_larger_stories_run_in_small(name: str) -> None:
    (measured,) = await run(File(BENCH).plan(f"{name}/20Nodes"), lambda _: None)
    assert measured.pods == 50


def test_progress_is_one_line_that_changes_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    line = ProgressLine("Basic/500Nodes", terminal)
    line.tell(Progress("createPods", 1200, 10_000, 1000))
    line.end()
    assert "\r\x1b[KBasic/500Nodes: createPods 1,200/10,000, 1,000 pods placed, " in terminal.getvalue()
    assert "\n" not in terminal.getvalue()


def test_progress_is_a_line_now_and_then_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    log = io.StringIO()
    line = ProgressLine("Basic/500Nodes", log)
    for number in range(1, 13):
        now += 1
        line.tell(Progress("sleep", placed=100 * number))
    line.end()
    assert log.getvalue().splitlines() == [
        "Basic/500Nodes: sleep, 500 pods placed, 100/s",
        "Basic/500Nodes: sleep, 1,000 pods placed, 100/s",
    ]
