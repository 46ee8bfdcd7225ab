"""Who taints a node with a value that pods cannot compare is warned, however many pods there are and come and go."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from moorage.apiserver.verbs import admission as module
from moorage.apiserver.verbs.admission import Admission
from moorage.features import ALL_ON
from moorage.store import open_store
from moorage.store.protocol import Item, Store
from tests.plane import Data

GT = {"key": "sla", "operator": "Gt", "value": "900"}


async def warned(admission: Admission, value: str) -> list[str]:
    node: Data = {"kind": "Node", "spec": {"taints": [{"key": "sla", "value": value, "effect": "NoSchedule"}]}}
    return [each async for each in admission.taint_warnings(node, None)]


async def put(store: Store, name: str, tolerations: list[Data]) -> Item:
    data = {"metadata": {"resourceVersion": "", "name": name}, "spec": {"tolerations": tolerations}}
    return await store.create(f"/registry/core/pods/default/{name}", msgspec.json.encode(data))


async def test_the_answer_follows_the_pods(tmp_path: Path) -> None:
    store = await open_store("sqlite", tmp_path, (None, None, None))
    admission = Admission(store, ALL_ON)
    assert await warned(admission, "high") == []
    first = await put(store, "first", [GT])
    second = await put(store, "second", [GT])
    await put(store, "other", [{"key": "sla", "operator": "Exists"}])
    (words,) = await warned(admission, "high")
    assert '"high" is not a decimal integer' in words
    await store.delete(first.key, first.revision)
    assert len(await warned(admission, "high")) == 1, "the second still compares it"
    await store.delete(second.key, second.revision)
    assert await warned(admission, "high") == []
    await put(store, "third", [GT])
    assert len(await warned(admission, "high")) == 1
    assert await warned(admission, "950") == []
    await store.close()


async def test_pods_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    compares = module.compared_by

    def counting(item: Item, taint_key: str) -> str:
        looked.append(item.key)
        return compares(item, taint_key)

    monkeypatch.setattr(module, "compared_by", counting)
    store = await open_store("sqlite", tmp_path, (None, None, None))
    admission = Admission(store, ALL_ON)
    for number in range(20):
        await put(store, f"pod-{number}", [])
    for _ in range(5):
        assert await warned(admission, "high") == []
    assert len(looked) == 20
    await store.close()
