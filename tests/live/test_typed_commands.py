"""Commands of kubectl that speak protobuf, against a running server."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.live.conftest import Live

Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def kubectl(live: Live) -> Iterator[Kubectl]:
    """kubectl in a namespace of its own."""

    def run(command: str, stdin: str = "") -> str:
        return live.kubectl("--namespace=typed", *shlex.split(command), stdin=stdin).stdout.strip()

    assert run("create namespace typed") == "namespace/typed created"
    run("create serviceaccount crew")
    yield run
    run("delete namespace typed --wait=false")


def read(kubectl: Kubectl, what: str) -> Any:
    return json.loads(kubectl(f"get {what} -o json"))


def test_a_deployment_is_stored_with_its_template_and_its_defaults(kubectl: Kubectl) -> None:
    kubectl("create deployment web --image=nginx --replicas=0 --port=80")
    spec = read(kubectl, "deployment web")["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["strategy"]["type"]) == (0, 10, "RollingUpdate")
    (container,) = spec["template"]["spec"]["containers"]
    assert (container["image"], container["ports"]) == ("nginx", [{"containerPort": 80, "protocol": "TCP"}])
    kubectl("expose deployment web --port=80 --target-port=http")
    (port,) = read(kubectl, "service web")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (80, "http")


def test_maps_of_text_and_of_bytes_are_stored(kubectl: Kubectl) -> None:
    kubectl("create configmap settings --from-literal=a=1 --from-literal=empty=")
    assert read(kubectl, "configmap settings")["data"] == {"a": "1", "empty": ""}
    kubectl("create secret generic keys --from-literal=p=q")
    assert (secret := read(kubectl, "secret keys"))["data"] == {"p": "cQ=="}
    assert secret["type"] == "Opaque"


def test_options_of_a_deletion_are_heeded(kubectl: Kubectl) -> None:
    kubectl("create configmap doomed")
    kubectl("delete configmap doomed --dry-run=server")
    assert "deletionTimestamp" not in read(kubectl, "configmap doomed")["metadata"]
    kubectl("delete configmap doomed --cascade=foreground --wait=false")
    assert read(kubectl, "configmap doomed")["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_jobs_budgets_classes_and_services_are_stored(kubectl: Kubectl) -> None:
    kubectl("create job once --image=busybox -- sh -c true")
    kubectl("create cronjob often --image=busybox --schedule='*/5 * * * *' -- date")
    kubectl("create poddisruptionbudget half --selector=app=web --min-available=50%")
    kubectl("create priorityclass typed-high --value=1000")
    kubectl("create service clusterip plain --tcp=80:8080")
    assert read(kubectl, "job once")["spec"]["template"]["spec"]["containers"][0]["command"] == ["sh", "-c", "true"]
    assert read(kubectl, "cronjob often")["spec"]["schedule"] == "*/5 * * * *"
    assert read(kubectl, "poddisruptionbudget half")["spec"]["minAvailable"] == "50%"
    assert read(kubectl, "priorityclass typed-high")["value"] == 1000
    assert read(kubectl, "service plain")["spec"]["ports"][0]["targetPort"] == 8080
    kubectl("delete priorityclass typed-high")


def test_rights_are_given_and_asked_for(kubectl: Kubectl, live: Live) -> None:
    kubectl("create role reader --verb=get,list --resource=pods")
    kubectl("create rolebinding readers --role=reader --serviceaccount=typed:crew")
    kubectl("create clusterrole typed-prober --verb=get --non-resource-url=/typed")
    kubectl("create clusterrolebinding typed-probers --clusterrole=typed-prober --user=bob --group=sailors")
    assert read(kubectl, "clusterrolebinding typed-probers")["subjects"] == [
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"},
        {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "sailors"},
    ]
    assert kubectl("auth can-i delete nodes --quiet --all-namespaces") == ""
    assert kubectl("auth can-i get pods --as=system:serviceaccount:typed:crew") == "yes"
    asked = live.kubectl("-n", "typed", "auth", "can-i", "delete", "pods", "--as=bob", check=False)
    assert (asked.returncode, asked.stdout.strip()) == (1, "no")
    assert "*.*" in kubectl("auth can-i --list")
    assert "system:masters" in kubectl("auth whoami")


def test_a_token_is_made_for_a_while_and_serves(kubectl: Kubectl, live: Live) -> None:
    token = kubectl("create token crew --duration=30m")
    code, answer = live.http("GET", "/api/v1/namespaces/typed/secrets", token=token)
    assert code == 403
    assert "system:serviceaccount:typed:crew" in answer["message"]


def test_a_node_is_cordoned_and_drained_of_its_pods(kubectl: Kubectl) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "typed-node"}}
    kubectl("create -f -", json.dumps(node))
    kubectl('run guest --image=nginx --overrides=\'{"spec":{"nodeName":"typed-node"}}\'')
    kubectl("cordon typed-node")
    assert read(kubectl, "node typed-node")["spec"]["unschedulable"] is True
    kubectl("uncordon typed-node")
    assert "evicting pod typed/guest" in kubectl("drain typed-node --dry-run=server --force")
    assert "deletionTimestamp" not in read(kubectl, "pod guest")["metadata"]
    kubectl("delete pod guest --grace-period=0 --force")
    kubectl("delete node typed-node")
