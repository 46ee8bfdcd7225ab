"""The alerts, the dashboard and the queries of docs/operate.md name metrics and labels that components expose."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.conftest import ROOT
from tests.live.test_metrics_page import ROWS

Data = dict[str, Any]
MONITORING, PAGE = ROOT / "monitoring", (ROOT / "docs" / "operate.md").read_text()
ALERTS: list[Data] = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
TESTS: list[Data] = yaml.safe_load((MONITORING / "alerts.test.yaml").read_text())["tests"]
DASHBOARD: Data = json.loads((MONITORING / "dashboard.json").read_text())
PANELS: list[Data] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGET_LABELS = {"job", "instance", "component"}
"""Labels that Prometheus adds, and the one that tells the components of one process apart."""
UNITS = {"short", "s", "bytes", "ops", "reqps", "percent", "percentunit", "bool_on_off"}
FUNCTIONS = {"absent", "changes", "histogram_quantile", "increase", "max", "min", "rate", "sum", "topk", "vector"}
WORDS = {"and", "by", "offset", "or", "unless"}


def page_queries() -> list[str]:
    blocks = re.findall(r"```promql\n(.*?)```", PAGE, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]


QUERIES = (
    [(alert["alert"], alert["expr"]) for alert in ALERTS]
    + [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
    + [("docs/operate.md", query) for query in page_queries()]
)


def series(name: str) -> str:
    """The metric that a series belongs to; what is no series of any is answered as it is."""
    whole = re.sub("_(bucket|sum|count)$", "", name)
    return whole if whole in ROWS and ROWS[whole].type == "histogram" and whole != name else name


def used(query: str) -> Iterator[tuple[str, set[str]]]:
    """The metrics of a query, and the labels that each is selected by."""
    text = re.sub(r"\bby \([^)]*\)|\[[^]]*\]", "", query)
    for name, _, selectors in re.findall(r"\b([a-z_]+)\b(\{([^}]*)\})?(?!\w)", text):
        if name in FUNCTIONS | WORDS:
            continue
        yield name, set(re.findall(r"(\w+)(?:=|!)", selectors))


def stripped(query: str) -> str:
    """A query without the values of labels."""
    return re.sub(r'"[^"]*"', '""', query)


@pytest.mark.parametrize(("where", "query"), QUERIES, ids=[f"{where}: {query[:40]}" for where, query in QUERIES])
def test_every_metric_and_label_of_a_query_exists(where: str, query: str) -> None:
    query = stripped(re.sub(r"\b\d+[smhd]?\b", "", query))
    found = dict(used(re.sub(r"\$__rate_interval", "", query)))
    assert found
    for name, labels in found.items():
        assert series(name) in ROWS, f"{where}: {name}"
        is_histogram = ROWS[series(name)].type == "histogram"
        assert is_histogram is (series(name) != name), f"{where}: {name} is a histogram: ask for its buckets"
        assert labels <= ROWS[series(name)].labels | TARGET_LABELS | {"le"}, f"{where}: {name}{labels}"
    grouped = {label for inner in re.findall(r"\bby \(([^)]*)\)", query) for label in re.findall(r"\w+", inner)}
    known = set[str]().union(*(ROWS[series(name)].labels for name in found))
    assert grouped <= known | TARGET_LABELS | {"le"}, f"{where}: {grouped}"


def anchors() -> set[str]:
    """The headings of the page as links spell them."""
    headings = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("alert", ALERTS, ids=[alert["alert"] for alert in ALERTS])
def test_every_alert_has_a_runbook_and_says_what_is_wrong(alert: Data) -> None:
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert (ROOT / page).exists()
    assert anchor in anchors()
    assert f"`{alert['alert']}`" in PAGE.split("## Symptoms")[1]
    assert alert["labels"]["severity"] in ("critical", "warning")
    told = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]))
    assert told <= set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", alert["expr"])))) | {"zone"}


def test_every_alert_is_tested_both_ways() -> None:
    names = Counter(alert["alert"] for alert in ALERTS)
    assert max(names.values()) == 1
    for expected in (True, False):
        tested = {
            rule["alertname"]
            for test in TESTS
            for rule in test["alert_rule_test"]
            if bool(rule.get("exp_alerts")) is expected
        }
        assert tested == {*names}


def test_the_dashboard_is_what_grafana_reads() -> None:
    assert {"uid", "title", "schemaVersion", "version", "time", "templating", "panels"} <= DASHBOARD.keys()
    assert DASHBOARD["schemaVersion"] >= 36
    (variable,) = DASHBOARD["templating"]["list"]
    assert (variable["name"], variable["type"], variable["query"]) == ("datasource", "datasource", "prometheus")
    identities = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len({*identities}) == len(identities)
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["type"] in ("timeseries", "stat")
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))))
            assert legend <= grouped | TARGET_LABELS | {"zone"}, panel["title"]


def test_panels_lie_beside_each_other() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


def promtool(*arguments: str) -> None:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not on PATH")
    run = subprocess.run([found, *arguments], capture_output=True, text=True, cwd=MONITORING, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_promtool_accepts_the_alerts() -> None:
    promtool("check", "rules", "alerts.yaml")


def test_promtool_accepts_the_scrape_configuration_of_the_page(tmp_path: Path) -> None:
    (configuration,) = re.findall(r"```yaml\n(scrape_configs:.*?)```", PAGE, re.DOTALL)
    (tmp_path / "prometheus.yaml").write_text(configuration)
    promtool("check", "config", "--syntax-only", str(tmp_path / "prometheus.yaml"))


def test_promtool_finds_that_alerts_fire_when_they_should() -> None:
    promtool("test", "rules", "alerts.test.yaml")


def test_promtool_can_parse_every_query(tmp_path: Path) -> None:
    queries = [re.sub(r"\$__rate_interval", "5m", query) for _, query in QUERIES]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    promtool("check", "rules", str(tmp_path / "rules.yaml"))
