"""Random clients against the simplest store that can be thought of: a dict, and a list of what it was."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moorage.store.protocol import Item, KeyExists, KeyMissing, Page, RevisionConflict, Store, StoreError, WatchEvent
from tests.store.backends import Backend, Etcd, Sqlite, folder_in_memory, replayed, take, value
from tests.store.cluster import Cluster

NAMES = ("a", "a/b", "a/bc", "ab", "b")


@dataclass
class Model:
    """What a store is: its items, and what they were at every revision."""

    revision: int
    items: dict[str, Item] = field(default_factory=dict)
    past: dict[int, dict[str, Item]] = field(default_factory=dict)

    def put(self, key: str, value: bytes, revision: int | None) -> Item:
        self.check(key, revision)
        self.items[key] = Item(key, value, self.revision + 1)
        self.remember()
        return self.items[key]

    def delete(self, key: str, revision: int) -> Item:
        self.check(key, revision)
        item = self.items.pop(key)
        self.remember()
        return item._replace(revision=self.revision)

    def check(self, key: str, revision: int | None) -> None:
        current = self.items.get(key)
        if revision is None:
            if current:
                raise KeyExists
        elif current is None:
            raise KeyMissing
        elif current.revision != revision:
            raise RevisionConflict(current)

    def remember(self) -> None:
        self.revision += 1
        self.past[self.revision] = dict(self.items)

    def page(self, revision: int, prefix: str, limit: int, after: str) -> Page:
        then = self.past[revision]
        matching = [then[key] for key in sorted(then) if key.startswith(prefix) and key > after]
        return Page(matching[: limit or None], revision, len(matching[limit:]) if limit else 0)


@dataclass(frozen=True)
class Step:
    """One thing that a client does."""

    client: int
    verb: str
    name: str
    back: int
    """How many revisions ago the client read what it now changes or lists."""
    limit: int
    after: str


steps = st.builds(
    Step,
    client=st.integers(0, 2),
    verb=st.sampled_from(("create", "create", "update", "update", "delete", "get", "list", "watch")),
    name=st.sampled_from(NAMES),
    back=st.sampled_from((0, 0, 0, 1, 2, 5)),
    limit=st.integers(0, 3),
    after=st.sampled_from(("", *NAMES)),
)
many = settings(max_examples=200)
few = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])


@many
@given(st.lists(steps, max_size=40))
def test_clients_of_sqlite_in_turn_get_what_the_model_says(series: list[Step]) -> None:
    with folder_in_memory() as folder:
        asyncio.run(in_turn(Sqlite(Path(folder) / "moorage.db"), series))


@few
@given(series=st.lists(steps, max_size=40))
def test_clients_of_etcd_in_turn_get_what_the_model_says(etcd: Cluster, series: list[Step]) -> None:
    asyncio.run(in_turn(Etcd(etcd.endpoints), series))


@many
@given(st.lists(steps, max_size=60))
def test_clients_of_sqlite_at_once_leave_one_history_that_explains_all_answers(series: list[Step]) -> None:
    with folder_in_memory() as folder:
        asyncio.run(at_once(Sqlite(Path(folder) / "moorage.db"), series))


@few
@given(series=st.lists(steps, max_size=60))
def test_clients_of_etcd_at_once_leave_one_history_that_explains_all_answers(etcd: Cluster, series: list[Step]) -> None:
    asyncio.run(at_once(Etcd(etcd.endpoints), series))


async def in_turn(backend: Backend, series: Sequence[Step]) -> None:
    stores = await asyncio.gather(*(backend.open() for _ in range(backend.clients)))
    root = f"/{uuid.uuid4()}/"
    start = await stores[0].revision()
    model = Model(start, past={start: {}})
    watches: list[tuple[str, int]] = []
    for number, step in enumerate(series):
        store, key = stores[step.client % len(stores)], root + step.name
        then = max(start, model.revision - step.back)
        read = model.past[then].get(key)
        revision = read.revision if read else 0
        match step.verb:
            case "get":
                assert await store.get(key) == model.items.get(key)
            case "list":
                page = await store.list(key, revision=then, limit=step.limit, after=root + step.after)
                assert page == model.page(then, key, step.limit, root + step.after)
            case "watch":
                watches.append((key, then))
            case verb:
                await same(store, model, verb, key, value(number), revision)
    assert await stores[0].revision() == model.revision
    for prefix, then in [*watches, (root, start)]:
        held = model.page(then, prefix, 0, "").items
        changes = sum(changed(model, revision).startswith(prefix) for revision in range(then + 1, model.revision + 1))
        async with stores[-1].watch(prefix, then) as batches:
            events = await take(batches, changes)
        assert sorted(replayed(held, events).values()) == (await stores[0].list(prefix)).items
    await asyncio.gather(*(store.close() for store in stores))


async def same(store: Store, model: Model, verb: str, key: str, value: bytes, revision: int) -> None:
    """A write has the same outcome in the store and in the model."""
    expected: Item | StoreError
    try:
        if verb == "delete":
            expected = model.delete(key, revision)
        else:
            expected = model.put(key, value, None if verb == "create" else revision)
    except StoreError as refusal:
        expected = refusal
    calls = {
        "create": lambda: store.create(key, value),
        "update": lambda: store.update(key, value, revision),
        "delete": lambda: store.delete(key, revision),
    }
    if isinstance(expected, Item):
        assert await calls[verb]() == expected
        return
    with pytest.raises(type(expected)) as raised:
        await calls[verb]()
    if isinstance(expected, RevisionConflict):
        assert isinstance(raised.value, RevisionConflict)
        assert raised.value.current == expected.current


def changed(model: Model, revision: int) -> str:
    """The key that a revision changed."""
    before, after = model.past[revision - 1], model.past[revision]
    (item, *_) = set(before.values()) ^ set(after.values())
    return item.key


@dataclass(frozen=True)
class Answer:
    """A write that was acknowledged."""

    verb: str
    item: Item
    replaced: int


async def at_once(backend: Backend, series: Sequence[Step]) -> None:
    stores = await asyncio.gather(*(backend.open() for _ in range(backend.clients)))
    root = f"/{uuid.uuid4()}/"
    start = await stores[0].revision()
    answers: list[Answer] = []

    async def client(number: int) -> None:
        store = stores[number % len(stores)]
        for step in series:
            if step.client != number:
                continue
            key = root + step.name
            current = await store.get(key)
            revision = current.revision if current else 0
            text = value(f"{number} {len(answers)}")
            try:
                if step.verb == "create":
                    answers.append(Answer("ADDED", await store.create(key, text), 0))
                elif step.verb == "update":
                    answers.append(Answer("MODIFIED", await store.update(key, text, revision), revision))
                elif step.verb == "delete":
                    answers.append(Answer("DELETED", await store.delete(key, revision), revision))
                else:
                    page = await store.list(root)
                    assert page.items == (await store.list(root, revision=page.revision)).items
            except (KeyExists, KeyMissing, RevisionConflict):
                continue

    async with stores[0].watch(root, start) as live:
        await asyncio.gather(*map(client, range(3)))
        events = await take(live, len(answers))
    answers.sort(key=lambda answer: answer.item.revision)
    assert [answer.item.revision for answer in answers] == list(range(start + 1, start + 1 + len(answers)))
    assert [(event.change.value, event.item) for event in events] == [(answer.verb, answer.item) for answer in answers]
    assert [replaced(event) for event in events] == [answer.replaced for answer in answers]
    assert sorted(replayed([], events).values()) == (await stores[0].list(root)).items
    await asyncio.gather(*(store.close() for store in stores))


def replaced(event: WatchEvent) -> int:
    return event.previous.revision if event.previous else 0
