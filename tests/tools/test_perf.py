"""Workloads in the format of scheduler_perf: how they are read, and what they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.features import Gate
from moorage.tools.perf import cluster, histograms
from moorage.tools.perf.cluster import Failed
from moorage.tools.perf.gotemplate import Template, TemplateError
from moorage.tools.perf.measure import Measurement, summary, throughput
from moorage.tools.perf.operations import seconds_of
from moorage.tools.perf.run import run
from moorage.tools.perf.thresholds import Threshold
from moorage.tools.perf.workloads import File, WorkloadError

BENCH = Path(__file__).parents[2] / "bench" / "workloads.yaml"

NODES = {"opcode": "createNodes", "countParam": "$nodes"}
PODS = {"opcode": "createPods", "count": 4, "collectMetrics": True}
POD = """
apiVersion: v1
kind: Pod
metadata:
  generateName: web-
spec:
  containers:
  - {name: main, image: pause}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no actions", "no actions"),
        ("node-{{.Index}}", "node-7"),
        ("{{ .Count }} {{.missing}}", "10 <no value>"),
        ("{{Mod .Index 4}} {{DivideInt .Index 2}} {{AddInt 700 (Mod .Index 5)}}", "3 3 702"),
        ("{{MultiplyInt .Index 3}} {{SubtractInt .Index 10}} {{DivideFloat 1 4}}", "21 -3 0.25"),
        ("{{if .priority}}{{.priority}}{{else}}none{{end}}", "none"),
        ('{{if eq .class "a"}}A{{else if eq .class "gpu"}}G{{else}}?{{end}}', "G"),
        ("{{range 3}}[{{.}}]{{end}}", "[0][1][2]"),
        ("{{$n := or .devices 2}}{{range $i := ($n | Int)}}{{$i}}/{{$.Index}};{{end}}", "0/7;1/7;"),
        ("{{range .names}}{{.}} {{else}}nobody{{end}}", "ann bob "),
        ("{{range .nobody}}{{.}}{{else}}nobody{{end}}", "nobody"),
        ("{{$all := (or .names nil) | JSON}}{{$all}}", '["ann","bob"]'),
        ("{{if and (ge .Index 7) (not false)}}late{{end}}", "late"),
        ("a\n  {{- /* a comment */ -}}\n  b", "ab"),
        ("a {{- .Index -}} b", "a7b"),
        ("{{AddFloat 1.5 1.5}} {{true}} {{`raw`}}", "3 true raw"),
    ],
)
def test_templates_are_filled_in_as_go_does(text: str, expected: str) -> None:
    values = {"Index": 7, "Count": 10, "class": "gpu", "names": ["ann", "bob"]}
    assert Template(text).render(values) == expected


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("{{if .a}}x", 1, "has no {{end}}"),
        ("x\n{{end}}", 2, "unexpected {{end}}"),
        ("\n\n{{Sqrt 4}}", 3, "unknown function Sqrt"),
        ("{{Mod 4}}", 1, "Mod"),
        ("{{DivideInt 1 0}}", 1, "division by zero"),
        ("{{(.a}}", 1, "a ) is missing"),
        ("{{.a )}}", 1, "unexpected )"),
        ("{{.a | }}", 1, "a value is missing"),
        ("{{?}}", 1, "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_template_is_told_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(TemplateError, match=message.replace("(", r"\(").replace(")", r"\)")) as caught:
        Template(text).render({"a": 1})
    assert caught.value.line == line


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("1m30s", 90), ("500ms", 0.5), ("1.5h", 5400)])
def test_durations_are_spelled_as_in_go(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "s", "10 s", "-1s"])
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds_of(text)


def test_throughput_is_pods_by_time_and_percentiles_are_over_samples() -> None:
    times = [number / 100 for number in range(1, 501)] + [5 + number / 50 for number in range(1, 251)]
    figures = throughput(times)
    assert figures["Average"] == pytest.approx(75)
    assert figures["Perc50"] == pytest.approx(50, abs=1)
    assert figures["Perc99"] == pytest.approx(100, abs=1)
    assert throughput([]) == {}


def test_percentiles_are_values_that_were_measured() -> None:
    figures = summary(range(1, 101), 50.5)
    assert figures == {"Average": 50.5, "Perc50": 50, "Perc90": 90, "Perc95": 95, "Perc99": 99}


def write(folder: Path, *operations: dict[str, Any], templates: dict[str, str] | None = None, **more: Any) -> Path:
    """A file with one test and one workload."""
    for name, text in (templates or {}).items():
        (folder / name).write_text(text)
    workload = {"name": "small", "params": {"nodes": 2}} | more.pop("workload", {})
    test = {"name": "Test", "workloadTemplate": list(operations), "workloads": [workload], **more}
    path = folder / "workloads.yaml"
    path.write_text(yaml.safe_dump([test], sort_keys=False))
    return path


async def measured(folder: Path, *operations: dict[str, Any], **more: Any) -> list[Measurement]:
    plan = File(write(folder, *operations, **more)).plan("Test/small")
    return await run(plan, lambda _: None)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"opcode": "createPets"}, "no operation 'createPets' here: there are createNamespaces, "),
        ({"opcode": "createPodGroups"}, r"createPodGroups: pod groups \(gang scheduling\) are not part of Moorage"),
        ({"opcode": "createNodes", "countParam": "$many"}, "there is no parameter many: the workload has nodes"),
        ({"opcode": "createNodes", "countParam": "nodes"}, "write it with a \\$ in front"),
        ({"opcode": "createNodes", "count": "two"}, "count: workload small: expected an integer"),
        ({"opcode": "createNodes", "count": 2, "size": 3}, "unknown field `size`"),
        ({"opcode": "churn", "mode": "often", "templatePaths": ["a"]}, "mode: .*'often'"),
        ({"opcode": "churn", "mode": "recreate", "templatePaths": ["a"]}, "recreate needs a number"),
        ({"opcode": "sleep", "duration": "soon"}, "'soon' is not a duration"),
        ({**PODS, "skipWaitToCompletion": True}, "goes with neither collectMetrics"),
        ({**PODS, "steadyState": True}, "steadyState needs a duration"),
        ({**PODS, "persistentVolumeTemplatePath": "pv.yaml"}, "go together"),
    ],
)
def test_an_operation_that_cannot_be_done_is_refused_with_its_place(
    tmp_path: Path, operation: dict[str, Any], message: str
) -> None:
    path = write(tmp_path, NODES, operation, PODS)
    with pytest.raises(WorkloadError, match=message) as caught:
        File(path).plan("Test/small")
    line = int(str(caught.value).removeprefix(f"{path}:").partition(":")[0])
    assert 5 <= line < 5 + len(operation)
    assert "[0].workloadTemplate[1]" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("[]", "no tests in this file"),
        ("{a: 1}", "expected a list"),
        ("- name: [", "workloads.yaml:1: "),
        ("- {name: A, workloadTemplate: [], workloads: [{name: b}, {name: b}]}", "A/b is given twice"),
        ("- {name: A, workloadTemplate: [], workloads: [{name: b}]}", "nothing is measured"),
        ("- {name: A, workloads: [{name: b}]}", "missing required field `workloadTemplate`"),
        ("- {name: A, workloadTemplate: [], workloads: [{name: b, treshold: 4}]}", "unknown field `treshold`"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "workloads.yaml"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=message):
        File(path).plan(File(path).names()[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\n  x: 1", "pod.yaml:2: "),
        ("{{.Index}", "an object is a map|pod.yaml:1: "),
        ("{{Sqrt 2}}", "pod.yaml:1: unknown function Sqrt"),
        ("apiVersion: v2\nkind: Pod", "there is no kind Pod in v2 here"),
        ("[]", "an object is a map"),
    ],
)
def test_templates_are_tried_before_anything_runs(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, PODS, templates={"pod.yaml": text}, defaultPodTemplatePath="pod.yaml")
    with pytest.raises(WorkloadError, match=message):
        File(path).plan("Test/small")
    missing = write(tmp_path, PODS, defaultPodTemplatePath="nowhere.yaml")
    with pytest.raises(WorkloadError, match=r"nowhere.yaml: No such file"):
        File(missing).plan("Test/small")


def test_workloads_are_chosen_by_test_by_size_or_by_both() -> None:
    file = File(BENCH)
    assert file.names("Basic") == ["Basic/20Nodes", "Basic/500Nodes", "Basic/5000Nodes"]
    assert file.names("CELAffinity/500Nodes") == ["CELAffinity/500Nodes"]
    assert len(file.names("20Nodes")) * 3 == len(file.names())
    with pytest.raises(WorkloadError, match="no workload 'Basic/7Nodes': there are Basic/20Nodes, "):
        file.names("Basic/7Nodes")


def test_all_of_our_workloads_can_be_run_and_have_all_gates_on() -> None:
    file = File(BENCH)
    for name in file.names():
        plan = file.plan(name)
        assert plan.gates.on == frozenset(Gate)
        assert not plan.notes


def test_what_has_no_meaning_here_is_noted(tmp_path: Path) -> None:
    selector = {"name": "scheduler_event_handling_duration_seconds", "dataBucket": "Perc99"}
    gates = {
        "WildcardTolerationKeys": True, "DynamicResourceAllocation": True, "SchedulerQueueingHints": False,
        "DRAExtendedResource": True,
    }  # fmt: skip
    workload = {"threshold": 5, "thresholdMetricSelector": selector, "featureGates": {"WildcardTolerationKeys": False}}
    plan = File(write(tmp_path, NODES, PODS, featureGates=gates, workload=workload)).plan("Test/small")
    assert not plan.gates.on
    assert plan.threshold.value == 0
    assert plan.notes == [
        "feature gate DRAExtendedResource is none of Moorage's: left out",
        "feature gate SchedulerQueueingHints cannot be turned off here",
        "the threshold on scheduler_event_handling_duration_seconds is not judged: it is not measured here",
    ]


def test_a_parameter_that_nothing_uses_is_noted(tmp_path: Path) -> None:
    params = {"nodes": 2, "initPods": 1, "intPods": 3}
    sets = {
        "opcode": "createPodSets", "count": 1, "namespacePrefix": "a",
        "createPodsOp": {"countParam": "$initPods", "collectMetrics": True},
    }  # fmt: skip
    plan = File(write(tmp_path, NODES, sets, workload={"params": params})).plan("Test/small")
    assert plan.notes == ["parameter intPods is not used"]


def test_a_parameter_may_have_a_default_and_a_multiplier(tmp_path: Path) -> None:
    pods = {
        "opcode": "createPods", "countParam": "$nodes", "countMultiplierParam": "$each", "collectMetrics": True,
        "podTemplatePath": "pod.yaml", "templateParams": {"tier": "$tier|[gold]", "each": "$each"},
    }  # fmt: skip
    path = write(tmp_path, pods, templates={"pod.yaml": POD}, workload={"params": {"nodes": 2, "each": 3}})
    (operation,) = File(path).plan("Test/small").operations
    assert operation.count == 6  # type: ignore[union-attr]
    assert operation.template_params == {"tier": ["gold"], "each": 3}  # type: ignore[union-attr]


async def test_pods_are_placed_and_measured(tmp_path: Path) -> None:
    reported: list[str] = []
    plan = File(write(tmp_path, NODES, PODS, {**PODS, "namespace": "mine", "count": 3})).plan("Test/small")
    first, second = await run(plan, lambda progress: reported.append(progress.operation))
    assert (first.name, first.pods) == ("Test/small/namespace-1", 4)
    assert (second.name, second.pods) == ("Test/small/mine", 3)
    assert first.throughput["Average"] > 0
    assert 0 < first.latency["Perc50"] <= first.latency["Perc99"]
    assert first.memory > 10
    assert reported[0] == "createNodes"
    figures = first.items()
    units = {item.labels["Metric"]: item.unit for item in figures}
    assert units == {
        "SchedulingThroughput": "pods/s", "SchedulingDuration": "s", "PodSchedulingLatency": "ms",
        "ProcessorTimePerPod": "us", "PeakMemory": "MB", **dict.fromkeys(histograms.DEFAULT.metrics, "ms"),
    }  # fmt: skip
    assert next(Threshold(5e6).misses(figures)).endswith(" pods/s, and at least 5,000,000 are expected")
    assert figures[0].data["AverageThreshold"] == 5e6


async def test_nodes_have_the_labels_that_pods_ask_for(tmp_path: Path) -> None:
    selecting = POD + "  nodeSelector: {disk: ssd}\n  topologySpreadConstraints: []\n"
    measurements = await measured(
        tmp_path,
        {**NODES, "labelNodePrepareStrategy": {"labelKey": "disk", "labelValues": ["hdd", "ssd"]}},
        {**NODES, "uniqueNodeLabelStrategy": {"labelKey": "serial"}},
        {**NODES, "nodeAllocatableStrategy": {"nodeAllocatable": {"example.com/disks": "1"},
                                              "csiNodeAllocatable": {"csi.example.com": {"count": 3}}}},
        {**PODS, "podTemplatePath": "pod.yaml"},
        {**PODS, "count": 2, "podTemplatePath": "disk.yaml"},
        templates={"pod.yaml": selecting, "disk.yaml": POD.replace(
            "{name: main, image: pause}",
            "{name: main, image: pause, resources: {limits: {example.com/disks: 1}}}")},
    )  # fmt: skip
    assert [each.pods for each in measurements] == [4, 2]


async def test_volumes_and_claims_are_bound_before_their_pods_are_placed(tmp_path: Path) -> None:
    volume = """
apiVersion: v1
kind: PersistentVolume
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  csi: {driver: csi.example.com}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}
"""
    claim = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {annotations: {pv.kubernetes.io/bind-completed: "true"}}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 1Gi}}}
"""
    paths = {"persistentVolumeTemplatePath": "pv.yaml", "persistentVolumeClaimTemplatePath": "pvc.yaml"}
    (measurement,) = await measured(
        tmp_path,
        {**NODES, "labelNodePrepareStrategy": {"labelKey": "zone", "labelValues": ["a", "b"]}},
        {**PODS, **paths},
        templates={"pv.yaml": volume, "pvc.yaml": claim},
    )
    assert measurement.pods == 4


async def test_every_operation_can_be_done(tmp_path: Path) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {generateName: churn-}\nstatus: {capacity: {pods: '1'}}\n"
    renewed = "apiVersion: v1\nkind: Node\nmetadata: {name: 'big-{{.Index}}', labels: {size: big}}\n"
    named = f"{renewed}status: {{capacity: {{pods: '9', cpu: '4', memory: 1Gi}}}}\n"
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    measurements = await measured(
        tmp_path,
        NODES,
        {"opcode": "createNamespaces", "prefix": "team", "count": 2},
        {"opcode": "churn", "mode": "recreate", "number": 1, "intervalMilliseconds": 1, "templatePaths": ["n.yaml"]},
        {"opcode": "churn", "mode": "create", "number": 2, "intervalMilliseconds": 1, "templatePaths": ["n.yaml"]},
        {"opcode": "createPodSets", "countParam": "$nodes", "namespacePrefix": "team",
         "createPodsOp": {"opcode": "createPods", "countParam": "$nodes"}},
        {"opcode": "deletePods", "namespace": "team-0"},
        {"opcode": "startCollectingMetrics", "name": "both", "namespaces": ["waiting"]},
        {"opcode": "createPods", "count": 3, "namespace": "waiting", "podTemplatePath": "big.yaml",
         "skipWaitToCompletion": True},
        {"opcode": "barrier", "stageRequirement": "Attempted"},
        {"opcode": "createAny", "templatePath": "named.yaml", "count": 2},
        {"opcode": "updateAny", "templatePath": "renewed.yaml", "count": 2, "updatePerSecond": 1000},
        {"opcode": "barrier"},
        {"opcode": "stopCollectingMetrics"},
        {"opcode": "sleep", "duration": "1ms"},
        {"opcode": "deletePods", "namespace": "waiting", "deletePodsPerSecond": 1000, "skipWaitToCompletion": True},
        {**PODS, "count": 2, "steadyState": True, "duration": "2s", "podTemplatePath": "urgent.yaml"},
        schedulerConfigPath="config.yaml",
        templates={
            "n.yaml": node, "named.yaml": named, "renewed.yaml": renewed,
            "big.yaml": POD + "  nodeSelector: {size: big}\n", "urgent.yaml": POD + "  priority: 7\n",
        },
    )  # fmt: skip
    assert [(each.name, each.pods >= 3) for each in measurements] == [
        ("Test/small/both", True), ("Test/small/namespace-16", True),
    ]  # fmt: skip


async def test_pods_that_fit_nowhere_end_the_workload_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE", 0.3)
    templates = {"pod.yaml": POD + "  nodeSelector: {disk: ssd}\n"}
    with pytest.raises(Failed, match=r"Test/small: 4 pods are not placed, namespace-1/web-\w+ for one: 0/2 nodes"):
        await measured(tmp_path, NODES, {**PODS, "podTemplatePath": "pod.yaml"}, templates=templates)


async def test_an_object_that_the_server_refuses_ends_the_workload(tmp_path: Path) -> None:
    templates = {"pod.yaml": POD.replace("pause", "''")}
    with pytest.raises(Failed, match=r"operation 1 \(createPods\): .*image: Required value"):
        await measured(tmp_path, NODES, {**PODS, "podTemplatePath": "pod.yaml"}, templates=templates)


async def test_measurements_do_not_overlap(tmp_path: Path) -> None:
    begin = {"opcode": "startCollectingMetrics", "namespaces": ["a"]}
    with pytest.raises(Failed, match="operation 1 measures while another measurement goes on"):
        await measured(tmp_path, begin, begin, {"opcode": "stopCollectingMetrics"})
    with pytest.raises(Failed, match="operation 0 ends a measurement that was never begun"):
        await measured(tmp_path, {"opcode": "stopCollectingMetrics"})
