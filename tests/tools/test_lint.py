from __future__ import annotations

import re
from pathlib import Path

import pytest

from moorage.api import manifests
from moorage.features import ALL_ON, NONE_ON, Gates
from moorage.tools.cluster import read_cluster
from moorage.tools.lint import IGNORE_ANNOTATION, RULES, LintFinding, lint
from moorage.validation.rules import Severity

PAGES = Path(__file__).parents[2] / "docs" / "lint"


def findings(path: Path, gates: Gates = ALL_ON) -> list[LintFinding]:
    cluster = read_cluster(manifests.read([str(path)]))
    return lint(cluster, cluster, gates)


def rules(path: Path, gates: Gates = ALL_ON) -> list[str]:
    return [finding.rule.id for finding in findings(path, gates)]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_page_whose_examples_are_true(rule: str, tmp_path: Path) -> None:
    page = (PAGES / f"{rule}.md").read_text()
    wrong, clean = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "found.yaml").write_text(wrong)
    (tmp_path / "clean.yaml").write_text(clean)
    assert rule in rules(tmp_path / "found.yaml")
    assert rule not in rules(tmp_path / "clean.yaml")
    assert "admission" not in rules(tmp_path / "clean.yaml")
    assert rule == "admission" or "admission" not in rules(tmp_path / "found.yaml")


def test_there_is_no_page_without_a_rule() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == set(RULES)


def write(tmp_path: Path, tolerations: str, *, annotations: str = "{}") -> Path:
    file = tmp_path / "pod.yaml"
    file.write_text(
        f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  annotations: {annotations}\nspec:\n"
        f"  containers: [{{name: app, image: app:1}}]\n  tolerations:\n{tolerations}"
    )
    return file


TRAP = "  - {key: sla, operator: Gt, value: '950', effect: NoExecute, tolerationSeconds: 30}\n"


def test_the_eviction_trap_is_named_first_even_before_errors(tmp_path: Path) -> None:
    file = write(tmp_path, "  - {key: 'b a d', operator: Exists}\n" + TRAP)
    ordered = findings(file)
    assert ordered[0].rule.id == "eviction-trap"
    assert ordered[1].severity is Severity.ERROR
    assert ordered[0].line == 10


@pytest.mark.parametrize("seconds", ["0", "-5", "30"])
@pytest.mark.parametrize("operator", ["Gt", "Lt", "SemverGt"])
def test_any_comparison_with_toleration_seconds_is_a_trap(tmp_path: Path, operator: str, seconds: str) -> None:
    line = f"  - {{key: sla, operator: {operator}, value: '9', effect: NoExecute, tolerationSeconds: {seconds}}}\n"
    assert "eviction-trap" in rules(write(tmp_path, line))


def test_exists_with_toleration_seconds_is_the_usual_idiom(tmp_path: Path) -> None:
    line = "  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}\n"
    assert rules(write(tmp_path, line)) == []


def test_an_annotation_silences_a_rule_for_one_object(tmp_path: Path) -> None:
    file = write(tmp_path, TRAP, annotations=f"{{{IGNORE_ANNOTATION}: 'eviction-trap, autoscaler'}}")
    assert rules(file) == ["needs-gates"]


@pytest.mark.parametrize(
    ("low", "high", "is_band"), [("900", "990", True), ("990", "900", False), ("900", "900", False)]
)
def test_only_bounds_that_overlap_tolerate_everything(tmp_path: Path, low: str, high: str, is_band: bool) -> None:
    lines = f"  - {{key: sla, operator: Gt, value: '{low}'}}\n  - {{key: sla, operator: Lt, value: '{high}'}}\n"
    assert ("or-band" in rules(write(tmp_path, lines))) is is_band


def test_gates_that_are_off_are_said(tmp_path: Path) -> None:
    file = write(tmp_path, "  - {key: 'a.io/*', operator: Exists}\n")
    (note,) = [finding for finding in findings(file, NONE_ON) if finding.rule.id == "needs-gates"]
    assert note.message == "needs WildcardTolerationKeys (off here) in the API server and the scheduler"
    assert "admission" in rules(file, NONE_ON)
    assert "admission" not in rules(file)


@pytest.mark.parametrize("key", ["*", "*/*", "node.kubernetes.io/*", "*.io/x"])
def test_wide_wildcards_are_broad(tmp_path: Path, key: str) -> None:
    assert "broad-toleration" in rules(write(tmp_path, f"  - {{key: '{key}', operator: Exists}}\n"))


def test_a_workload_reports_what_its_controller_will_meet(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  selector: {matchLabels: {app: d}}\n"
        "  template:\n    metadata: {labels: {app: d}}\n    spec:\n      containers: [{name: app, image: app:1}]\n"
        "      tolerations:\n      - {key: sla, operator: Gt, value: '0950'}\n"
    )
    (error,) = [finding for finding in findings(file) if finding.rule.id == "admission"]
    assert error.path == "spec.template.spec.tolerations[0].value"
    assert error.line == 11
    assert error.message == 'Invalid value: "0950": must be a valid decimal integer in canonical form'


def test_an_unreadable_object_does_not_hide_the_others(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  tolerations:\n  - {key: sla, value: 950}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec:\n"
        "  containers: [{name: app, image: app:1}]\n  tolerations: [{operator: Exists}]\n"
    )
    assert rules(file) == ["unreadable", "broad-toleration"]
    assert findings(file)[0].message == "spec.tolerations[0].value: expected a string, got an integer: put it in quotes"
