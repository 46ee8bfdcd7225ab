"""The scale of a workload, read and written in every way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.apiserver.http.messages import Request
from moorage.apiserver.patch import fieldset
from tests.apiserver.asked import APPLY, JSON_PATCH, MERGE, Asked, Data
from tests.plane import api_server

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WEB = f"{DEPLOYMENTS}/web"


async def deployed(ask: Asked, replicas: int = 1) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    code, _ = await ask.told("POST", f"{DEPLOYMENTS}?fieldManager=author", made)
    assert code == 201


def scale(**fields: Any) -> Data:
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, **fields}


async def applied(ask: Asked, sent: Data, manager: str = "me", more: str = "") -> tuple[int, Data]:
    return await ask.told("PATCH", f"{WEB}/scale?fieldManager={manager}{more}", sent, APPLY)


async def owners(ask: Asked) -> dict[str, str]:
    """Who owns the replicas, and how."""
    _, workload = await ask.told("GET", WEB)
    return {
        entry["manager"]: f"{entry['operation']} {entry['apiVersion']} {entry.get('subresource', '')}".strip()
        for entry in workload["metadata"]["managedFields"]
        if ".spec.replicas" in fieldset.paths(entry["fieldsV1"])
    }


async def replicas(ask: Asked) -> int:
    _, workload = await ask.told("GET", WEB)
    count: int = workload["spec"]["replicas"]
    return count


async def test_a_scale_is_applied_against_the_will_of_others_only_by_force(ask: Asked) -> None:
    await deployed(ask)
    code, told = await applied(ask, scale(spec={"replicas": 3}))
    assert (code, told["reason"]) == (409, "Conflict")
    why = 'conflict with "author" using autoscaling/v1'
    assert told["message"] == f"Apply failed with 1 conflict: {why}: .spec.replicas"
    assert told["details"]["causes"] == [{"reason": "FieldManagerConflict", "message": why, "field": ".spec.replicas"}]
    code, told = await applied(ask, scale(spec={"replicas": 3}), more="&force=true")
    assert (code, told["kind"], told["spec"]) == (200, "Scale", {"replicas": 3})
    assert await owners(ask) == {"me": "Apply apps/v1 scale"}
    code, told = await applied(ask, scale(spec={"replicas": 4}))
    assert (code, await replicas(ask)) == (200, 4)


async def test_the_same_wish_is_shared(ask: Asked) -> None:
    await deployed(ask, 2)
    assert (await applied(ask, scale(spec={"replicas": 2})))[0] == 200
    assert await owners(ask) == {"author": "Update apps/v1", "me": "Apply apps/v1 scale"}


async def test_who_no_longer_says_how_many_wants_none(ask: Asked) -> None:
    await deployed(ask)
    assert (await applied(ask, scale(), "other"))[1]["spec"] == {"replicas": 1}
    await applied(ask, scale(spec={"replicas": 3}), more="&force=true")
    assert (await applied(ask, scale()))[1]["spec"] == {"replicas": 0}


@pytest.mark.parametrize(
    ("sent", "query", "code", "words"),
    [
        (scale(spec={"replicas": 1}), "", 400, "fieldManager: Required value"),
        (scale(spec={"replicas": -1}), "?fieldManager=me", 422, "must be greater than or equal to 0"),
        (scale(spec={"replicas": "1"}), "?fieldManager=me", 400, "spec.replicas"),
        (scale(kind="Deployment"), "?fieldManager=me", 400, "invalid object type: autoscaling/v1, Kind=Deployment"),
        (scale(metadata={"managedFields": []}), "?fieldManager=me", 400, "managedFields must be nil"),
        (scale(metadata={"name": "other"}), "?fieldManager=me", 400, "does not match the name on the URL (web)"),
        (scale(metadata={"resourceVersion": "1"}), "?fieldManager=me", 409, "has been modified"),
        ([], "?fieldManager=me", 400, "the body must be a Scale"),
        (b"{" * 200_000, "?fieldManager=me", 413, "too large"),
    ],
)
async def test_nonsense_is_not_applied(ask: Asked, sent: Any, query: str, code: int, words: str) -> None:
    await deployed(ask)
    found, told = await ask.told("PATCH", f"{WEB}/scale{query}", sent, APPLY)
    assert (found, words in told["message"]) == (code, True), told["message"]


async def test_who_updates_a_scale_owns_it_as_a_scale(ask: Asked) -> None:
    await deployed(ask)
    assert (await ask("PUT", f"{WEB}/scale?fieldManager=hpa", scale(spec={"replicas": 2}))).status == 200
    assert await owners(ask) == {"hpa": "Update apps/v1 scale"}
    assert (await ask("PATCH", f"{WEB}/scale?fieldManager=ops", {"spec": {"replicas": 3}}, MERGE)).status == 200
    assert await owners(ask) == {"ops": "Update apps/v1 scale"}


async def test_patches_at_the_same_time_do_not_miss_each_other(ask: Asked) -> None:
    await deployed(ask, 0)

    async def add_one() -> None:
        while True:
            now = await replicas(ask)
            step = [
                {"op": "test", "path": "/spec/replicas", "value": now},
                {"op": "replace", "path": "/spec/replicas", "value": now + 1},
            ]
            if (await ask("PATCH", f"{WEB}/scale", step, JSON_PATCH)).status == 200:
                return

    await asyncio.gather(*(add_one() for _ in range(8)))
    assert await replicas(ask) == 8


@pytest.mark.parametrize(("method", "content_type"), [("GET", ""), ("PATCH", MERGE), ("PATCH", APPLY)])
async def test_a_scale_is_printed_with_its_replicas(tmp_path: Path, method: str, content_type: str) -> None:
    async with api_server(tmp_path) as server:
        await deployed(Asked(server.transport("tests")), 3)
        headers = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"), ("Content-Type", content_type)]
        sent = b"" if method == "GET" else msgspec.json.encode(scale(spec={"replicas": 3}))
        request = Request.of(method, f"{WEB}/scale?fieldManager=me", headers, sent)
        answer = await server.transport("tests").respond(request)
    assert isinstance(answer.body, bytes)
    table = msgspec.json.decode(answer.body)
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"][:3] == ["web", 3, 0]


async def test_a_scale_that_has_changed_since_it_was_read_is_not_replaced(ask: Asked) -> None:
    await deployed(ask)
    _, read = await ask.told("GET", f"{WEB}/scale")
    assert (await ask("PUT", f"{WEB}/scale", {**read, "spec": {"replicas": 2}})).status == 200
    assert (await ask("PUT", f"{WEB}/scale", {**read, "spec": {"replicas": 3}})).status == 409
    stale = {"metadata": {"resourceVersion": read["metadata"]["resourceVersion"]}, "spec": {"replicas": 3}}
    assert (await ask("PATCH", f"{WEB}/scale", stale, MERGE)).status == 409


async def test_the_scale_of_a_replication_controller_names_its_labels(ask: Asked) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    controllers = "/api/v1/namespaces/default/replicationcontrollers"
    made = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"}}
    assert (await ask.told("POST", controllers, {**made, "spec": {"template": template}}))[0] == 201
    _, told = await ask.told("PUT", f"{controllers}/web/scale", scale(spec={"replicas": 3}))
    assert (told["spec"], told["status"]["selector"]) == ({"replicas": 3}, "app=web")
