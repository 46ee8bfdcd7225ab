"""What an operator sees of a control plane: its gates, its log, its audit log."""

from __future__ import annotations

import json
from pathlib import Path

from tests.live.conftest import Live


def started(tmp_path: Path, *more: str) -> str:
    """What a control plane prints until it serves; it is stopped then."""
    options = ("--nodes", "0", "--log-file", str(tmp_path / "log"), "--log-format", "json",
               "--audit-log-path", str(tmp_path / "audit.log"), *more)  # fmt: skip
    server = Live(tmp_path / "data", gates="AllAlpha=true", more=options)
    process = server.begin()
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "Ctrl-C" in line:
            break
    assert server.stop() == 0
    return "".join(lines)


def test_gates_are_printed_changes_are_logged_and_requests_are_written(tmp_path: Path) -> None:
    all_on = (
        "TaintTolerationComparisonOperators, TaintTolerationNodeAffinityCEL, TolerationAffinitySemverOperators, "
        "WildcardTolerationKeys"
    )
    assert f"feature gates on: {all_on}\n" in started(tmp_path)
    differing = started(tmp_path, "--scheduler-feature-gates", "WildcardTolerationKeys=true,AllBeta=true")
    assert (
        f"feature gates on: \n  apiserver:   {all_on}\n  scheduler:   WildcardTolerationKeys\n  controllers: {all_on}\n"
        f"  kubelet:     {all_on}\n"
    ) in differing
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["component"] for line in lines if line["msg"] == "Serving securely"] == ["apiserver"] * 2
    off = [line for line in lines if line["msg"] == "Feature gate turned off since the last start"]
    assert {line["gate"] for line in off} == {*all_on.split(", ")} - {"WildcardTolerationKeys"}
    assert all(line["components"] == ["scheduler"] for line in off)
    events = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert {"moorage-scheduler", "moorage-controllers"} <= {event["user"]["username"] for event in events}
