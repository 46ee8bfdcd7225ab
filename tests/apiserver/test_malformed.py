"""What is malformed is refused with a 4xx or left out, and never an internal error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage.apiserver.patch import fieldset
from moorage.apiserver.patch.fieldset import FieldSet
from moorage.apiserver.patch.managed import MAX_UPDATE_MANAGERS
from tests.apiserver.asked import Asked, Data

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MALFORMED: list[tuple[str, Any, str]] = [
    (TOKEN_REVIEWS, {"token": 1}, "spec.token: expected a string, got an integer: put it in quotes"),
    (TOKEN_REVIEWS, "x", "spec: expected a map, got a string"),
    (TOKEN_REVIEWS, {"audiences": [1]}, "spec.audiences[0]: expected a string, got an integer: put it in quotes"),
    (TOKEN, "x", "spec: expected a map, got a string"),
    (TOKEN, {"audiences": 1}, "spec.audiences: expected a list, got an integer"),
    (TOKEN, {"expirationSeconds": "long"}, "spec.expirationSeconds: expected an integer, got a string"),
]


@pytest.mark.parametrize(("path", "spec", "message"), MALFORMED)
async def test_a_review_or_a_request_of_another_shape_is_refused(
    ask: Asked, path: str, spec: Any, message: str
) -> None:
    status, told = await ask.told("POST", path, {"spec": spec})
    assert (status, told["message"]) == (400, message)


def managed(number: int, fields: Any) -> Data:
    return {
        "manager": f"m{number}", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    }  # fmt: skip


@pytest.mark.parametrize("element", ["k:" + "[" * 5_000, "v:" + "[" * 5_000, 'k:{"a":{"a":1}}', "i:" + "9" * 5_000])
async def test_managed_fields_that_are_none_are_left_out(ask: Asked, element: str) -> None:
    metadata = {"name": "x", "managedFields": [managed(1, {"f:data": {element: {}}})]}
    status, told = await ask.told("POST", CONFIG_MAPS, {"metadata": metadata, "data": {"a": "b"}})
    assert status == 201
    assert "m1" not in {each["manager"] for each in told["metadata"]["managedFields"]}


async def test_thousands_of_managers_are_joined_with_few_comparisons(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    unions, union = [0], fieldset.union

    def counted(left: FieldSet, right: FieldSet) -> FieldSet:
        unions[0] += len(left)
        return union(left, right)

    monkeypatch.setattr(fieldset, "union", counted)
    entries = [managed(number, {f"f:x{number}": {}}) for number in range(3_000)]
    sent = {"metadata": {"name": "x", "managedFields": entries}, "data": {"a": "b"}}
    status, told = await ask.told("POST", CONFIG_MAPS, sent)
    assert status == 201
    assert len(told["metadata"]["managedFields"]) <= MAX_UPDATE_MANAGERS + 1
    assert len(json.dumps(told)) > 3_000
    assert unions[0] < 100_000
