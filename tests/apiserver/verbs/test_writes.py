"""What becomes of objects on their way into the store, asked of a whole server."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.apiserver.patch import fieldset
from tests.apiserver.asked import APPLY, MERGE, Asked, Data

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
JOBS, SERVICES = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default/services"
LOST = [f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable")]


async def node(ask: Asked) -> Data:
    status = {"capacity": {"cpu": "4"}}
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
    code, made = await ask.told("POST", NODES, manifest)
    assert code == 201
    return made


async def test_version_zero_replaces_whatever_is_there(ask: Asked) -> None:
    made = await node(ask)
    await ask("PATCH", f"{NODES}/n", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    made["metadata"]["resourceVersion"] = "0"
    made["status"]["capacity"]["example.com/beardsecond"] = "10"
    code, told = await ask.told("PUT", f"{NODES}/n/status", made)
    assert (code, told["status"]["capacity"]["example.com/beardsecond"]) == (200, "10")
    assert told["metadata"]["resourceVersion"] not in ("", "0")
    code, _ = await ask.told("PATCH", f"{NODES}/n", {"metadata": {"resourceVersion": "0", "labels": None}}, MERGE)
    assert code == 200


async def test_a_version_that_is_no_longer_there_is_a_conflict(ask: Asked) -> None:
    made = await node(ask)
    await ask("PATCH", f"{NODES}/n", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    code, told = await ask.told("PUT", f"{NODES}/n", made)
    assert (code, told["reason"]) == (409, "Conflict")


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ([], LOST),
        ([{"expression": "taint.key == 'spot'"}], LOST),
        ([{"expression": "taint.key.startsWith('node.kubernetes.io/')"}], LOST),
        ([{"key": LOST[0], "operator": "Exists", "effect": "NoExecute"}], LOST[1:]),
        ([{"key": LOST[0], "operator": "Exists", "effect": "NoSchedule"}], LOST),
        ([{"operator": "Exists"}], []),
    ],
)
async def test_a_pod_outlives_a_lost_node_for_a_while_unless_it_says_how_long(
    ask: Asked, own: list[Any], added: list[str]
) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": own}
    code, told = await ask.told(
        "POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    )
    assert code == 201, told
    tolerations = told["spec"]["tolerations"]
    assert tolerations[: len(own)] == own
    assert [(each["key"], each["tolerationSeconds"]) for each in tolerations[len(own) :]] == [
        (key, 300) for key in added
    ]


async def test_what_the_server_makes_up_is_nobodys(ask: Asked) -> None:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    _, job = await ask.told("POST", JOBS, {"metadata": {"name": "job"}, "spec": {"template": {"spec": pod}}})
    assert job["spec"]["selector"]["matchLabels"]
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    _, service = await ask.told("POST", SERVICES, {"metadata": {"name": "service"}, "spec": spec})
    assert service["spec"]["clusterIP"]
    assert service["spec"]["ports"][0]["nodePort"]
    for made, field in ((job, "selector"), (job, "labels"), (service, "clusterIP"), (service, "nodePort")):
        (entry,) = made["metadata"]["managedFields"]
        assert not [path for path in fieldset.paths(entry["fieldsV1"]) if field in path]


async def test_who_goes_over_to_applying_on_the_server_keeps_a_job(ask: Asked) -> None:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": {"spec": pod}},
    }  # fmt: skip
    _, made = await ask.told("POST", f"{JOBS}?fieldManager=kubectl-client-side-apply", job)
    (entry,) = made["metadata"]["managedFields"]
    mine = {**entry, "manager": "kubectl", "operation": "Apply"}
    await ask("PATCH", f"{JOBS}/job", {"metadata": {"managedFields": [mine]}}, MERGE)
    code, kept = await ask.told("PATCH", f"{JOBS}/job?fieldManager=kubectl", job, APPLY)
    assert (code, kept["spec"]) == (200, made["spec"])
