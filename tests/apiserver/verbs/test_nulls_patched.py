"""A patch that sets a field to null removes it, whatever the sort of patch and whether the field was there."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.apiserver.verbs.patch import JSON_PATCH, STRATEGIC_PATCH
from tests.apiserver.asked import Asked

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.mark.parametrize(
    ("media_type", "patch"),
    [
        (JSON_PATCH, [{"op": "add", "path": f"/{name}", "value": None} for name in ("data", "metadata/labels")]),
        (STRATEGIC_PATCH, {"$patch": "replace", "metadata": {"name": "a", "labels": None}, "data": None}),
    ],
)
@pytest.mark.parametrize("there", [False, True])
async def test_null_is_never_stored(ask: Asked, media_type: str, patch: Any, there: bool) -> None:
    made = (
        {"metadata": {"name": "a", "labels": {"a": "b"}}, "data": {"a": "b"}} if there else {"metadata": {"name": "a"}}
    )
    assert (await ask.told("POST", CONFIGMAPS, made))[0] == 201
    code, answer = await ask.told("PATCH", f"{CONFIGMAPS}/a", patch, media_type)
    assert code == 200
    assert "data" not in answer
    assert "labels" not in answer["metadata"]


async def test_an_event_is_refused_without_what_null_has_removed(ask: Asked) -> None:
    event = {
        "metadata": {"name": "a"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/a",
        "reportingInstance": "a", "action": "a", "reason": "a", "type": "Normal",
    }  # fmt: skip
    code, answer = await ask.told("POST", EVENTS, event)
    assert code == 201
    nulls = {**event, "reportingController": None, "regarding": None, "$patch": "replace"}
    code, answer = await ask.told("PATCH", f"{EVENTS}/a", nulls, STRATEGIC_PATCH)
    assert code == 422
    assert "reportingController: Required value" in answer["message"]
