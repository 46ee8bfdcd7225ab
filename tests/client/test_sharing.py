"""What pods of one template share in memory, and that nobody can tell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.client.sharing import LONGEST, reader
from tests.plane import pod

read, plainly = reader(Pod), msgspec.json.Decoder(Pod).decode


def placed(name: str, phase: str = "Running", **spec: Any) -> msgspec.Raw:
    data: Data = pod(name, nodeName="node-1", schedulerName="default-scheduler", **spec)
    data["metadata"]["labels"] = {"app": "web"}
    data["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}]
    data["status"] = {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.Raw(msgspec.json.encode(data))


def test_pods_of_one_template_hold_what_they_have_in_common_once() -> None:
    first, second = read(placed("a")), read(placed("b"))
    assert first.spec.containers is second.spec.containers
    assert first.spec.tolerations is second.spec.tolerations
    assert first.status.conditions is second.status.conditions
    assert first.metadata.labels is second.metadata.labels
    assert first.spec.node_name is second.spec.node_name
    assert first.metadata.name != second.metadata.name


def test_what_a_large_pod_has_is_not_kept_for_others() -> None:
    long = "x" * LONGEST
    first, second = (read(placed(name, containers=[{"name": "main", "image": long}])) for name in ("a", "b"))
    assert first.spec.containers == second.spec.containers
    assert first.spec.containers is not second.spec.containers


@pytest.mark.parametrize(
    "raw",
    [
        placed("a"),
        placed("a", containers=[{"name": "main", "image": "other"}]),
        placed("a", containers=[{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]),
        placed("a", containers=[{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "2"}}}]),
        placed("a", phase="Pending"),
        placed("a", tolerations=[], nodeSelector={"a": "b"}, preemptionPolicy="Never"),
        msgspec.Raw(b'{"metadata":{"name":"bare"},"status":{"phase":"Failed"}}'),
        msgspec.Raw(b'{"metadata":{"name":"nothing"}}'),
    ],
)
def test_a_pod_reads_the_same_whatever_it_shares(raw: msgspec.Raw) -> None:
    for _ in range(2):
        assert read(raw) == plainly(raw)
    assert Pod() == plainly(msgspec.Raw(b"{}"))
