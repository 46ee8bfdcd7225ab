"""A data directory from before the rules became stricter: its objects stay, can be changed, and are named once."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moorage.api import kinds
from moorage.apiserver.base.objects import encode, key
from moorage.store import open_store
from tests.apiserver.asked import MERGE, Asked
from tests.plane import api_server, eventually

Data = dict[str, Any]
NONSENSE = [{"key": "a", "operator": "Foo"}, {}]
TOLERATIONS = "spec.template.spec.tolerations"
LABELS = {"app": "web"}
LOGGER = "moorage.apiserver.oldobjects"


def template(**spec: Any) -> Data:
    containers = [{"name": "main", "image": "app:1"}]
    return {"metadata": {"labels": LABELS}, "spec": {"containers": containers, "restartPolicy": "Always", **spec}}


def stored(api_version: str, kind: str, name: str, **spec: Any) -> tuple[str, bytes]:
    """An object as an earlier version had stored it."""
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    data = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    return key(kinds.row(api_version, kind), "default", name), encode(data)


OLD = [
    stored("apps/v1", "Deployment", "web", replicas=1, selector={"matchLabels": LABELS},
           template=template(tolerations=NONSENSE), strategy={"type": "Recreate"}),
    stored("apps/v1", "Deployment", "fine", replicas=1, selector={"matchLabels": LABELS}, template=template(),
           strategy={"type": "Recreate"}),
    stored("batch/v1", "CronJob", "nightly", schedule="0 0 * * *", concurrencyPolicy="Allow", jobTemplate={
        "spec": {"template": template(restartPolicy="Never", tolerations=[{"expression": "taint.size > 3"}])}}),
]  # fmt: skip


@asynccontextmanager
async def old_directory(path: Path) -> AsyncIterator[Asked]:
    """A server on a directory in which an earlier version had stored objects."""
    store = await open_store("sqlite", path)
    for where, value in OLD:
        if not await store.get(where):
            await store.create(where, value)
    await store.close()
    async with api_server(path) as server:
        yield Asked(server.transport("tests"))


async def test_objects_that_would_be_refused_today_are_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, LOGGER)

    async def named() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == LOGGER]

    async with old_directory(tmp_path):
        first, web, nightly = await eventually(named)
    assert first.startswith('"Stored objects would be refused today. They stay and can be changed elsewhere; ')
    assert first.endswith(" count=2")
    assert web.startswith(
        '"Stored object would be refused today" kind="Deployment" object="default/web" '
        'err="spec.template.spec.tolerations[0].operator: Unsupported value: \\"Foo\\"'
    )
    assert "spec.template.spec.tolerations[1].operator" in web
    assert nightly.startswith(
        '"Stored object would be refused today" kind="CronJob" object="default/nightly" '
        'err="spec.jobTemplate.spec.template.spec.tolerations[0].expression:'
    )
    caplog.clear()
    async with old_directory(tmp_path) as ask:
        assert (await ask("GET", "/apis/apps/v1/namespaces/default/deployments")).status == 200
    assert await named() == []


async def test_such_an_object_can_be_changed_where_it_is_not_at_fault(tmp_path: Path) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    async with old_directory(tmp_path) as ask:
        code, scaled = await ask.told("PATCH", path, {"spec": {"replicas": 3}}, MERGE)
        assert (code, scaled["spec"]["replicas"]) == (200, 3)
        code, read = await ask.told("GET", path)
        read["metadata"]["labels"] = {"team": "a"}
        assert (await ask("PUT", path, read)).status == 200
        image = [{"name": "main", "image": "app:2"}]
        assert (await ask("PATCH", path, {"spec": {"template": {"spec": {"containers": image}}}}, MERGE)).status == 200
        worse = [*NONSENSE, {"key": "b", "operator": "Bar"}]
        code, refused = await ask.told("PATCH", path, {"spec": {"template": {"spec": {"tolerations": worse}}}}, MERGE)
        assert code == 422
        assert [cause["field"] for cause in refused["details"]["causes"]] == [
            "spec.template.spec.tolerations[2].operator"
        ]
        mended = {"spec": {"template": {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}}}
        assert (await ask("PATCH", path, mended, MERGE)).status == 200
        code, _ = await ask.told("PATCH", path, {"spec": {"template": {"spec": {"tolerations": NONSENSE}}}}, MERGE)
        assert code == 422
