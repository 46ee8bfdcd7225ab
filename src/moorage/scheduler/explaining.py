"""Why nodes were rejected, in a sentence for a person: asked only of a pod that fits nowhere, and of bounded length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from moorage.api.node import Node
from moorage.bounded import Bounded
from moorage.logs import Log
from moorage.match.reasons import EXPLAINED_COST, Lack, selector_lacks
from moorage.match.selector import Selector
from moorage.scheduler.framework import Cycle, Explained, Plugin, Rejection, Scope, Told, overrides
from moorage.scheduler.table.columns import Column
from moorage.scheduler.table.distinct import distinct
from moorage.scheduler.table.nodes import Index, NodeTable
from moorage.scheduler.table.shape import Shape

_LOG = Log(__name__)
EXAMINED = 64
"""How many different values are looked at for one pod: those that most nodes have."""
_REASONS, _REASON, _SENTENCE = 4, 160, 480
"""How many reasons are given, how long each may be, and all of them together."""
_KEPT = 4096
_BUDGET = 100_000
"""What the expressions may cost that are evaluated again for one sentence: ten milliseconds or so."""
_DENSE = 65536
"""Up to this number, codes are counted in an array; larger ones are made smaller first."""

REST = "rest"
Words = tuple[Hashable, str]
"""The kind of a reason, and the reason."""
Keep = Callable[[Hashable, Callable[[], Words | None]], Words | None]
"""Gives what was said of a value before, or else what a function says."""
_Groups = dict[tuple[str, Hashable], Counter[str]]
"""How many nodes have each text, by kind."""


class Explaining:
    """What is said about pods, kept for the next pod of the same shape.

    Reasons that differ only in a value stand together, with one value as an example. It stays the example as long as
    some node has it, so that the sentence changes no more often than it must.
    """

    def __init__(self) -> None:
        self._examples: WeakKeyDictionary[Shape, dict[Hashable, str]] = WeakKeyDictionary()
        self._said: WeakKeyDictionary[Shape, tuple[Hashable, str]] = WeakKeyDictionary()

    def sentence(self, cycle: Cycle, plugins: Iterable[Plugin], rejections: Mapping[str, list[Rejection]]) -> str:
        """Why nodes were rejected, the most frequent reasons first; empty when no plugin has more to say."""
        asked = [
            (plugin, np.concatenate([each.rows for each in rejections[plugin.name]]))
            for plugin in plugins
            if plugin.name in rejections and overrides(type(plugin), "explain")
        ]
        if not asked:
            return ""
        table, shape = cycle.table, cycle.shape
        state = (table.epoch, table.position, *((plugin.name, rows.tobytes()) for plugin, rows in asked))
        known = self._said.get(shape)
        if known is not None and known[0] == state:
            return known[1]
        groups: _Groups = {}
        for plugin, rows in asked:
            try:
                for kind, text, nodes in plugin.explain(cycle, rows):
                    groups.setdefault((plugin.name, kind), Counter())[text] += nodes
            except Exception:  # noqa: BLE001 - what cannot be put into words must not keep other pods waiting
                _LOG.exception("Rejection not explained", plugin=plugin.name, pod=cycle.pod.key)
        sentence = self._composed(shape, groups)
        if all(plugin.scope is not Scope.CLUSTER for plugin, _ in asked):
            self._said[shape] = state, sentence
        return sentence

    def _composed(self, shape: Shape, groups: _Groups) -> str:
        before = self._examples.get(shape, {})
        examples = self._examples[shape] = {kind: _example(before.get(kind), texts) for kind, texts in groups.items()}
        ranked = sorted(groups, key=lambda kind: (kind[1] == REST, -groups[kind].total(), examples[kind]))
        parts: list[str] = []
        for kind in ranked:
            like = " and the like" if len(groups[kind]) > 1 else ""
            nodes = groups[kind].total()
            part = f"{_cut(examples[kind])}{like} on {nodes} {'node' if nodes == 1 else 'nodes'}"
            if len(parts) == _REASONS or sum(map(len, parts)) + len(part) > _SENTENCE:
                parts.append("and other reasons")
                break
            parts.append(part)
        return "; ".join(parts)


def _example(before: str | None, texts: Counter[str]) -> str:
    return before if before is not None and before in texts else min(texts, key=lambda text: (-texts[text], text))


def _cut(text: str) -> str:
    return text if len(text) <= _REASON else f"{text[: _REASON - 1]}…"


def by_frequency(
    codes: NDArray[np.integer[Any]], say: Callable[[int], Words | None], cost: int = 0
) -> Iterator[Explained]:
    """What is said of the place of each code, those that occur most often first; of too many different ones no more.

    `cost` is what the expressions cost that are evaluated for one code; when that is too much, nothing is said.
    """
    most = min(EXAMINED, _BUDGET // cost) if cost else EXAMINED
    if not most:
        return
    if codes.max() > _DENSE:
        codes = distinct(codes).codes
    counts, first = np.bincount(codes), np.empty(int(codes.max()) + 1, np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    ranked = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    for code in ranked[:most]:
        words = say(int(first[code]))
        if words is not None:
            yield Explained(*words, int(counts[code]))
    if left := int(counts[ranked[most:]].sum()):
        yield Explained(REST, "other values", left)


def explain_selector(
    table: NodeTable, subject: str, selector: Selector, rows: Index, keep: Keep | None = None
) -> Iterable[Explained]:
    """What rows lack to satisfy a selector; those that agree on the labels that it reads are asked about once."""
    if not len(rows):
        return ()
    columns = None if selector.keys is None else [table.labels(key) for key in sorted(selector.keys)]

    def lacking(node: Node) -> Words | None:
        labels, name = node.metadata.labels, node.metadata.name
        if selector.verdict(labels, name).matched:
            return None
        lacks = selector_lacks(selector, labels, name, most=EXPLAINED_COST)
        return kinds_of(lacks), f"{subject}: {briefly(lacks)}"

    def say(place: int) -> Words | None:
        row = int(rows[place])
        node = table.nodes[row]
        if node is None or keep is None:
            return None if node is None else lacking(node)
        read = (node.metadata.name, node.metadata.resource_version) if columns is None else (
            tuple(column.value(row) for column in columns)
        )  # fmt: skip
        return keep(read, partial(lacking, node))

    cost = sum(each.expression.cost for each in selector.conditions if each.expression)
    return by_frequency(rows if columns is None else _combined(columns, rows), say, cost)


def alike(codes: NDArray[np.integer[Any]], rows: Index) -> Iterator[Index]:
    """Rows that have the same code, together; those first that come first."""
    if not len(rows):
        return
    order = np.argsort(codes, kind="stable")
    parts = np.split(rows[order], np.flatnonzero(np.diff(codes[order])) + 1)
    yield from sorted(parts, key=lambda part: int(part[0]))


def tell_selector(table: NodeTable, subject: str, selector: Selector, rows: Index) -> Iterator[Told]:
    """What rows that do not satisfy a selector lack; those that agree on the labels that it reads are told together."""
    by_row = selector.keys is None or selector.reads_name
    codes = rows if by_row else _combined([table.labels(key) for key in sorted(selector.keys or ())], rows)
    for same in alike(codes, rows):
        node = table.nodes[int(same[0])]
        if node is not None and not selector.verdict(node.metadata.labels, node.metadata.name).matched:
            lacks = selector_lacks(selector, node.metadata.labels, node.metadata.name)
            several = "no term matches: " if len(lacks) > 1 else ""
            reason = several + "; ".join(lack.text for lack in lacks)
            yield Told((subject, kinds_of(lacks)), subject, reason, same)


def _combined(columns: list[Column[str | None]], rows: Index) -> NDArray[np.int64]:
    """One number for each combination of values."""
    combined = np.zeros(len(rows), np.int64)
    for column in columns:
        combined = combined * len(column.values) + column.codes[rows]
        if len(columns) > 1:
            # So that the numbers never run over, however many columns there are.
            combined = distinct(combined).codes if combined.max() > _DENSE else combined
    return combined


def kinds_of(lacks: Iterable[Lack]) -> Hashable:
    """What reasons have in common that differ only in values."""
    return tuple(lack.kind for lack in lacks)


def briefly(lacks: Iterable[Lack]) -> str:
    """Reasons in as few words as will do."""
    return ", ".join(dict.fromkeys(lack.brief for lack in lacks))


class KeptWords:
    """What was said of values, kept for each shape that asked."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Shape, Bounded[Hashable, Words]] = WeakKeyDictionary()

    def of(self, shape: Shape, value: Hashable, say: Callable[[], Words | None]) -> Words | None:
        """What is said of a value."""
        known = self._known.get(shape)
        if known is None:
            known = self._known[shape] = Bounded(_KEPT)
        words = known.get(value)
        if words is None:
            words = say()
            if words is not None:
                known.put(value, words)
        return words
