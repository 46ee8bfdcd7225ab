"""What users ask about is cached in a bounded number of bytes."""

from __future__ import annotations

import tracemalloc

import pytest

from moorage.apiserver.access import rbac
from moorage.apiserver.access.rbac import Attributes, Rbac
from moorage.apiserver.base import objects
from moorage.apiserver.base.users import User
from moorage.bounded import SHORT, Bounded, remember_short
from moorage.store.protocol import HEAD, Item


@pytest.fixture
def caches(monkeypatch: pytest.MonkeyPatch) -> list[Bounded[object, object]]:
    made: list[Bounded[object, object]] = []

    class Watched(Bounded[object, object]):
        def __init__(self, most: int, most_bytes: int = 0) -> None:
            super().__init__(most, most_bytes)
            made.append(self)

    monkeypatch.setattr(rbac, "Bounded", Watched)
    return made


def test_reviews_of_120_kb_do_not_stay_in_memory(caches: list[Bounded[object, object]]) -> None:
    asked = Rbac()
    for number in range(3000):
        asked.decide(User("ann"), Attributes("get", "pods", namespace=f"{number:x>120000}"))
        asked.decide(User("ann", (f"{number:x>120000}",)), Attributes("get", path=f"/{number:x>120000}"))
    assert len(caches) == 2
    for cache in caches:
        assert 0 < cache.bytes <= cache.most_bytes <= 32 << 20


def test_decoded_objects_are_kept_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: Bounded[Item, dict[str, object]] = Bounded(100, 100_000)
    monkeypatch.setattr(objects, "_DECODED", kept)
    for number in range(50):
        item = Item(str(number), HEAD + b'","name":"%b"}}' % (b"x" * 5000), number)
        assert objects.decoded(item) is objects.decoded(item)
    assert 90_000 < kept.bytes <= 100_000
    huge = Item("huge", HEAD + b'","name":"%b"}}' % (b"x" * 50_000), 1)
    assert objects.decoded(huge) == objects.decoded(huge)
    assert huge not in kept


@pytest.mark.parametrize("value", [b'{"a":{"b":{}}}', b"{}", b"[1000,2]", b'"text"'])
def test_decoded_objects_count_with_what_their_data_take(value: bytes) -> None:
    text = HEAD + b'"},"data":[%b]}' % b",".join([value] * 1000)
    tracemalloc.start()
    try:
        data = objects.decode(Item("many", text, 1))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(data["data"]) == 1000
    assert taken <= objects.size_decoded(text) <= 5 * taken


def test_only_remember_short_are_kept() -> None:
    asked: list[str] = []

    @remember_short(10)
    def length(text: str, more: int = 0) -> int:
        asked.append(text)
        return len(text) + more

    for _ in range(3):
        assert length("x" * SHORT) == SHORT
        assert length("x", more=2) == 3
        assert length("x" * (SHORT + 1)) == SHORT + 1
    assert [len(text) for text in asked] == [SHORT, 1, SHORT + 1, SHORT + 1, SHORT + 1]
