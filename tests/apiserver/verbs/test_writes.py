"""What becomes of objects on their way into the store, asked of a whole server."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.api.yamltext import parse
from moorage.apiserver.patch import fieldset
from tests.apiserver.asked import APPLY, JSON, MERGE, YAML, Asked, Data

MAPS, NODES, PODS = "/api/v1/namespaces/default/configmaps", "/api/v1/nodes", "/api/v1/namespaces/default/pods"
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


def names_in_turn(monkeypatch: pytest.MonkeyPatch, *suffixes: str) -> None:
    """Let generated names end in these, one after another."""
    following = iter(suffixes)
    monkeypatch.setattr("moorage.registry.metadata.random.choices", lambda *_, **__: [next(following)])


@pytest.mark.parametrize("body", [b"metadata: {generateName: web-}", b"metadata: {name: web-1}"])
async def test_the_body_of_an_object_whose_name_is_taken_is_read_once(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    names_in_turn(monkeypatch, "1", "1", "1", "2")
    assert (await ask("POST", MAPS, b"metadata: {generateName: web-}", YAML)).status == 201
    bodies_read = 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal bodies_read
        bodies_read += 1
        return parse(*args, **options)

    monkeypatch.setattr("moorage.apiserver.request.bodies.parse", counted)
    code, answer = await ask.told("POST", MAPS, body, YAML)
    if b"generateName" in body:
        assert (code, answer["metadata"]["name"]) == (201, "web-2")
    else:
        assert (code, answer["message"]) == (409, 'configmaps "web-1" already exists')
    assert bodies_read == 1


async def test_pods_of_one_template_get_other_names_when_theirs_are_taken(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_in_turn(monkeypatch, *"abbccd", *"d" * 20)
    pod = {"metadata": {"generateName": "web-"}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    names = [(await ask.told("POST", PODS, pod))[1]["metadata"].get("name") for _ in range(3)]
    assert names == ["web-b", "web-c", "web-d"]
    code, answer = await ask.told("POST", PODS, pod)
    assert (code, answer["message"]) == (409, 'pods "web-d" already exists')


def deployment(*tolerations: Data) -> Data:
    labels = {"app": "web"}
    pod = {"containers": [{"name": "main", "image": "pause:3.10"}], "tolerations": [*tolerations]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


@pytest.mark.parametrize(
    ("toleration", "field"),
    [
        ({"key": "a", "operator": "Foo"}, "operator"),
        ({}, "operator"),
        ({"key": "a", "operator": "Gt", "value": "0950"}, "value"),
        ({"expression": "taint.nothing == 1"}, "expression"),
    ],
)
async def test_a_workload_is_refused_for_the_tolerations_of_its_template(
    ask: Asked, toleration: Data, field: str
) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    code, status = await ask.told("POST", path, deployment(toleration))
    causes = [cause["field"] for cause in status["details"]["causes"]]
    assert (code, causes) == (422, [f"spec.template.spec.tolerations[0].{field}"])
    assert (await ask("POST", path, deployment({"key": "a", "operator": "Exists"}))).status == 201
    code, status = await ask.told("PUT", f"{path}/web", deployment(toleration))
    assert (code, [cause["field"] for cause in status["details"]["causes"]]) == (422, causes)


@pytest.mark.parametrize(("method", "media_type"), [("POST", JSON), ("PUT", JSON), ("PATCH", MERGE), ("PATCH", APPLY)])
async def test_unknown_fields_are_dropped_and_warned_of(ask: Asked, method: str, media_type: str) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    sent = deployment({"key": "a", "operator": "Exists", "odd": 1})
    sent["odd"], sent["spec"]["odd"] = {"a": [1]}, "x"
    if method == "POST":
        code, stored = await ask.told(method, path, sent)
    else:
        await ask("POST", path, deployment())
        target = f"{path}/web?fieldManager=me&force=true" if media_type == APPLY else f"{path}/web"
        code, stored = await ask.told(method, target, sent, media_type)
    assert code in (200, 201), stored
    assert "odd" not in str(stored)
    strict = f"{path}/web" if method != "POST" else path
    query = "?fieldValidation=Strict" + ("&fieldManager=me&force=true" if media_type == APPLY else "")
    sent["spec"]["odd"] = "y"
    code, status = await ask.told(method, strict + query, sent, media_type)
    assert code == (422 if method == "PATCH" and media_type != APPLY else 400)
    assert 'unknown field "spec.odd"' in status["message"].replace("\\", "")
