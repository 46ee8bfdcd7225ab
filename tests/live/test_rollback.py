"""The commands that `moorage rollback` prints work as they are, and after them it finds nothing more."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.conftest import ROOT, Live, eventually
from tests.plane import PATIENCE

GATE = "TaintTolerationNodeAffinityCEL"
EXPRESSION = "taint.key == 'sla'"
TOLERATION = {"expression": EXPRESSION}
Data = dict[str, Any]

EDITOR = f"""#!{sys.executable}
import sys, yaml
from pathlib import Path

def without(part):
    if isinstance(part, list):
        return [without(each) for each in part]
    if not isinstance(part, dict):
        return part
    if part.pop("expression", None):
        return {{**part, "key": "sla", "operator": "Exists"}}
    if part.pop("matchCELExpressions", None):
        return {{"matchExpressions": [{{"key": "kernel", "operator": "Exists"}}]}}
    return {{name: without(value) for name, value in part.items()}}

file = Path(sys.argv[1])
file.write_text(yaml.safe_dump(without(yaml.safe_load(file.read_text()))))
"""


def manifest(kind: str, name: str, api_version: str = "v1", **fields: Any) -> Data:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def pod(**spec: Any) -> Data:
    return {"containers": [{"name": "main", "image": "pause:3.10"}], "tolerations": [TOLERATION], **spec}


def workload(kind: str, name: str, api_version: str = "apps/v1", **spec: Any) -> Data:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod()}
    return manifest(kind, name, api_version, spec={"selector": {"matchLabels": labels}, "template": template, **spec})


def task() -> Data:
    metadata = {"annotations": {"moorage.dev/run-seconds": "1000"}}
    return {"template": {"metadata": metadata, "spec": pod(restartPolicy="Never")}}


def volume(name: str, **spec: Any) -> Data:
    terms = [{"matchCELExpressions": ["node.labels['kernel'] == '6.1.0'"]}]
    return manifest("PersistentVolume", name, spec={
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
        "hostPath": {"path": "/data"}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, **spec,
    })  # fmt: skip


def claim(name: str, kind: str = "ResourceClaim") -> Data:
    exactly = {"deviceClassName": "gpu", "tolerations": [TOLERATION]}
    spec: Data = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return manifest(kind, name, "resource.k8s.io/v1", spec=spec if kind == "ResourceClaim" else {"spec": spec})


def user(name: str, **spec: Any) -> Data:
    return manifest("Pod", name, spec={**pod(**spec), "tolerations": [{"key": "sla", "operator": "Exists"}]})


TAINT = {"key": "sla", "value": "900", "effect": "NoExecute"}
DEVICES = {
    "driver": "gpu.example.com", "nodeName": "node-1", "devices": [{"name": "gpu-0", "taints": [TAINT]}],
    "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
}  # fmt: skip
REQUESTED = {
    "accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "volumeName": "bound",
    "resources": {"requests": {"storage": "1Gi"}},
}  # fmt: skip
OBJECTS = [
    manifest("Namespace", "team"),
    workload("Deployment", "web"), workload("StatefulSet", "db", serviceName="db"), workload("DaemonSet", "agent"),
    workload("ReplicaSet", "set"), manifest("Job", "job", "batch/v1", spec=task()),
    manifest("CronJob", "cron", "batch/v1", spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": task()}}),
    manifest("Pod", "runs", metadata={"namespace": "team"}, spec=pod(nodeName="node-1")),
    manifest("Pod", "waits", spec=pod(nodeSelector={"kernel": "7"})),
    volume("free"), volume("bound", claimRef={"namespace": "default", "name": "data"}),
    manifest("PersistentVolumeClaim", "data", spec=REQUESTED),
    user("writer", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
    manifest("DeviceClass", "gpu", "resource.k8s.io/v1", spec={}),
    manifest("ResourceSlice", "gpus", "resource.k8s.io/v1", spec=DEVICES),
    claim("held"), claim("free"), claim("stencil", "ResourceClaimTemplate"),
    user("trainer", resourceClaims=[{"name": "gpu", "resourceClaimName": "held"}]),
]  # fmt: skip


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    live = Live(tmp_path / "data", more=("--nodes", "2"))
    live.start()
    yield live
    live.stop()


def rollback(live: Live) -> list[Data]:
    run = subprocess.run(
        [sys.executable, "-m", "moorage", "rollback", GATE, "--kubeconfig", str(live.kubeconfig), "-o", "json"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    findings: list[Data] = json.loads(run.stdout)["findings"]
    assert run.returncode == bool(findings)
    return findings


def test_every_command_can_be_typed(server: Live, tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    server.kubectl("label", "node", "--all", "kernel=6.1.0")
    server.kubectl("taint", "node", "--all", "sla=900:NoExecute")
    server.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(OBJECTS))
    for name in ("runs -n team", "writer", "trainer"):
        server.kubectl("wait", "--for=condition=Ready", f"--timeout={PATIENCE:.0f}s", "pod", *name.split())
    steps = {finding["object"].rpartition("/")[2]: finding["step"] for finding in rollback(server)}
    assert {
        "web": "templates", "db": "templates", "agent": "templates", "set": "templates", "job": "templates",
        "cron": "templates", "PersistentVolume bound": "volumes", "held": "claims", "stencil": "claims",
        "runs": "evicted", "waits": "pending",
    }.items() <= steps.items()  # fmt: skip

    work = tmp_path / "work"
    work.mkdir()
    env = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(work), "EDITOR": str(editor)}
    for finding in rollback(server):
        command = ["sh", "-e", "-c", finding["command"]]
        run = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert run.returncode == 0, f"{finding['command']}\n{run.stderr}"
    eventually(lambda: rollback(server) == [])
    server.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", f"--timeout={PATIENCE:.0f}s", "pvc", "data")
