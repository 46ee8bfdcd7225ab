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


@pytest.mark.parametrize(
    ("operator", "value", "rule"),
    [
        ("Lt", "0", "never-matches"),
        ("Lt", "-3", "never-matches"),
        ("Gt", "9223372036854775807", "never-matches"),
        ("Gt", "-1", "always-matches"),
        ("Gt", "-9223372036854775808", "always-matches"),
        ("Lt", "9223372036854775807", "always-matches"),
        ("Gt", "0", ""),
        ("Lt", "1", ""),
    ],
)
def test_a_taint_is_never_negative(tmp_path: Path, operator: str, value: str, rule: str) -> None:
    file = write(tmp_path, f"  - {{key: sla, operator: {operator}, value: '{value}', effect: NoSchedule}}\n")
    assert {"never-matches", "always-matches"} & set(rules(file)) == ({rule} if rule else set())


INVENTORY = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: d.io
  nodeName: n
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices:
    - name: a
      taints: [{key: budget, value: "8", effect: NoSchedule}]
---
apiVersion: resource.k8s.io/v1alpha3
kind: DeviceTaintRule
metadata: {name: r}
spec:
  taint: {key: budget, value: VALUE, effect: NoSchedule}
---
apiVersion: v1
kind: Node
metadata: {name: n}
spec:
  taints: [{key: budget, value: "99", effect: NoSchedule}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c, namespace: default}
spec:
  devices:
    requests:
      - name: gpu
        exactly:
          deviceClassName: d
          tolerations: [{key: "KEY", operator: Gt, value: "24", effect: NoSchedule}]
"""


@pytest.mark.parametrize("key", ["budget", "bud*"])
@pytest.mark.parametrize(
    ("value", "rule"), [('"9"', "never-matches"), ("much", "unparsable-value"), ('"25"', "")], ids=str
)
def test_claims_are_held_against_the_taints_of_devices_and_not_of_nodes(
    tmp_path: Path, key: str, value: str, rule: str
) -> None:
    (tmp_path / "all.yaml").write_text(INVENTORY.replace("VALUE", value).replace("KEY", key))
    wanted = {"never-matches", "always-matches", "unparsable-value"}
    found = wanted & set(rules(tmp_path / "all.yaml"))
    assert rule in found if rule else not found


ROLLOUT = """
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop, annotations: {lint.moorage.dev/ignore: "autoscaler,needs-gates"}}
spec:
  template:
    spec:
      containers: [{name: a, image: "a:1"}]
      tolerations:
        - {key: sla, operator: Gt, value: "0950", effect: NoSchedule}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train, annotations: {lint.moorage.dev/ignore: "autoscaler,needs-gates"}}
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers: [{name: a, image: "a:1"}]
          tolerations: [{key: sla, operator: Lt, value: "0", effect: NoSchedule}]
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: model}
spec:
  predictor:
    model: {modelFormat: {name: sklearn}}
    tolerations: [{key: sla, operator: Gt, value: 5}]
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: none}
spec: {tolerations: {type: array}, containers: 3}
"""


def test_pod_templates_of_kinds_that_are_not_ours_are_judged_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "foreign.yaml").write_text(ROLLOUT)
    found = findings(tmp_path / "foreign.yaml")
    assert [(finding.subject, finding.rule.id, finding.path, finding.line) for finding in found] == [
        ("", "unreadable", "", 29),
        ("Rollout shop/web", "admission", "spec.template.spec.tolerations[0].value", 10),
        (
            "PyTorchJob default/train",
            "never-matches",
            "spec.pytorchReplicaSpecs.Worker.template.spec.tolerations[0].value",
            21,
        ),
    ]
    assert found[0].message.startswith("spec.predictor.tolerations[0].value: expected a string")
    cluster = read_cluster(manifests.read([str(tmp_path / "foreign.yaml")]))
    assert dict(cluster.skipped) == {"Widget (example.com/v1)": 1}


@pytest.mark.parametrize("line", ["  name: {{ .Values.name }}", "{{- if .Values.on }}\n  name: a\n{{- end }}"])
def test_a_helm_template_is_to_be_rendered_first(tmp_path: Path, line: str) -> None:
    (tmp_path / "pod.yaml").write_text(f"apiVersion: v1\nkind: Pod\nmetadata:\n{line}\n")
    with pytest.raises(manifests.ManifestError, match="render it first: helm template"):
        findings(tmp_path / "pod.yaml")


def test_a_mistake_beside_braces_that_are_not_helms_is_told_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text('apiVersion: v1\nname: "{{inputs.name}}"\n bad: [\n')
    with pytest.raises(manifests.ManifestError) as told:
        findings(tmp_path / "pod.yaml")
    assert "helm" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "is_said"),
    [
        ("moorage.dev/toleration", True),
        ("moorage.dev/nodeAffinity", True),
        ("moorage.dev/node-affinities", True),
        ("moorage.io/tolerations", True),
        ("moorage.dev/device-tolerations", True),
        ("moorage.dev/tolerations", False),
        ("moorage.dev/node-affinity", False),
        ("moorage.dev/cover", False),
        ("moorage.dev/evict-at", False),
        ("moorage.dev/scheduler-name", False),
        ("example.com/tolerated", False),
    ],
)
def test_an_annotation_that_nobody_reads_on_a_pod_or_in_its_template_is_said(
    tmp_path: Path, name: str, is_said: bool
) -> None:
    head = f"{{name: a, annotations: {{{name}: '[]'}}, labels: {{app: a}}}}"
    spec = "{containers: [{name: a, image: a}]}"
    (tmp_path / "pod.yaml").write_text(f"apiVersion: v1\nkind: Pod\nmetadata: {head}\nspec: {spec}\n")
    (tmp_path / "web.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  selector: {matchLabels: {app: a}}\n"
        f"  template: {{metadata: {head}, spec: {spec}}}\n"
    )
    for file in ("pod.yaml", "web.yaml"):
        assert ("attached-place" in rules(tmp_path / file)) is is_said
