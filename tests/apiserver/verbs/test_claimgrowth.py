"""Claims that ask for more room."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.asked import MERGE, Asked, Data

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


async def claimed(ask: Asked, phase: str = "Bound", class_name: str = "growing") -> None:
    for name, grows in (("growing", True), ("fixed", False)):
        made = {"metadata": {"name": name}, "provisioner": "example.com/p", "allowVolumeExpansion": grows}
        assert (await ask("POST", "/apis/storage.k8s.io/v1/storageclasses", made)).status == 201
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": class_name,
    }
    assert (await ask("POST", CLAIMS, {"metadata": {"name": "c"}, "spec": spec})).status == 201
    status = {"status": {"phase": phase, "capacity": {"storage": "1Gi"}}}
    assert (await ask("PATCH", f"{CLAIMS}/c/status", status, MERGE)).status == 200


def asking(size: Any) -> Data:
    return {"spec": {"resources": {"requests": {"storage": size}}}}


@pytest.mark.parametrize(
    ("phase", "class_name", "size", "code", "words"),
    [
        ("Bound", "growing", "2Gi", 200, ""),
        ("Bound", "growing", "1024Mi", 200, ""),
        ("Bound", "fixed", "2Gi", 403, "the storageclass that provisions the pvc must support resize"),
        ("Bound", "none", "2Gi", 403, "the storageclass that provisions the pvc must support resize"),
        ("Bound", "", "2Gi", 403, "only dynamically provisioned pvc can be resized"),
        ("Pending", "growing", "2Gi", 403, "Only bound persistent volume claims can be expanded"),
        ("Bound", "fixed", "much", 422, "quantities must match"),
    ],
)
async def test_a_claim_grows_only_where_its_class_lets_it(
    ask: Asked, phase: str, class_name: str, size: str, code: int, words: str
) -> None:
    await claimed(ask, phase, class_name)
    found, told = await ask.told("PATCH", f"{CLAIMS}/c", asking(size), MERGE)
    assert (found, words in told.get("message", "")) == (code, True), told


async def test_a_claim_without_a_specification_is_told_so(ask: Asked) -> None:
    await claimed(ask)
    code, told = await ask.told("PATCH", f"{CLAIMS}/c", {"spec": None}, MERGE)
    assert (code, told["reason"]) == (422, "Invalid")
