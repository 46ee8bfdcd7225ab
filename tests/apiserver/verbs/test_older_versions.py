"""Devices and claims in the older versions of resource.k8s.io: written, read, watched and applied in one of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moorage.api.resourceversions import OLDER_VERSIONS
from tests.apiserver.asked import APPLY, JSON_PATCH, MERGE, Asked

NESTED = [version for version in OLDER_VERSIONS if version != "v1beta2"]


def slice_of(version: str, **taint: str) -> dict[str, Any]:
    taints = [{"key": "sla", "value": "8", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z", **taint}]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.io", "nodeName": "n", "pool": pool, "devices": [{"name": "a", "basic": {"taints": taints}}]}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": spec,
    }


def path(version: str, name: str = "/s") -> str:
    return f"/apis/resource.k8s.io/{version}/resourceslices{name}"


@pytest.mark.parametrize("version", NESTED)
async def test_every_answer_under_an_older_path_is_in_that_version(ask: Asked, version: str) -> None:
    made = slice_of(version)
    wanted = made["apiVersion"], made["spec"]["devices"]
    for query, code in (("?dryRun=All", 201), ("", 201)):
        status, told = await ask.told("POST", path(version, "") + query, made)
        assert (status, told["apiVersion"], told["spec"]["devices"]) == (code, *wanted)
    read = [(await ask.told("GET", path(version)))[1]]
    status, listed = await ask.told("GET", path(version, ""))
    assert listed["apiVersion"] == made["apiVersion"]
    async with ask.transport.stream(path(version, "?watch=true")) as lines:
        read += [*listed["items"], msgspec.json.decode((await anext(lines)).splitlines()[0])["object"]]
    read.append((await ask.told("PUT", path(version), read[0]))[1])
    for told in read:
        assert (told["apiVersion"], told["spec"]["devices"]) == wanted
    status, stored = await ask.told("GET", path("v1"))
    assert (stored["apiVersion"], "basic" in stored["spec"]["devices"][0]) == ("resource.k8s.io/v1", False)


@pytest.mark.parametrize("version", NESTED)
async def test_a_patch_changes_what_its_version_shows(ask: Asked, version: str) -> None:
    await ask.told("POST", path(version, ""), slice_of(version))
    taints = "/spec/devices/0/basic/taints/0/"
    operations = [{"op": "replace", "path": f"{taints}value", "value": "9"}]
    status, told = await ask.told("PATCH", path(version, "/s?fieldValidation=Strict"), operations, JSON_PATCH)
    assert (status, told["spec"]["devices"][0]["basic"]["taints"][0]["value"]) == (200, "9")
    merge = {"spec": {"devices": slice_of(version, value="10")["spec"]["devices"]}}
    status, told = await ask.told("PATCH", path(version, "/s?fieldValidation=Strict"), merge, MERGE)
    assert (status, told["spec"]["devices"][0]["basic"]["taints"][0]["value"]) == (200, "10")
    apply = path(version, "/s?fieldManager=me&force=true")
    status, told = await ask.told("PATCH", apply, slice_of(version, value="11"), APPLY)
    assert (status, told["spec"]["devices"][0]["basic"]["taints"][0]["value"]) == (200, "11")
    status, told = await ask.told("PATCH", path(version), {"apiVersion": "resource.k8s.io/v9"}, MERGE)
    assert (status, "do not match ResourceSlice" in told["message"]) == (400, True)
    merge = {"spec": {"devices": [{"name": "a", "basic": {"oops": 1}}]}}
    status, told = await ask.told("PATCH", path(version, "/s?fieldValidation=Strict"), merge, MERGE)
    assert (status, 'unknown field "spec.devices[0].oops"' in told["message"]) == (422, True)
