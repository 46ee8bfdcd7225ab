"""Who writes a taint or a label that pods and claims cannot compare is warned, however many come and go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.api import kinds
from moorage.apiserver.http.messages import Request
from moorage.apiserver.local import LocalTransport
from moorage.apiserver.verbs import comparedkeys
from moorage.apiserver.verbs.admission import Admission
from moorage.features import ALL_ON
from moorage.store import open_store
from moorage.store.protocol import Item, Store
from tests.apiserver.asked import MERGE, Asked
from tests.plane import Data

GT = {"key": "sla", "operator": "Gt", "value": "900"}
POD = kinds.row("v1", "Pod")


def node(value: str) -> Data:
    taint = {"key": "sla", "value": value, "effect": "NoSchedule"}
    return {"kind": "Node", "metadata": {}, "spec": {"taints": [taint]}}


class Following:
    """The rules of a server whose store others write to, half a minute after the last question."""

    def __init__(self, store: Store) -> None:
        self.store, self.admission, self.seconds = store, Admission(store, ALL_ON), 0.0
        self.admission.compared.now = lambda: self.seconds

    async def warned(self, value: str) -> list[str]:
        self.seconds += 30
        return [each async for each in self.admission.comparison_warnings(node(value), None)]

    async def put(self, name: str, tolerations: list[Data]) -> Item:
        data = {"metadata": {"resourceVersion": "", "name": name}, "spec": {"tolerations": tolerations}}
        return await self.store.create(f"/registry/core/pods/default/{name}", msgspec.json.encode(data))


@pytest.fixture
async def following(tmp_path: Path) -> AsyncIterator[Following]:
    store = await open_store("sqlite", tmp_path, (None, None, None))
    yield Following(store)
    await store.close()


async def test_the_answer_follows_the_pods(following: Following) -> None:
    assert await following.warned("high") == []
    first = await following.put("first", [GT])
    second = await following.put("second", [GT])
    await following.put("other", [{"key": "sla", "operator": "Exists"}])
    (words,) = await following.warned("high")
    assert words == 'spec.taints[0].value: "high" is not a decimal integer, and pods compare sla with Gt'
    for item, left in ((second, 1), (first, 0)):
        await following.store.delete(item.key, item.revision)
        assert len(await following.warned("high")) == left
    await following.put("third", [GT])
    assert len(await following.warned("high")) == 1
    assert await following.warned("950") == []


async def test_pods_are_looked_at_once(following: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    compares = comparedkeys.compared_by

    def counting(item: Item, kind: Any) -> Any:
        looked.append(item.key)
        return compares(item, kind)

    monkeypatch.setattr(comparedkeys, "compared_by", counting)
    for number in range(20):
        await following.put(f"pod-{number}", [])
    for _ in range(5):
        assert await following.warned("high") == []
    assert len(looked) == 20


async def test_the_store_is_read_once_in_half_a_minute(following: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    lists: list[str] = []
    read = following.store.list

    async def counting(prefix: str, **options: Any) -> Any:
        lists.append(prefix)
        return await read(prefix, **options)

    monkeypatch.setattr(following.store, "list", counting)
    for index in range(100):
        following.seconds += 0.1
        many = {"kind": "Node", "metadata": {"labels": {f"l{place}": f"v{index}" for place in range(20)}}}
        assert [each async for each in following.admission.comparison_warnings(many, None)] == []
    assert len(lists) == 1


async def test_keys_are_bounded(following: Following) -> None:
    tolerations = [{**GT, "key": f"key-{number}"} for number in range(3000)]
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"tolerations": tolerations}}
    following.admission.compared.note(POD, pod)
    await following.store.create("/registry/core/pods/n/p", msgspec.json.encode(pod))
    taints = [{"key": f"key-{number}", "value": "high"} for number in (0, 2999)]
    written = {"kind": "Node", "metadata": {}, "spec": {"taints": taints}}
    assert len([each async for each in following.admission.comparison_warnings(written, None)]) == 1


POD_OF: Data = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
}
DEVICES = "/apis/resource.k8s.io/v1"


def pod(**spec: Any) -> Data:
    return {**POD_OF, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def warnings(ask: Asked, method: str, path: str, sent: Data, content_type: str = "application/json") -> list[str]:
    assert isinstance(ask.transport, LocalTransport)
    request = Request.of(method, path, [("Content-Type", content_type)], msgspec.json.encode(sent))
    response = await ask.transport.respond(request)
    assert response.status < 300, response.body
    return [value for name, value in response.headers if name == "Warning"]


async def test_a_wildcard_key_compares_every_key_that_it_matches(ask: Asked) -> None:
    sla = {"key": "sla.io/*", "operator": "Gt", "value": "900", "effect": "NoSchedule"}
    await ask("POST", "/api/v1/namespaces/default/pods", pod(tolerations=[sla]))
    taint = {"key": "sla.io/uptime", "value": "high", "effect": "NoSchedule"}
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [taint]}}
    (told,) = await warnings(ask, "POST", "/api/v1/nodes", made)
    assert "is not a decimal integer, and pods compare sla.io/uptime with Gt" in told
    assert await warnings(ask, "PATCH", "/api/v1/nodes/n", {"metadata": {"labels": {"a": "b"}}}, MERGE) == []
    made["metadata"] = {"name": "m"}
    made["spec"] = {"taints": [{**taint, "key": "other.io/uptime"}]}
    assert await warnings(ask, "POST", "/api/v1/nodes", made) == []


async def test_a_label_that_pods_compare_by_version_is_to_be_one(ask: Asked) -> None:
    newer = {"matchExpressions": [{"key": "os", "operator": "SemverGt", "values": ["1.2"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [newer]}}
    await ask("POST", "/api/v1/namespaces/default/pods", pod(affinity={"nodeAffinity": required}))
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"os": "jammy", "cpu": "fast"}}}
    (told,) = await warnings(ask, "POST", "/api/v1/nodes", made)
    assert "metadata.labels: " in told
    assert "is not a semantic version, and pods, in node selectors, compare os with SemverGt" in told
    assert await warnings(ask, "PATCH", "/api/v1/nodes/n", {"metadata": {"labels": {"os": "22.4"}}}, MERGE) == []


async def test_the_taints_of_devices_are_held_against_claims(ask: Asked) -> None:
    budget = {"key": "budget", "operator": "Gt", "value": "24", "effect": "NoSchedule"}
    request = {"name": "gpu", "exactly": {"deviceClassName": "c", "tolerations": [budget]}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    await ask("POST", f"{DEVICES}/namespaces/default/resourceclaims", claim)
    taint = {"key": "budget", "value": "much", "effect": "NoSchedule"}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.io", "nodeName": "n", "pool": pool, "devices": [{"name": "a", "taints": [taint]}]}
    (told,) = await warnings(ask, "POST", f"{DEVICES}/resourceslices", {"metadata": {"name": "s"}, "spec": spec})
    assert "spec.devices[0].taints[0].value: " in told
    assert "is not a decimal integer, and resource claims compare budget with Gt" in told
    rule = {"metadata": {"name": "r"}, "spec": {"taint": taint}}
    (told,) = await warnings(ask, "POST", f"{DEVICES}/devicetaintrules", rule)
    assert "spec.taint.value: " in told
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [taint]}}
    assert await warnings(ask, "POST", "/api/v1/nodes", made) == []


async def test_a_pod_that_was_made_from_a_stencil_is_held_against_taints_like_any_other(ask: Asked) -> None:
    pods, sla = "/api/v1/namespaces/default/pods", {**GT, "effect": "NoSchedule"}
    made = node("high") | {"apiVersion": "v1"}

    async def told(name: str) -> list[str]:
        return await warnings(ask, "POST", "/api/v1/nodes", made | {"metadata": {"name": name}})

    async def create(name: str) -> None:
        assert (await ask("POST", pods, pod(tolerations=[sla]) | {"metadata": {"name": name}})).status == 201

    for name in ("first", "second"):
        await create(name)
    assert len(await told("n1")) == 1
    for name in ("first", "second"):
        await ask("DELETE", f"{pods}/{name}?gracePeriodSeconds=0")
    assert await told("n2") == []
    await create("third")
    assert len(await told("n3")) == 1
