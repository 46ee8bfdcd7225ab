"""Objects that are far too large, of a wrong shape or nested too deeply do not occupy the admission webhook."""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import Any, cast

import msgspec
import pytest

from moorage.apiserver.base.flows import flow_of
from moorage.apiserver.http.messages import Request
from moorage.tools.attach.webhook import server
from moorage.tools.attach.webhook.review import ReviewError, mutate, validate
from moorage.tools.attach.webhook.rewriting import WebhookSettings
from tests.plane import Data, pod
from tests.tools.test_webhook import HERE, VERSIONS, WILD


@pytest.mark.parametrize("what", ["tolerations", "affinity"])
def test_rules_that_are_far_too_long_are_refused_before_they_are_written(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage.tools.convert.write", lambda _: pytest.fail("writing takes long"))
    terms = [{"matchExpressions": [{**VERSIONS, "key": f"k{number}"} for number in range(2_000)]}]
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    many = [{**WILD, "key": f"k{number}/*"} for number in range(2_000)]
    made = pod("a", **({"tolerations": many} if what == "tolerations" else {"affinity": required}))
    answer = msgspec.json.decode(mutate(msgspec.json.encode({"request": {"uid": "u", "object": made}}), HERE))
    assert answer["response"]["allowed"] is False
    assert "longer than 32768 characters" in answer["response"]["status"]["message"]


@pytest.mark.parametrize(
    "changed",
    [{"metadata": "x"}, {"metadata": {"annotations": "x"}}, {"spec": "x"}, {"spec": {"affinity": [1]}},
     {"spec": {"tolerations": [1]}}],
)  # fmt: skip
def test_an_object_of_a_wrong_shape_is_refused_with_a_sentence(changed: Data) -> None:
    body = msgspec.json.encode({"request": {"uid": "u", "object": {**pod("a"), **changed}}})
    answer = msgspec.json.decode(mutate(body, HERE))
    assert answer["response"]["status"]["code"] == 422
    with pytest.raises(ReviewError, match="expected"):
        validate(body, HERE)


def test_an_object_that_is_nested_too_deeply_is_no_review() -> None:
    deep: Data = {}
    for _ in range(900):
        deep = {"a": deep}
    with pytest.raises(ReviewError, match="nested too deeply"):
        mutate(msgspec.json.encode({"request": {"uid": "u", "object": {**pod("a"), "x": deep}}}), HERE)


def test_a_review_of_very_many_values_is_refused_before_it_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage.tools.attach.webhook.rewriting.deepcopy", lambda _: pytest.fail("copying takes long"))
    body = msgspec.json.encode({"request": {"uid": "u", "object": {**pod("a"), "x": [{}] * 600_000}}})
    for work in (mutate, validate):
        with pytest.raises(ReviewError, match="more than 500,000 values"):
            work(body, HERE)


async def test_of_very_large_reviews_few_are_worked_on_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, most, counting = 0, 0, Lock()

    def counted(body: bytes, settings: WebhookSettings) -> bytes:
        nonlocal now, most
        with counting:
            now += 1
            most = max(most, now)
        try:
            return mutate(body, settings)
        finally:
            with counting:
                now -= 1

    monkeypatch.setattr(server, "mutate", counted)
    body = msgspec.json.encode({"request": {"uid": "u", "object": {**pod("a"), "x": [{}] * 150_000}}})
    asked = [Request.of("POST", "/mutate", body=body) for _ in range(8)]
    namespaces = cast(Any, None)
    answers = await asyncio.gather(*(server.answer_review(each, HERE, namespaces) for each in asked))
    assert [answer.status for answer in answers] == [200] * 8
    assert most <= 2


def test_whoever_reaches_the_service_takes_no_share_from_the_api_server() -> None:
    api_server, other = Request("POST", "/mutate", address="10.0.0.1"), Request("POST", "/mutate", address="10.0.0.2")
    assert flow_of(server.caller(api_server)) != flow_of(server.caller(other))
