"""What the examples of docs/extend.md add. tests/test_extend.py runs this on a copy of the source that has them."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import moorage
from moorage.api import kinds
from moorage.api.pod import Pod, PodSpec, Toleration
from moorage.apiserver.http.messages import Request
from moorage.client import ApiError, Client, Forbidden, Invalid, Missing
from moorage.controlplane import ControlPlane, Settings
from moorage.features import ALL_ON
from moorage.match import explain, tolerates
from moorage.validation import admission_errors
from tests.apiserver.describe.test_openapi import content
from tests.plane import create, eventually
from tests.test_extend import PAGE
from tests.tools import test_lint
from tests.tools.test_lint import test_every_rule_has_a_page_whose_examples_are_true as check_page

COPY = Path(os.environ["EXTENDED"])
BACKUPS = "/apis/fleet.example.com/v1/namespaces/default/backups"
Data = dict[str, Any]
(MANIFEST,) = re.findall(r"^```yaml\n(apiVersion: fleet.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
(TABLE,) = re.findall(r"^```text\n(NAME .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
BACKUP = kinds.row("fleet.example.com/v1", "Backup")
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "db"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    plane = await ControlPlane.start(Settings(tmp_path, port=0, nodes=0))
    yield plane
    await plane.stop()


def backup(name: str = "nightly", **spec: Any) -> Data:
    manifest = yaml.safe_load(MANIFEST)
    return {**manifest, "metadata": {"name": name}, "spec": {**manifest["spec"], **spec}}


async def asked(plane: ControlPlane, path: str, accept: str = "application/json") -> Data:
    response = await plane.server.transport("test").respond(Request.of("GET", path, [("Accept", accept)]))
    assert response.status == 200
    whole = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    answer: Data = msgspec.json.decode(whole)
    return answer


async def phase(client: Client) -> str:
    found: str = msgspec.json.decode(await client.get(BACKUP, "default", "nightly")).get("status", {}).get("phase", "")
    return found


def test_the_copy_is_what_is_tested() -> None:
    assert Path(moorage.__file__).is_relative_to(COPY)


async def test_the_kind_is_served(plane: ControlPlane) -> None:
    client = plane.server.client("test")
    resources = (await asked(plane, "/apis/fleet.example.com/v1"))["resources"]
    assert [each["name"] for each in resources] == ["backups", "backups/status"]
    created = await create(client, backup(unknown=1))
    assert created["spec"] == {"claimName": "db", "mode": "Snapshot", "keep": 7}
    assert created["metadata"]["generation"] == 1
    for wrong, words in (
        ({"claimName": ""}, "spec.claimName: Required value"),
        ({"mode": "Tape"}, 'spec.mode: Unsupported value: "Tape": supported values: "Copy", "Snapshot"'),
        ({"keep": -1}, "spec.keep: Invalid value: -1: must be greater than or equal to 0"),
        ({"keep": "7"}, "json: cannot unmarshal string into Go struct field BackupSpec.spec.keep of type int32"),
    ):
        with pytest.raises(ApiError, match=re.escape(words)):
            await create(client, backup("other", **wrong))
    with pytest.raises(Invalid, match=r"spec.claimName: Invalid value: \"web\": field is immutable"):
        await client.patch(BACKUP, "default", "nightly", {"spec": {"claimName": "web"}})


async def test_the_kind_is_selected_and_printed(plane: ControlPlane) -> None:
    client = plane.server.client("test")
    await create(client, backup())
    await create(client, backup("web", claimName="web"))
    await eventually(lambda: phase(client))
    (found,) = (await client.list(BACKUP, "default", fields="spec.claimName=db")).items
    assert msgspec.json.decode(found)["metadata"]["name"] == "nightly"
    table = await asked(
        plane, f"{BACKUPS}?fieldSelector=spec.claimName%3Ddb", "application/json;as=Table;v=v1;g=meta.k8s.io"
    )
    titles, cells = (line.split() for line in TABLE.splitlines())
    assert [each["name"].upper() for each in table["columnDefinitions"]] == titles
    assert [row["cells"][:-1] for row in table["rows"]] == [cells[:-1]]


def test_the_kind_is_explained() -> None:
    schemas = content("/openapi/v3/apis/fleet.example.com/v1")["components"]["schemas"]
    assert schemas["io.k8s.api.fleet.v1.Backup"]["description"] == "Copies of the data of a PersistentVolumeClaim."
    assert schemas["io.k8s.api.fleet.v1.BackupSpec"]["properties"]["keep"] == {"type": "integer", "format": "int32"}


async def test_the_kind_is_counted_by_quotas(plane: ControlPlane) -> None:
    client, count = plane.server.client("test"), f"count/{BACKUP.resource}"
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {count: "1"}}}
    await create(client, quota)

    async def measured() -> bool:
        found = msgspec.json.decode(await client.get(kinds.row("v1", "ResourceQuota"), "default", "few"))
        return count in found.get("status", {}).get("used", {})

    await eventually(measured)
    await create(client, backup())
    with pytest.raises(Forbidden, match=f"exceeded quota: few, requested: {count}=1, used: {count}=1"):
        await create(client, backup("second"))


async def test_the_kind_goes_with_its_namespace(plane: ControlPlane) -> None:
    client, namespace = plane.server.client("test"), kinds.row("v1", "Namespace")
    await create(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    await client.create(BACKUP, backup(), "team")
    await client.delete(namespace, "", "team")

    async def gone() -> bool:
        try:
            await client.get(namespace, "", "team")
        except Missing:
            return True
        return False

    await eventually(gone)
    assert not (await client.list(BACKUP)).items


async def test_the_controller_follows_the_claim(plane: ControlPlane) -> None:
    client, claim = plane.server.client("test"), kinds.row("v1", "PersistentVolumeClaim")
    await create(client, backup())

    async def is_waiting() -> bool:
        return await phase(client) == "Waiting"

    async def is_ready() -> bool:
        return await phase(client) == "Ready"

    await eventually(is_waiting)
    await create(client, CLAIM)
    await client.patch(claim, "default", "db", {"status": {"phase": "Bound"}}, subresource="status")
    await eventually(is_ready)


def test_the_operator_matches_and_is_explained() -> None:
    toleration = {"key": "sla", "operator": "Gte", "value": "950"}
    taints = [{"key": "sla", "value": value, "effect": "NoSchedule"} for value in ("949", "950")]
    assert [bool(tolerates(toleration, taint)) for taint in taints] == [False, True]
    pod = {"kind": "Pod", "apiVersion": "v1", "spec": {"tolerations": [toleration]}}
    node = {"kind": "Node", "apiVersion": "v1", "spec": {"taints": taints[:1]}}
    assert explain(pod, node) == ["taint sla=949:NoSchedule: 949 is less than 950 (`Gte 950`)"]


@pytest.mark.parametrize(
    ("value", "words"), [("950", []), ("0950", ["must be a valid decimal integer in canonical form"])]
)
def test_the_operator_is_admitted(value: str, words: list[str]) -> None:
    toleration = Toleration(key="sla", operator="Gte", value=value, effect="NoSchedule")
    errors = admission_errors(Pod(spec=PodSpec(tolerations=(toleration,))), ALL_ON)
    assert [error.detail for error in errors] == words


def test_the_rule_finds_what_its_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_lint, "PAGES", COPY / "docs" / "lint")
    check_page("long-stay", tmp_path)
