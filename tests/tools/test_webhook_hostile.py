"""Objects that are far too large, of a wrong shape or nested too deeply do not occupy the admission webhook."""

from __future__ import annotations

import msgspec
import pytest

from moorage.tools.attach.webhook.review import ReviewError, mutate, validate
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
