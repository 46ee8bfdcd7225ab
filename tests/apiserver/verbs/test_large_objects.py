"""Objects that are too large are refused at once, and those that are merely large keep nobody else waiting."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from moorage.apiserver.base.offload import MAX_VALUES, holds_more
from moorage.apiserver.http.messages import warning_headers
from moorage.apiserver.verbs.admission import Admission
from moorage.cel.env import Env
from moorage.cel.program import Program
from tests.apiserver.asked import APPLY, JSON, JSON_PATCH, MERGE, PROTOBUF, YAML, Asked, Data
from tests.apiserver.request.wire_bytes import body, field

PODS, MAPS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"


def pod(count: int, **spec: Any) -> Data:
    containers = [{"name": "app", "image": "myapp"}] + [{}] * count
    return {"metadata": {"name": "large"}, "spec": {"containers": containers, **spec}}


def config_map(count: int, name: str = "large") -> Data:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {f"k{index}": "v" for index in range(count)},
    }


def yaml(count: int) -> bytes:
    lines = [f"  k{index}: v" for index in range(count)]
    return "\n".join(["apiVersion: v1", "kind: ConfigMap", "metadata: {name: large}", "data:", *lines]).encode()


@pytest.mark.parametrize(
    ("method", "path", "sent", "content_type"),
    [
        ("POST", PODS, pod(MAX_VALUES), JSON),
        ("POST", PODS, pod(1, tolerations=[{}] * MAX_VALUES), JSON),
        ("POST", MAPS, yaml(MAX_VALUES), YAML),
        ("PATCH", f"{MAPS}/large?fieldManager=me", yaml(MAX_VALUES), APPLY),
        ("POST", PODS, body("v1", "Pod", field(2, b"\x12\x00" * MAX_VALUES)), PROTOBUF),
        ("POST", PODS, body("v1", "Pod", field(1, b"\x72\x00" * 500_000)), PROTOBUF),
        ("POST", PODS, body("v1", "Pod", b"\xf8\x07\x00" * 500_000), PROTOBUF),
        ("POST", PODS, body("v1", "Pod", field(1, field(8, b"\x08\x01" * 500_000))), PROTOBUF),
        ("DELETE", f"{MAPS}/large", {"dryRun": ["All"] * MAX_VALUES}, JSON),
        ("POST", f"{PODS}/large/binding", {"metadata": {"name": "x" * (1 << 20)}}, JSON),
    ],
)
async def test_more_than_anybody_would_write_is_refused(
    ask: Asked, method: str, path: str, sent: Any, content_type: str
) -> None:
    answer = await ask(method, path, sent, content_type)
    assert answer.status == 413
    assert b"Request entity too large: limit is" in answer.body


async def test_a_patch_cannot_make_an_object_too_large(ask: Asked) -> None:
    assert (await ask("POST", MAPS, config_map(MAX_VALUES - 100))).status == 201
    more = {"data": {f"more{index}": "v" for index in range(200)}}
    assert (await ask("PATCH", f"{MAPS}/large", more, MERGE)).status == 413
    assert (await ask("PATCH", f"{MAPS}/large", {"data": {"more": "v"}}, MERGE)).status == 200
    add = [{"op": "add", "path": f"/data/more{index}", "value": "v"} for index in range(200)]
    assert (await ask("PATCH", f"{MAPS}/large", add, JSON_PATCH)).status == 413


async def test_no_object_becomes_larger_than_etcd_takes(ask: Asked) -> None:
    def sent(size: int) -> Data:
        container = {"name": "app", "image": "myapp", "env": [{"name": "x", "value": "y" * size}]}
        return {"metadata": {"name": "long"}, "spec": {"containers": [container]}}

    answer = await ask("POST", PODS, sent(1_500_000))
    assert (answer.status, b"limit is 1500000" in answer.body) == (413, True)
    assert (await ask("POST", PODS, sent(1_400_000))).status == 201
    note = {"metadata": {"annotations": {"note": "z" * 200_000}}}
    assert (await ask("PATCH", f"{PODS}/long", note, MERGE)).status == 413


async def test_protobuf_may_hold_as_many_values_as_json(ask: Asked) -> None:
    entries = [field(2, field(1, f"k{index}") + field(2, "v")) for index in range(MAX_VALUES - 100)]
    sent = body("v1", "ConfigMap", field(1, field(1, "large")), *entries)
    assert (await ask("POST", MAPS, sent, PROTOBUF)).status == 201


async def test_what_was_taken_can_be_given_back(ask: Asked) -> None:
    made = await ask("POST", MAPS, config_map(MAX_VALUES - 100))
    assert (await ask("PUT", f"{MAPS}/large", made.body)).status == 200


@pytest.mark.parametrize(
    ("method", "path", "sent", "content_type", "code"),
    [
        ("POST", PODS, pod(20_000), JSON, 422),
        ("POST", PODS, pod(0, tolerations=[{}] * 20_000), JSON, 422),
        ("POST", PODS, body("v1", "Pod", field(1, b"\x42\x00" * 300_000)), PROTOBUF, 413),
        ("POST", MAPS, yaml(20_000), YAML, 201),
        ("PATCH", f"{MAPS}/large?fieldManager=me", yaml(20_000), APPLY, 201),
    ],
)
async def test_who_sends_a_large_object_waits_for_it_alone(
    ask: Asked, method: str, path: str, sent: Any, content_type: str, code: int
) -> None:
    large = asyncio.create_task(ask(method, path, sent, content_type))
    answered = 0
    while not large.done():
        assert (await ask("GET", "/api/v1/namespaces/default")).status == 200
        await asyncio.sleep(0)
        answered += not large.done()
    assert (await large).status == code
    assert answered > 5


async def test_of_many_errors_the_first_are_told(ask: Asked) -> None:
    told = msgspec.json.decode((await ask("POST", PODS, pod(2_000))).body)
    assert len(told["details"]["causes"]) == 500
    assert told["message"].endswith(", and 5499 more]")


@pytest.mark.parametrize("count", [3, 300])
def test_no_answer_has_more_warnings_than_clients_read(count: int) -> None:
    told = warning_headers([f'unknown field "spec.field{index}"' for index in range(count)] * 2)
    assert len(told) == min(count, 50)
    assert told[0] == ("Warning", '299 - "unknown field \\"spec.field0\\""')
    assert sum(len(value) for _, value in warning_headers(["x" * 5_000, "y" * 300, "é"])) < 700


def test_values_are_counted_wherever_they_are() -> None:
    data = {"a": [1, 2, {"b": None}], "c": "text"}
    assert holds_more(data, 6)
    assert not holds_more(data, 7)


@pytest.mark.parametrize("length", [100, 3000])
async def test_what_takes_long_to_compile_is_judged_in_a_thread(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    threads: list[bool] = []
    compile_ = Env.compile

    def compiled(self: Env, text: str, *, lenient: bool = False) -> Program:
        threads.append(threading.current_thread() is threading.main_thread())
        return compile_(self, text, lenient=lenient)

    monkeypatch.setattr(Env, "compile", compiled)
    unique = f"{length} > 0 && '{'a' * length}' != "
    selectors = [{"cel": {"expression": f"{unique}'{number}'"}} for number in range(10)]
    exactly = {"deviceClassName": "gpu", "selectors": selectors}
    claim = {"metadata": {"name": "x"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    assert (await ask("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim)).status == 201
    assert (len(threads), threads.count(True) <= 2, any(threads)) == (10, length > 100, True)


async def test_few_requests_have_a_very_large_object_in_hand_and_all_get_their_turn(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await ask("POST", MAPS, config_map(20_000))).status == 201
    in_hand: list[int] = []
    held = 0
    judge = Admission.judge

    async def counting(*args: Any, **how: Any) -> Any:
        nonlocal held
        held += 1
        in_hand.append(held)
        try:
            return await judge(*args, **how)
        finally:
            held -= 1

    monkeypatch.setattr(Admission, "judge", counting)
    patches = [ask("PATCH", f"{MAPS}/large", {"data": {f"k{number}": "w"}}, MERGE) for number in range(20)]
    assert {answer.status for answer in await asyncio.gather(*patches)} == {200}
    assert max(in_hand) <= 2
    assert len(in_hand) < 60
