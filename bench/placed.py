"""Whether as many pods are placed as by Kubernetes: workloads of scheduler_perf, by kube-scheduler and by `moorage`.

Pods that are not measured are placed by kube-scheduler first. A snapshot is taken once the measured ones wait. Then
kube-scheduler and `moorage simulate` each place the rest, and `moorage capacity` says how many more of them fit.

KUBE_APISERVER=/path/to/kube-apiserver KUBE_SCHEDULER=/path/to/kube-scheduler \
    python bench/placed.py /path/to/kubernetes [--only SchedulingPodAffinity]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import yaml

from differential import MERGE, Server
from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.tools.perf.devices import slices
from moorage.tools.perf.objects import with_claim
from moorage.tools.perf.operations import (
    AnyOperation,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateResourceDriver,
)
from moorage.tools.perf.workloads import File, Workload, WorkloadPlan
from serving import Serving, running
from upstream import kubernetes, program

Data = dict[str, Any]
CASES = Path(__file__).with_suffix(".yaml")
GATES = "TaintTolerationComparisonOperators=true"
FOLDER = "test/integration/scheduler_perf"
CHURNED = 10
"""How many objects of each template a `churn` makes, which has no end of its own."""
QUIET_SECONDS, PATIENCE_SECONDS = 6, 180
POD, NODE, NAMESPACE = kinds.row("v1", "Pod"), kinds.row("v1", "Node"), kinds.row("v1", "Namespace")
VOLUME, CLAIM = kinds.row("v1", "PersistentVolume"), kinds.row("v1", "PersistentVolumeClaim")
CSI_NODE = kinds.row("storage.k8s.io/v1", "CSINode")
SLICE = kinds.row("resource.k8s.io/v1", "ResourceSlice")
PRIORITY_CLASS = kinds.row("scheduling.k8s.io/v1", "PriorityClass")
PLACED, PENDING, GONE = "placed", "Pending", "preempted"


class Tighter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A merge patch of every so many objects."""

    merge: Data
    every: int = 1

    def __call__(self, index: int, data: Data) -> Data:
        return merged(data, self.merge) if index % self.every == 0 else data


UNCHANGED = Tighter({})


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """A workload with sizes of its own."""

    test: str
    params: Data
    tighter: str = ""
    nodes: Tighter = UNCHANGED
    others: Tighter = UNCHANGED
    """A second change of nodes."""
    pods: Tighter = UNCHANGED
    volumes: Tighter = UNCHANGED
    fills: bool = False
    """Whether so many measured pods are created that they fill the cluster, each like the others."""

    def plan(self, source: Path) -> WorkloadPlan:
        folder, _, name = self.test.partition("/")
        file = File(source / FOLDER / folder / "performance-config.yaml")
        size = [Workload("placed", self.params)]
        file.tests = [msgspec.structs.replace(each, workloads=size) for each in file.tests if each.name == name]
        return file.plan(f"{name}/placed")


class Creating:
    """Creates the objects of a workload on an API server."""

    def __init__(self, case: Case, plan: WorkloadPlan, server: Server) -> None:
        self.pods: dict[str, str] = {}
        """The template of each pod."""
        self.example: Data = {}
        """A measured pod."""
        self._case, self._objects, self._server = case, plan.objects, server
        self._nodes: list[str] = []
        self._classes: set[int] = set()
        self._numbers = count()

    def create(self, kind: Kind, data: Data, namespace: str = "") -> Data:
        """Create an object. Returns its metadata."""
        base = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.api_version}"
        path = f"{base}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
        metadata = data.get("metadata") or {}
        name = metadata.get("name") or f"{metadata.get('generateName', 'pod-')}{next(self._numbers):05}"
        whole = {**data, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {**metadata, "name": name}}
        code, answer = self._server.ask("POST", path, whole)
        if code >= 300 and not (kind is NAMESPACE and code == 409):
            sys.exit(f"{self._case.test}: {kind.kind} {name}: {answer.get('message', code)}")
        return {"name": name, **answer.get("metadata", {})}

    def perform(self, number: int, operation: AnyOperation) -> None:
        namespace = getattr(operation, "namespace", "") or f"namespace-{number}"
        match operation:
            case CreateNamespaces(prefix, total, path):
                for data in self._objects.namespaces(prefix, total, path):
                    self.create(NAMESPACE, data)
            case CreateNodes():
                self._create_nodes(operation, f"node-{number}-")
            case CreatePods():
                self._create_pods(operation, namespace)
            case CreateAny():
                self._create_any(operation.template_path, operation.count, namespace, operation.template_params)
            case Churn():
                for path in operation.template_paths:
                    self._create_any(path, CHURNED, namespace, {})
            case CreateResourceDriver():
                for data in slices(operation, self._nodes):
                    self.create(SLICE, data)

    def _create_nodes(self, operation: CreateNodes, prefix: str) -> None:
        for index, plain in enumerate(self._objects.nodes(operation, prefix)):
            data = self._case.others(index, self._case.nodes(index, plain))
            name = str(self.create(NODE, data)["name"])
            self._nodes.append(name)
            taints = data.get("spec", {}).get("taints")
            # A new node is tainted until its kubelet says that it is ready.
            self._server.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": taints}}, MERGE)
            if strategy := operation.node_allocatable_strategy:
                drivers = [
                    {"name": driver, "nodeID": name, "allocatable": room}
                    for driver, room in strategy.csi_node_allocatable.items()
                ]
                migrated = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(strategy.migrated_plugins)}
                self.create(
                    CSI_NODE, {"metadata": {"name": name, "annotations": migrated}, "spec": {"drivers": drivers}}
                )

    def _create_any(self, path: str, total: int, namespace: str, params: Data) -> None:
        template = self._objects.template(path)
        self.create(NAMESPACE, {"metadata": {"name": namespace}})
        for index in range(total):
            data = template.render(index, total, params)
            kind = template.kind_of(data)
            if kind is POD:
                self._create_pod(data, namespace, Path(path).stem)
            else:
                self.create(kind, data, namespace)

    def _create_pods(self, operation: CreatePods, namespace: str) -> None:
        self.create(NAMESPACE, {"metadata": {"name": namespace}})
        sort = "measured" if operation.collect_metrics else Path(operation.pod_template_path).stem or "first"
        for index, plain in enumerate(self._objects.pods(operation)):
            pod = self._case.pods(index, plain)
            if operation.persistent_volume_template_path:
                volume, claim = self._objects.volume(operation, namespace, index)
                uid = self.create(CLAIM, claim, namespace)["uid"]
                bound = merged(self._case.volumes(index, volume), {"spec": {"claimRef": {"uid": uid}}})
                self.create(VOLUME, bound)
                pod = with_claim(pod, index)
            pod = self._create_pod(pod, namespace, sort)
            if operation.collect_metrics:
                self.example = merged(pod, {"metadata": {"namespace": namespace, "name": "one-more"}})

    def _create_pod(self, data: Data, namespace: str, sort: str) -> Data:
        spec = data["spec"]
        if (priority := spec.get("priority")) is not None:
            name = f"priority-{priority}"
            if priority not in self._classes:
                self._classes.add(priority)
                self.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": priority})
                time.sleep(1)  # admission reads classes from a cache of its own
            data = merged(data, {"spec": {"priority": None, "priorityClassName": name}})
        name = self.create(POD, data, namespace)["name"]
        self.pods[f"{namespace}/{name}"] = sort
        return {**data, "apiVersion": "v1", "kind": "Pod"}


class Comparing:
    """Places one workload both ways."""

    def __init__(self, case: Case, plan: WorkloadPlan, serving: Serving, folder: Path) -> None:
        self._case, self._plan, self._folder = case, plan, folder
        self._server = Server("Kubernetes", serving)
        self._creating = Creating(case, plan, self._server)
        access = {"server": serving.url, "insecure-skip-tls-verify": True}
        self._kubeconfig, self._config = folder / "kubeconfig", folder / "scheduler.yaml"
        self._kubeconfig.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": access}],
            "users": [{"name": "it", "user": {"token": serving.token}}],
        }))  # fmt: skip
        self._config.write_text(yaml.safe_dump({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self._kubeconfig), "qps": 1000, "burst": 1000},
            "leaderElection": {"leaderElect": False},
            "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1,
        }))  # fmt: skip

    def rows(self) -> Iterator[list[str]]:
        """A row for each template, and whether both agree on it."""
        operations = list(enumerate(self._plan.operations))
        begin = next(number for number, each in operations if _waits(each))
        for number, operation in operations[:begin]:
            self._creating.perform(number, operation)
        bound = self._settled()
        for number, operation in operations[begin:]:
            self._creating.perform(number, operation)
        snapshot = self._folder / "snapshot.gz"
        self._moorage(["snapshot", "--kubeconfig", str(self._kubeconfig), "-o", str(snapshot)])
        ours = self._simulated(snapshot, {pod for pod, node in bound.items() if node})
        theirs = {pod: PLACED if node else PENDING for pod, node in self._settled().items()}
        room = self._room(snapshot) if self._case.fills else ""
        for sort in dict.fromkeys(self._creating.pods.values()):
            pods = [pod for pod, each in self._creating.pods.items() if each == sort]
            us, them = (Counter(found.get(pod, GONE) for pod in pods) for found in (ours, theirs))
            fits = room if sort == "measured" else ""
            agree = us == them and fits in ("", str(them[PLACED]))
            yield [sort, _counts(them), _counts(us), fits, "yes" if agree else "NO"]

    def _state(self) -> tuple[dict[str, str], bool]:
        """The node of each pod, and whether kube-scheduler has tried all of them."""
        code, answer = self._server.ask("GET", "/api/v1/pods")
        assert code == 200, answer
        nodes, is_tried = {}, True
        for pod in answer["items"]:
            node = pod["spec"].get("nodeName", "")
            nodes[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"] = node
            is_tried &= bool(node or pod["status"].get("conditions"))
        return nodes, is_tried

    def _settled(self) -> dict[str, str]:
        """Run kube-scheduler until nothing changes any more."""
        before, is_tried = self._state()
        line = [program("KUBE_SCHEDULER", "kube-scheduler"), f"--config={self._config}", f"--feature-gates={GATES}"]
        line += ["--secure-port=0", "--v=0"]
        began = changed = time.monotonic()
        with running(line):
            while not is_tried or time.monotonic() - changed < QUIET_SECONDS:
                time.sleep(0.5)
                now, is_tried = self._state()
                if now != before:
                    before, changed = now, time.monotonic()
                if time.monotonic() - began > PATIENCE_SECONDS:
                    sys.exit(f"{self._case.test}: kube-scheduler has not tried all pods in {PATIENCE_SECONDS} s")
        return before

    def _moorage(self, arguments: list[str]) -> Any:
        line = [sys.executable, "-m", "moorage", *arguments]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode > 1:
            sys.exit(f"{' '.join(line)}: {done.stderr}")
        return json.loads(done.stdout) if "json" in arguments else done.stdout

    def _simulated(self, snapshot: Path, bound: set[str]) -> dict[str, str]:
        answer = self._moorage(["simulate", "-f", str(snapshot), "-o", "json"])
        effects = answer["after"]
        found = dict.fromkeys(bound | _names(effects.get("placed", [])), PLACED)
        found |= dict.fromkeys(_names([*effects.get("pending", []), *answer.get("stillPending", [])]), PENDING)
        for what in ("evicted", "lost", "deleted"):
            for pod in _names(effects.get(what, [])):
                found.pop(pod, None)
        return found

    def _room(self, snapshot: Path) -> str:
        """How many of the measured pods fit, says `moorage capacity`."""
        pod = self._folder / "pod.json"
        pod.write_text(json.dumps(self._creating.example))
        answer = self._moorage(["capacity", "-f", str(snapshot), "-f", str(pod), "-o", "json"])
        return str(answer["pods"][0]["fit"])


def merged(data: Any, patch: Any) -> Any:
    """A JSON merge patch, applied."""
    if not isinstance(data, dict) or not isinstance(patch, dict):
        return patch
    whole = {name: merged(data.get(name, {}), value) for name, value in patch.items()}
    return {name: value for name, value in {**data, **whole}.items() if value is not None}


def _waits(operation: AnyOperation) -> bool:
    """Whether an operation creates pods that wait when the snapshot is taken."""
    return isinstance(operation, Churn) or (isinstance(operation, CreatePods) and operation.collect_metrics)


def _names(entries: Iterable[Data]) -> set[str]:
    return {entry["pod"] for entry in entries}


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{found[state]} {state}" for state in (PLACED, PENDING, GONE) if found[state])


def compare(case: Case, source: Path, show: Callable[[list[str]], None]) -> bool:
    """Place a workload both ways and show how they agree."""
    plan = case.plan(source)
    is_same = True
    with kubernetes(GATES) as serving, tempfile.TemporaryDirectory() as folder:
        title = f"{case.test.partition('/')[2]}{': ' * bool(case.tighter)}{case.tighter}"
        for row in Comparing(case, plan, serving, Path(folder)).rows():
            show([title, *row])
            title = ""
            is_same &= row[-1] == "yes"
    return is_same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kubernetes", type=Path, help="the folder of Kubernetes' source")
    parser.add_argument("--only", default="", help="only workloads with this text in their name")
    options = parser.parse_args()
    cases = msgspec.convert(yaml.safe_load(CASES.read_text()), list[Case])

    def show(row: list[str]) -> None:
        print(f"| {' | '.join(row)} |", flush=True)

    show(["workload", "pods", "kube-scheduler", "moorage simulate", "moorage capacity", "agree"])
    show(["---"] * 6)
    chosen = [case for case in cases if options.only in f"{case.test} {case.tighter}"]
    same = sum([compare(case, options.kubernetes, show) for case in chosen])
    print(f"{same} of {len(chosen)} workloads agree")
    sys.exit(same < len(chosen))


if __name__ == "__main__":
    main()
