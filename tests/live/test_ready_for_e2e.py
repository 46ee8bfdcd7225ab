"""What Kubernetes' own end-to-end suite looks for before its first spec, through kubectl and the official client."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from kubernetes import client as official
from kubernetes import config

from tests.live.conftest import Live, eventually
from tests.plane import PATIENCE


@pytest.fixture(scope="module")
def core(whole: Live) -> Any:
    connect: Any = config.new_client_from_config
    return official.CoreV1Api(connect(str(whole.kubeconfig)))


def test_nodes_are_ready_and_say_what_they_are_and_have(core: Any) -> None:
    def ready() -> Any:
        nodes = core.list_node().items
        assert len(nodes) == 3
        for node in nodes:
            assert node.status
            assert node.status.conditions
            assert {condition.type: condition.status for condition in node.status.conditions} == {
                "Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False",
            }  # fmt: skip
            assert not node.spec.taints
        return nodes

    for node in eventually(ready):
        status = node.status
        assert re.match(r"v1\.36\.\d+", status.node_info.kubelet_version)
        assert status.node_info.operating_system == "linux"
        assert status.node_info.container_runtime_version
        assert {"cpu", "memory", "pods", "ephemeral-storage"} <= status.allocatable.keys() <= status.capacity.keys()
        assert {address.type for address in status.addresses} == {"InternalIP", "Hostname"}
        assert node.metadata.labels["kubernetes.io/hostname"] == node.metadata.name


def test_a_new_namespace_has_a_service_account_and_the_root_certificate(core: Any, whole: Live) -> None:
    core.create_namespace({"metadata": {"generateName": "e2e-", "name": "e2e-1234"}})

    def furnished() -> bool:
        accounts = [account.metadata.name for account in core.list_namespaced_service_account("e2e-1234").items]
        maps = {item.metadata.name: item.data for item in core.list_namespaced_config_map("e2e-1234").items}
        assert accounts == ["default"]
        return bool(maps["kube-root-ca.crt"]["ca.crt"] == (whole.directory / "ca.crt").read_text())

    assert eventually(furnished)
    core.delete_namespace("e2e-1234")
    eventually(lambda: "e2e-1234" not in [namespace.metadata.name for namespace in core.list_namespace().items])


def test_the_system_is_healthy_and_says_its_version(whole: Live) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        assert whole.http("GET", path) == (200, "ok")
    assert whole.http("GET", "/version")[1]["gitVersion"].startswith("v1.36.")
    assert whole.http("GET", "/api/v1/namespaces/kube-system/pods")[1]["items"] == []


def test_kubectl_sees_the_same(whole: Live) -> None:
    whole.kubectl("wait", "--for=condition=Ready", "node", "--all", f"--timeout={PATIENCE:.0f}s")
    nodes = json.loads(whole.kubectl("get", "nodes", "-o", "json").stdout)["items"]
    assert all(node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.36.") for node in nodes)
    assert "v1.36." in whole.kubectl("version").stdout
    assert whole.kubectl("auth", "can-i", "*", "*", "--all-namespaces").stdout.strip() == "yes"
    names = whole.kubectl("get", "configmap,serviceaccount", "-n", "kube-public", "-o", "name").stdout.split()
    assert names == ["configmap/kube-root-ca.crt", "serviceaccount/default"]
