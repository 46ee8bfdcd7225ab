"""docs/metrics.md names every metric that the components expose, and no other."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from moorage.apiserver.audit.log import AuditSettings
from moorage.controlplane import ControlPlane, Settings
from moorage.features import ALL_ON
from tests.live.conftest import ROOT
from tests.plane import create, eventually, pod, read

PAGE = (ROOT / "docs" / "metrics.md").read_text()
ABSENT = "scheduler_scheduling_duration_seconds"
"""The one name in the documents that is nobody's."""


class Row(NamedTuple):
    type: str
    labels: frozenset[str]
    query: str


def _rows() -> dict[str, Row]:
    found = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0].startswith("`"):
            labels = frozenset(re.findall(r"`(\w+)`", cells[2]))
            found[cells[0].strip("`")] = Row(cells[1], labels, cells[4].strip("`").replace("\\|", "|"))
    return found


ROWS = _rows()


@pytest.fixture
async def exposed(tmp_path: Path) -> AsyncIterator[str]:
    """The metrics of a control plane that has placed a pod, rejected one and evicted one."""
    settings = Settings(
        tmp_path / "data", port=0, nodes=1, audit=AuditSettings(tmp_path / "audit.log"),
        apiserver_gates=ALL_ON, scheduler_gates=ALL_ON, controllers_gates=ALL_ON,
    )  # fmt: skip
    plane = await ControlPlane.start(settings)
    try:
        client = plane.server.client("test")
        await create(client, pod("fits", tolerations=[{"key": "example.com/*", "operator": "Exists"}]))
        await create(client, pod("huge", requests={"cpu": "1000"}))

        async def told() -> bool:
            fits, huge = await read(client, "Pod", "fits"), await read(client, "Pod", "huge")
            return bool(fits["spec"].get("nodeName") and huge["status"].get("conditions"))

        await eventually(told)
        yield (await plane.server.transport("test").request("GET", "/metrics")).body.decode()
    finally:
        await plane.stop()


async def test_the_page_and_the_servers_agree(exposed: str) -> None:
    types = dict(line.split()[2:4] for line in exposed.splitlines() if line.startswith("# TYPE "))
    assert types == {name: row.type for name, row in ROWS.items()}
    for family in text_string_to_metric_families(exposed):
        for sample in family.samples:
            name = family.name if family.name in ROWS else f"{family.name}_total"
            assert {*sample.labels} - {"le", "component"} == ROWS[name].labels, sample


def test_queries_ask_for_metrics_that_exist() -> None:
    series = {
        f"{name}{suffix}"
        for name, row in ROWS.items()
        for suffix in (("_bucket", "_sum", "_count") if row.type == "histogram" else ("",))
    }
    for name, row in ROWS.items():
        asked = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b(?!\()", re.sub(r"by \([^)]*\)|\{[^}]*\}", "", row.query)))
        assert asked <= series, row.query
        assert any(each.startswith(name) for each in asked), row.query
        assert row.query.count("(") == row.query.count(")")
        used = {label for inner in re.findall(r"\{([^}]*)\}", row.query) for label in re.findall(r"(\w+)=", inner)}
        assert used <= row.labels, row.query


def test_what_is_said_not_to_exist_does_not_and_what_to_use_does() -> None:
    section = PAGE.split("## What the design documents name")[1]
    said = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ") and "`" in line]
    names = {re.sub("_(sum|count|bucket)$", "", name) for _, use in said for name in re.findall(r"\w+_\w+_\w+", use)}
    assert names
    assert names <= {*ROWS}
    assert ABSENT not in ROWS
    assert any(ABSENT in they for they, _ in said)
