"""Files as Kubernetes' own scheduler_perf has them: templates elsewhere, devices, gates, metrics and thresholds."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.tools.perf import cluster
from moorage.tools.perf.cluster import Failed
from moorage.tools.perf.histograms import quantile
from moorage.tools.perf.measure import Measurement
from moorage.tools.perf.run import run
from moorage.tools.perf.workloads import File, WorkloadError

TEMPLATES = {
    "node": """
apiVersion: v1
kind: Node
metadata: {generateName: with-devices-}
status:
  capacity: {pods: "110", cpu: "4", memory: 32Gi}
  conditions: [{type: Ready, status: "True"}]
""",
    "class": """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]}
""",
    "claim": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: "claim-{{.Index}}"}
spec: {devices: {requests: [{name: one, exactly: {deviceClassName: gpu}}]}}
""",
    "claim-template": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: claims}
spec: {spec: {devices: {requests: [{name: one, exactly: {deviceClassName: gpu}}]}}}
""",
    "tolerant": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: claims}
spec: {spec: {devices: {requests: [{name: one, exactly: {
  deviceClassName: gpu, tolerations: [{key: example.com/worn, operator: Exists}]}}]}}}
""",
    "rule": """
apiVersion: resource.k8s.io/v1alpha3
kind: DeviceTaintRule
metadata: {name: all}
spec: {deviceSelector: {}, taint: {key: example.com/worn, effect: NoSchedule}}
""",
    "pod": """
apiVersion: v1
kind: Pod
metadata: {name: "pod-{{.Index}}"}
spec:
  containers: [{name: main, image: pause, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: claims}]
""",
    "sharing": """
apiVersion: v1
kind: Pod
metadata: {name: "pod-{{.Index}}"}
spec:
  containers: [{name: main, image: pause, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: "claim-{{DivideInt .Index 5}}"}]
""",
}
DRIVER = """
  - opcode: createNodes
    countParam: $plain
  - opcode: createNodes
    nodeTemplatePath: ../templates/node.yaml
    countParam: $nodes
  - opcode: createResourceDriver
    driverName: gpu.example.com
    nodes: with-devices-*
    maxClaimsPerNodeParam: $devices
  - opcode: createAny
    templatePath: ../templates/class.yaml
"""
PLACED = """
  - opcode: createAny
    templatePath: ../templates/claim-template.yaml
    namespace: test
  - opcode: createPods
    namespace: test
    countParam: $pods
    podTemplatePath: ../templates/pod.yaml
    collectMetrics: true
"""
PLAIN = """
  - {opcode: createNodes, count: 2}
  - {opcode: createPods, count: 4, collectMetrics: true}
"""


def upstream(folder: Path, operations: str, params: str = "", head: str = "", **templates: str) -> File:
    """A file in a folder of its own, with templates beside it."""
    (folder / "templates").mkdir()
    for name, text in (TEMPLATES | templates).items():
        (folder / "templates" / f"{name}.yaml").write_text(text)
    path = folder / "dra" / "performance-config.yaml"
    path.parent.mkdir()
    workload = f"  - {{name: fast, labels: [integration-test, short], {params}}}"
    path.write_text(f"- name: Devices\n{head}  workloadTemplate:{operations}  workloads:\n{workload}\n")
    return File(path)


async def measured(file: File) -> list[Measurement]:
    return await run(file.plan("Devices/fast"), lambda _: None)


async def test_pods_with_claims_fill_the_nodes_that_have_a_driver(tmp_path: Path) -> None:
    file = upstream(tmp_path, DRIVER + PLACED, "params: {plain: 2, nodes: 2, devices: 3, pods: 6}")
    (measurement,) = await measured(file)
    assert (measurement.name, measurement.pods) == ("Devices/fast/test", 6)


ALLOCATED = """
  - opcode: createAny
    templatePath: ../templates/claim.yaml
    namespace: init
    countParam: $claims
  - opcode: allocResourceClaims
    namespace: init
"""


async def test_claims_that_are_allocated_beforehand_leave_the_rest_to_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE", 0.5)
    params = "params: {plain: 0, nodes: 2, devices: 2, claims: 3, pods: 2}"
    with pytest.raises(Failed, match=r"1 pods are not placed, test/pod-\d for one: .*cannot allocate all claims"):
        await measured(upstream(tmp_path, DRIVER + ALLOCATED + PLACED, params))


async def test_claims_for_which_there_are_too_few_devices_end_the_workload(tmp_path: Path) -> None:
    params = "params: {plain: 1, nodes: 1, devices: 2, claims: 3, pods: 1}"
    with pytest.raises(Failed, match=r"^Devices/fast: claim init/claim-\d: no node has enough devices left"):
        await measured(upstream(tmp_path, DRIVER + ALLOCATED + PLACED, params))


async def test_pods_share_claims(tmp_path: Path) -> None:
    operations = """
  - opcode: createResourceClaims
    templatePath: ../templates/claim.yaml
    namespace: test
    countParam: $claims
  - opcode: createPods
    namespace: test
    countParam: $pods
    podTemplatePath: ../templates/sharing.yaml
    collectMetrics: true
"""
    claim = TEMPLATES["claim"].replace('name: "claim-{{.Index}}"', "name: claim-0")
    params = "params: {plain: 0, nodes: 1, devices: 1, claims: 1, pods: 5}"
    (measurement,) = await measured(upstream(tmp_path, DRIVER + operations, params, claim=claim))
    assert measurement.pods == 5


@pytest.mark.parametrize("is_tolerant", [True, False])
async def test_a_rule_of_an_older_version_keeps_pods_from_devices_unless_they_tolerate_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_tolerant: bool
) -> None:
    operations = f"\n  - {{opcode: createAny, templatePath: ../templates/rule.yaml}}{DRIVER}{PLACED}"
    if is_tolerant:
        operations = operations.replace("claim-template", "tolerant")
    else:
        monkeypatch.setattr(cluster, "_PATIENCE", 0.5)
    file = upstream(tmp_path, operations, "params: {plain: 0, nodes: 1, devices: 4, pods: 2}")
    if is_tolerant:
        assert [each.pods for each in await measured(file)] == [2]
    else:
        with pytest.raises(Failed, match="2 pods are not placed"):
            await measured(file)


async def test_pods_of_a_steady_state_come_again_under_their_names(tmp_path: Path) -> None:
    steady = f"{PLACED}    steadyState: true\n    durationParam: $duration\n"
    file = upstream(
        tmp_path, DRIVER + steady, "params: {plain: 0, nodes: 1, devices: 2, pods: 2, duration: 1s}"
    )  # fmt: skip
    (measurement,) = await measured(file)
    assert measurement.pods > 2


async def test_a_steady_state_without_any_pod_placed_is_a_failure(tmp_path: Path) -> None:
    steady = f"{PLACED}    steadyState: true\n    duration: 300ms\n"
    file = upstream(tmp_path, DRIVER + steady, "params: {plain: 1, nodes: 0, devices: 1, pods: 2}")
    with pytest.raises(Failed, match="no pod at all was placed in 300ms"):
        await measured(file)


async def test_what_is_measured_may_be_something_else_than_pods(tmp_path: Path) -> None:
    begin = "\n  - {opcode: startCollectingMetrics, name: slices, namespaces: [default]}"
    (measurement,) = await measured(
        upstream(
            tmp_path, f"{begin}{DRIVER}  - opcode: stopCollectingMetrics\n", "params: {plain: 0, nodes: 3, devices: 9}"
        )
    )
    assert (measurement.name, measurement.pods) == ("Devices/fast/slices", 0)
    assert measurement.duration > 0


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("class", "spec: {", "spec: {extendedResourceName: example.com/gpu, ",
         "class.yaml: spec.extendedResourceName: devices as extended resources are not part of Moorage"),
        ("claim-template", "gpu}", "gpu, capacity: {requests: {memory: 1Gi}}}",
         "spec.spec.devices.requests.exactly.capacity: devices with consumable capacity are not part of Moorage"),
        ("pod", "resources: {", "resources: {limits: {deviceclass.resource.kubernetes.io/gpu: 1}, ",
         "deviceclass.resource.kubernetes.io/gpu: devices as extended resources are not part of Moorage"),
        ("pod", "resourceClaims", "schedulingGroup: {podGroupName: a}\n  resourceClaims",
         r"pod.yaml: spec.schedulingGroup: pod groups \(gang scheduling\) are not part of Moorage"),
        ("class", "DeviceClass", "PodGroup", r"class.yaml: pod groups \(gang scheduling\) are not part of Moorage"),
    ],
)  # fmt: skip
def test_an_object_that_asks_for_what_is_not_here_is_refused_before_anything_runs(
    tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    params = "params: {plain: 0, nodes: 1, devices: 1, pods: 1}"
    file = upstream(tmp_path, DRIVER + PLACED, params, **{name: TEMPLATES[name].replace(old, new, 1)})
    with pytest.raises(WorkloadError, match=message):
        file.plan("Devices/fast")


def test_a_gate_of_a_feature_that_no_object_mentions_is_refused_where_it_is_turned_on(tmp_path: Path) -> None:
    gates = "featureGates: {NodeDeclaredFeatures: true}"
    message = r"performance-config.yaml:6: \[0\].workloads\[0\].featureGates.NodeDeclaredFeatures: features that nodes"
    with pytest.raises(WorkloadError, match=message):
        upstream(tmp_path, PLAIN, gates).plan("Devices/fast")


def test_a_gate_of_such_a_feature_may_be_off(tmp_path: Path) -> None:
    file = upstream(tmp_path, PLAIN, "featureGates: {NodeDeclaredFeatures: false}")
    assert file.plan("Devices/fast").operations


METRICS = """
  metricsCollectorConfig:
    metrics:
      scheduler_scheduling_attempt_duration_seconds:
      - {label: result, values: [scheduled, error]}
      scheduler_plugin_execution_duration_seconds:
"""


async def test_metrics_of_the_scheduler_are_told_by_the_labels_that_are_asked_for(tmp_path: Path) -> None:
    (measurement,) = await measured(upstream(tmp_path, PLAIN, head=METRICS.lstrip("\n")))
    attempts, plugins = sorted(measurement.counted, key=lambda item: -len(item.labels))
    assert attempts.labels == {
        "Name": "Devices/fast/namespace-1", "Metric": "scheduler_scheduling_attempt_duration_seconds",
        "result": "scheduled",
    }  # fmt: skip
    assert attempts.data.keys() == {"Average", "Perc50", "Perc90", "Perc95", "Perc99"}
    assert 0 < attempts.data["Average"] < 60_000
    assert plugins.labels.keys() == {"Name", "Metric"}


async def test_a_threshold_may_be_on_a_metric_of_the_scheduler_and_from_above(tmp_path: Path) -> None:
    selector = """  defaultThresholdMetricSelector:
    name: scheduler_scheduling_attempt_duration_seconds
    labels: {result: scheduled}
    dataBucket: Perc99
    expectLower: true
"""
    file = upstream(tmp_path, PLAIN, "threshold: 0.001", selector)
    (measurement,) = await measured(file)
    plan, figures = file.plan("Devices/fast"), measurement.items()
    assert not plan.notes
    (miss,) = plan.threshold.misses(figures)
    assert miss.startswith("Devices/fast/namespace-1: Perc99 of scheduler_scheduling_attempt_duration_seconds is ")
    assert miss.endswith(" ms, and at most 0.001 are expected")
    (judged,) = [item for item in figures if "Perc99Threshold" in item.data]
    assert judged.labels["result"] == "scheduled"


def test_a_quantile_is_found_between_the_bounds_of_its_bucket() -> None:
    counts = {1.0: 2, 2.0: 10, math.inf: 10}
    assert quantile(0.1, counts) == 0.5
    assert quantile(0.6, counts) == 1.5
    assert quantile(1, counts) == 2
    assert quantile(0.5, {1.0: 0, math.inf: 4}) == 1


@given(st.lists(st.floats(0.1, 40), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_in_the_bucket_of_the_value_that_has_this_rank(values: list[float], share: float) -> None:
    bounds = (1.0, 5.0, 25.0, math.inf)
    counts = Counter({bound: sum(value <= bound for value in values) for bound in bounds})
    exact = sorted(values)[math.ceil(share * len(values)) - 1]
    upper = next(bound for bound in bounds if exact <= bound)
    lower = max((bound for bound in bounds if bound < exact), default=0.0)
    assert lower <= quantile(share, counts) <= min(upper, 25.0) + 1e-9
