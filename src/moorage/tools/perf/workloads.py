"""A file of workloads: its tests, and the operations of each workload with its parameters filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from moorage import features
from moorage.api.decode import DecodeError, convert
from moorage.api.meta import Data, Wire
from moorage.api.yamltext import Root, YAMLTextError, line_of, parse
from moorage.features import Gates
from moorage.scheduler.config import Configuration, ConfigurationError
from moorage.tools.perf import foreign, histograms
from moorage.tools.perf.histograms import MetricsConfig
from moorage.tools.perf.measure import THROUGHPUT
from moorage.tools.perf.objects import Objects, ObjectsError
from moorage.tools.perf.operations import (
    OPCODES,
    PARAMETERS,
    AnyOperation,
    Churn,
    CreatePods,
    CreatePodSets,
    StopCollectingMetrics,
    seconds_of,
)
from moorage.tools.perf.thresholds import MetricSelector, Threshold

_GATES = {gate.value for gate in features.Gate} | {*features.GROUPS}


class WorkloadError(ValueError):
    """A file that cannot be used: one sentence, with the file and the place in it."""


class Workload(Wire, forbid_unknown_fields=True):
    """One size of a test."""

    name: str
    params: Data = {}
    labels: list[str] = []
    threshold: float | dict[str, float] = 0.0
    threshold_metric_selector: MetricSelector | None = None
    feature_gates: dict[str, bool] = {}


class PerfTest(Wire, forbid_unknown_fields=True):
    """A template of operations, and the workloads that fill in its parameters."""

    name: str
    workload_template: list[Data]
    workloads: list[Workload]
    labels: list[str] = []
    feature_gates: dict[str, bool] = {}
    scheduler_config_path: str = ""
    default_pod_template_path: str = ""
    default_threshold_metric_selector: MetricSelector | None = None
    metrics_collector_config: MetricsConfig | None = None


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """A workload that is ready to be run."""

    name: str
    operations: list[AnyOperation]
    objects: Objects
    gates: Gates
    configuration: Configuration
    metrics: MetricsConfig
    """The scheduler's metrics to report."""
    threshold: Threshold
    notes: list[str]
    """What in the file is ignored here."""


class File:
    """A file of workloads. Raises WorkloadError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text, self._root = _read(path)
        try:
            self.tests = convert(self._root.data, list[PerfTest])
        except DecodeError as error:
            self._refuse(error.path, error.message)
        self._check_names()

    def _check_names(self) -> None:
        if not self.tests:
            self._refuse("", "no tests in this file")
        seen: set[str] = set()
        for number, test in enumerate(self.tests):
            if not test.workloads:
                self._refuse(f"[{number}].workloads", f"{test.name} has no workloads: give it at least one")
            for size, workload in enumerate(test.workloads):
                name = f"{test.name}/{workload.name}"
                if name in seen:
                    self._refuse(f"[{number}].workloads[{size}].name", f"{name} is given twice")
                seen.add(name)

    def names(self, pattern: str = "") -> list[str]:
        """The workloads named TEST/WORKLOAD, or of the test or size of this name; all when it is empty."""
        pairs = [(test.name, workload.name) for test in self.tests for workload in test.workloads]
        names = [f"{test}/{size}" for test, size in pairs if pattern in ("", test, size, f"{test}/{size}")]
        if not names:
            known = ", ".join(f"{test}/{size}" for test, size in pairs)
            raise WorkloadError(f"{self.path}: no workload {pattern!r}: there are {known}")
        return names

    def plan(self, name: str) -> WorkloadPlan:
        """A workload with its parameters filled in and its templates read."""
        number, test, size, workload = next(
            (number, test, size, workload)
            for number, test in enumerate(self.tests)
            for size, workload in enumerate(test.workloads)
            if f"{test.name}/{workload.name}" == name
        )
        operations = list(self._operations(number, test, workload))
        if not any(map(_measures, operations)):
            self._refuse(f"[{number}].workloadTemplate", "nothing is measured: say collectMetrics in one createPods")
        requested = test.feature_gates | workload.feature_gates
        for gate, what in foreign.GATES.items():
            if requested.get(gate):
                place = f".workloads[{size}]" if gate in workload.feature_gates else ""
                self._refuse(f"[{number}]{place}.featureGates.{gate}", foreign.sentence(what))
        gates, notes = _gates(requested)
        used = set(_parameters(test.workload_template))
        notes += [f"parameter {name} is not used" for name in workload.params if name not in used]
        threshold, more = _threshold(test, workload)
        folder = self.path.parent
        try:
            objects = Objects(folder, test.default_pod_template_path)
            objects.check(operations)
        except ObjectsError as error:
            raise WorkloadError(str(error)) from None
        metrics = test.metrics_collector_config or histograms.DEFAULT
        return WorkloadPlan(
            name, operations, objects, gates, self._configuration(test), metrics, threshold, notes + more
        )

    def _configuration(self, test: PerfTest) -> Configuration:
        if not test.scheduler_config_path:
            return Configuration()
        try:
            return Configuration.read(self.path.parent / test.scheduler_config_path)
        except ConfigurationError as error:
            raise WorkloadError(str(error)) from None

    def _operations(self, number: int, test: PerfTest, workload: Workload) -> Iterator[AnyOperation]:
        for place, template in enumerate(test.workload_template):
            path = f"[{number}].workloadTemplate[{place}]"
            operation = self._operation(path, template, workload)
            if not isinstance(operation, CreatePodSets):
                yield operation
                continue
            for index in range(operation.count):
                namespace = f"{operation.namespace_prefix}-{index}"
                pods = {**operation.create_pods_op, "opcode": "createPods", "namespace": namespace}
                yield self._operation(f"{path}.createPodsOp", pods, workload)

    def _operation(self, path: str, template: Data, workload: Workload) -> AnyOperation:
        if what := foreign.OPERATIONS.get(str(template.get("opcode"))):
            self._refuse(path, f"{template['opcode']}: {foreign.sentence(what)}")
        if template.get("opcode") not in OPCODES:
            self._refuse(path, f"no operation {template.get('opcode')!r} here: there are {', '.join(OPCODES)}")
        try:
            operation: AnyOperation = convert(_filled(template, workload.params), AnyOperation)  # type: ignore[arg-type]
            if duration := getattr(operation, "duration", ""):
                seconds_of(duration)
            if isinstance(operation, CreatePods):
                _check_pods(operation)
            if isinstance(operation, Churn):
                _check_churn(operation)
        except DecodeError as error:
            inner = error.path if error.path.startswith("[") or not error.path else f".{error.path}"
            self._refuse(path + inner, f"workload {workload.name}: {error.message}")
        except ValueError as error:
            self._refuse(path, f"workload {workload.name}: {error}")
        return operation

    def _refuse(self, path: str, message: str) -> NoReturn:
        line = line_of(self._text, self._root.span, path)
        where = f"{path.removeprefix('.')}: " if path else ""
        raise WorkloadError(f"{self.path}:{line}: {where}{message}")


def _measures(operation: AnyOperation) -> bool:
    return isinstance(operation, StopCollectingMetrics) or (
        isinstance(operation, CreatePods) and operation.collect_metrics
    )


def _read(path: Path) -> tuple[str, Root]:
    try:
        text = path.read_text()
        root = next(parse(text), None)
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WorkloadError(f"{path}: not text in UTF-8") from None
    except YAMLTextError as error:
        raise WorkloadError(f"{path}:{error.line}: {error.message}") from None
    if root is None:
        raise WorkloadError(f"{path}: the file is empty")
    return text, root


def _filled(template: Data, params: Mapping[str, Any]) -> Data:
    """An operation with the values of the parameters that it names. Raises ValueError."""
    filled = {name: value for name, value in template.items() if name not in PARAMETERS}
    for name, field in PARAMETERS.items():
        if template.get(name):
            filled[field] = _value(template[name], params)
    if multiplier := filled.pop("countMultiplierParam", ""):
        count, factor = filled.get("count", 0), _value(multiplier, params)
        if not isinstance(count, int) or not isinstance(factor, int):
            raise ValueError(f"{count!r} times {factor!r} is not a count: both must be whole numbers")
        filled["count"] = count * factor
    if isinstance(filled.get("templateParams"), dict):
        filled["templateParams"] = {
            name: _value(value, params) if isinstance(value, str) and value.startswith("$") else value
            for name, value in filled["templateParams"].items()
        }
    return filled


def _value(reference: Any, params: Mapping[str, Any]) -> Any:
    if not isinstance(reference, str) or not reference.startswith("$"):
        raise ValueError(f"{reference!r} is not the name of a parameter: write it with a $ in front")
    name, has_default, default = reference[1:].partition("|")
    if name in params:
        return params[name]
    if has_default:
        try:
            return yaml.safe_load(default)
        except yaml.YAMLError:
            raise ValueError(f"the default of parameter {name} is not YAML: {default}") from None
    raise ValueError(f"there is no parameter {name}: the workload has {', '.join(params) or 'none'}")


def _check_pods(operation: CreatePods) -> None:
    if operation.skip_wait_to_completion and (operation.collect_metrics or operation.steady_state):
        raise ValueError("skipWaitToCompletion goes with neither collectMetrics nor steadyState")
    if operation.steady_state and not operation.duration:
        raise ValueError("steadyState needs a duration")
    if bool(operation.persistent_volume_template_path) != bool(operation.persistent_volume_claim_template_path):
        raise ValueError("persistentVolumeTemplatePath and persistentVolumeClaimTemplatePath go together")


def _check_churn(operation: Churn) -> None:
    if operation.mode == "recreate" and not operation.number:
        raise ValueError("recreate needs a number: so many are made, then deleted, in turn")


def _parameters(part: Any) -> Iterator[str]:
    """The names of the parameters that a part of a template uses."""
    if isinstance(part, str) and part.startswith("$"):
        yield part[1:].partition("|")[0]
    elif isinstance(part, dict | list):
        for each in part.values() if isinstance(part, dict) else part:
            yield from _parameters(each)


def _gates(requested: Mapping[str, bool]) -> tuple[Gates, list[str]]:
    known = {name: on for name, on in requested.items() if name in _GATES}
    others = {name: on for name, on in requested.items() if name not in known}
    notes = [f"feature gate {name} is none of Moorage's: left out" for name in others if name not in foreign.ALWAYS_ON]
    forced = (name for name, on in others.items() if not on and name in foreign.ALWAYS_ON)
    notes += [f"feature gate {name} cannot be turned off here" for name in forced]
    return features.parse(",".join(f"{name}={on}" for name, on in known.items())), notes


def _threshold(test: PerfTest, workload: Workload) -> tuple[Threshold, list[str]]:
    selector = workload.threshold_metric_selector or test.default_threshold_metric_selector or MetricSelector()
    if isinstance(workload.threshold, dict):
        return Threshold(), ["thresholds by topic are not judged: there are no topics here"]
    config = test.metrics_collector_config or histograms.DEFAULT
    if workload.threshold and selector.name not in {THROUGHPUT, *(histograms.names() & config.metrics.keys())}:
        return Threshold(), [f"the threshold on {selector.name} is not judged: it is not measured here"]
    return Threshold(workload.threshold, selector), []
