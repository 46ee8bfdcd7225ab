"""How many pods match a selector on each row, and which rows have pods with an affinity term: kept up to date."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from moorage.api.labels import Labels
from moorage.scheduler.pods.terms import Label, Pick, TermsOfPods
from moorage.scheduler.table.columns import Codes
from moorage.scheduler.table.nodes import Mask, NodeTable, PodObserver
from moorage.scheduler.table.shape import PodInfo

Counts = NDArray[np.int32]
V = TypeVar("V")
Observer = TypeVar("Observer", bound=PodObserver)

BYTES_MAX = 64 * 1024 * 1024
"""What the counts of all picks may take together."""
WIDE_MAX = 1024
"""How many picks are kept without a label that leads to them."""
AT_ONCE = 256
"""How many pods are compared with a pick before others have their turn."""
FEW_ROWS = 64
"""Up to so many rows, pods that hold a term are kept row by row; beyond, as an array of all rows."""


Anchor = tuple[str, Label | None]
"""The namespace of the pods that something concerns, empty for any, and a label that they must have, if any."""


class Anchored(Generic[V]):
    """Values kept by a namespace and a label of the pods they concern, so that those of a pod find them."""

    def __init__(self) -> None:
        self._places: dict[str, dict[Label | None, dict[Hashable, V]]] = {}

    def put(self, place: Anchor, key: Hashable, value: V) -> None:
        """Keep something."""
        namespace, label = place
        self._places.setdefault(namespace, {}).setdefault(label, {})[key] = value

    def drop(self, place: Anchor, key: Hashable) -> None:
        """Forget it."""
        namespace, label = place
        labels = self._places[namespace]
        del labels[label][key]
        if not labels[label]:
            del labels[label]
            if not labels:
                del self._places[namespace]

    def get(self, place: Anchor, key: Hashable) -> V | None:
        """What is kept."""
        namespace, label = place
        kept = self._places.get(namespace, {}).get(label)
        return kept.get(key) if kept else None

    def of(self, namespace: str, labels: Labels) -> Iterator[V]:
        """What could be about a pod of a namespace with these labels."""
        for where in ("", namespace):
            places = self._places.get(where)
            if not places:
                continue
            if None in places:
                yield from places[None].values()
            for label in labels.items():
                if label in places:
                    yield from places[label].values()

    def __iter__(self) -> Iterator[V]:
        for places in self._places.values():
            for place in places.values():
                yield from place.values()

    def __bool__(self) -> bool:
        return bool(self._places)


class _Question(NamedTuple):
    picks: tuple[Pick, ...]
    terminating: bool

    def counts(self, info: PodInfo) -> bool:
        pod = info.pod.metadata
        if not self.terminating and pod.deletion_timestamp is not None:
            return False
        return all(pick.matches(pod.namespace, pod.labels) for pick in self.picks)

    @property
    def place(self) -> Anchor:
        namespace = next(filter(None, (pick.namespace for pick in self.picks)), "")
        return namespace, next(filter(None, (pick.anchor for pick in self.picks)), None)


@dataclass(slots=True, eq=False)
class _Answer:
    question: _Question
    counts: Counts
    left: list[int]
    """The rows whose pods are not counted yet."""
    ahead: set[int]
    """The same rows: changes there need not be followed."""


class PodCounts:
    """How many pods each selection picks on each row, for the selections that were asked for."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._answers: OrderedDict[_Question, _Answer] = OrderedDict()
        self._wide: OrderedDict[_Question, None] = OrderedDict()
        """Those that no label leads to: every pod of their namespace is compared with them."""
        self._places: Anchored[_Answer] = Anchored()

    def of(self, picks: tuple[Pick, ...], *, terminating: bool = True) -> Counts:
        """How many pods that all of these pick are on each row, with or without those that are being deleted."""
        answer = self._answer(_Question(picks, terminating))
        while answer.left:
            self._count_some(answer)
        return answer.counts

    def steps(self, picks: tuple[Pick, ...], *, terminating: bool = True) -> Iterator[None]:
        """Count little by little; pods may come and go in between."""
        answer = self._answer(_Question(picks, terminating))
        while answer.left:
            self._count_some(answer)
            yield

    def _answer(self, question: _Question) -> _Answer:
        answer = self._answers.get(question)
        if answer is not None:
            self._answers.move_to_end(question)
            if question in self._wide:
                self._wide.move_to_end(question)
            return answer
        rows = [row for row in self._table.rows.values() if self._table.pods[row]]
        answer = _Answer(question, np.zeros(self._table.size, np.int32), rows, set(rows))
        self._answers[question] = answer
        place = question.place
        if place[1] is None:
            self._wide[question] = None
        self._places.put(place, question, answer)
        self._forget()
        return answer

    def _count_some(self, answer: _Answer) -> None:
        """Count the pods of some more rows."""
        question, counts, done = answer.question, answer.counts, 0
        key, value = question.place[1] or ("", None)
        while answer.left and done < AT_ONCE:
            row = answer.left.pop()
            answer.ahead.discard(row)
            pods = self._table.pods[row]
            done += len(pods) + 1
            for info in pods.values():
                if info.pod.metadata.labels.get(key) == value and question.counts(info):
                    counts[row] += 1

    def _forget(self) -> None:
        while len(self._answers) > max(16, BYTES_MAX // (4 * self._table.size)):
            self._drop(next(iter(self._answers)))
        while len(self._wide) > WIDE_MAX:
            self._drop(next(iter(self._wide)))

    def _drop(self, question: _Question) -> None:
        del self._answers[question]
        self._wide.pop(question, None)
        self._places.drop(question.place, question)

    def pod_added(self, row: int, info: PodInfo) -> None:
        """Count a pod."""
        self._change(row, info, 1)

    def pod_removed(self, row: int, info: PodInfo) -> None:
        """Count a pod no more."""
        self._change(row, info, -1)

    def _change(self, row: int, info: PodInfo, by: int) -> None:
        for answer in self._places.of(info.key[0], info.pod.metadata.labels):
            if row not in answer.ahead and answer.question.counts(info):
                answer.counts[row] += by

    def table_grown(self, size: int) -> None:
        """Make room for more rows."""
        for answer in self._answers.values():
            answer.counts = np.concatenate([answer.counts, np.zeros(size - len(answer.counts), np.int32)])
        self._forget()


class Held:
    """A term, and the rows with pods that hold it."""

    __slots__ = ("_all", "_near", "_places", "_rows", "pick", "topology_key")

    def __init__(self, pick: Pick, topology_key: str) -> None:
        self.pick = pick
        self.topology_key = topology_key
        self._rows: dict[int, int] = {}
        self._all: NDArray[np.int64] | None = None
        self._near: Mask | None = None
        self._places = -1

    def change(self, row: int, by: int) -> bool:
        """A pod with this term comes or goes; the amount is what its term weighs. Whether any is left."""
        amount = self._rows.get(row, 0) + by
        if bool(amount) != (row in self._rows):
            self._near = None
        if amount:
            self._rows[row] = amount
        else:
            del self._rows[row]
        if self._all is not None:
            self._all[row] = amount
        return bool(self._rows)

    def rows(self, size: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The rows, and how much the term weighs there."""
        if len(self._rows) <= FEW_ROWS:
            self._all = None
            rows = np.fromiter(self._rows.keys(), np.intp, len(self._rows))
            return rows, np.fromiter(self._rows.values(), np.int64, len(self._rows))
        if self._all is None:
            self._all = np.zeros(size, np.int64)
            self._all[list(self._rows)] = list(self._rows.values())
        rows = self._all.nonzero()[0]
        return rows, self._all[rows]

    def near(self, table: NodeTable) -> Mask:
        """The rows that share their value of the topology key with one of these; kept until one comes or goes."""
        if self._near is None or self._places != table.places:
            column = table.labels(self.topology_key)
            values = np.zeros(len(column.values), np.bool_)
            values[column.codes[self.rows(table.size)[0]]] = True
            values[0] = False
            self._near, self._places = values[column.codes], table.places
        return self._near

    def table_grown(self) -> None:
        """Drop the arrays, which have too few rows now."""
        self._all = self._near = None


class Holders:
    """The pods that have affinity terms, by term."""

    def __init__(self, table: NodeTable) -> None:
        self.terms = TermsOfPods()
        self.anti_affinity: Anchored[Held] = Anchored()
        """Each pod counts as one."""
        self.affinity: Anchored[Held] = Anchored()
        """Each pod counts as one."""
        self.preferred: Anchored[Held] = Anchored()
        """Each pod counts as much as its preference weighs."""
        for row in table.rows.values():
            for info in table.pods[row].values():
                self.pod_added(row, info)

    def pod_added(self, row: int, info: PodInfo) -> None:
        """Keep the terms of a pod."""
        if info.shape.spec.affinity is not None:
            self._change(row, info, 1)

    def pod_removed(self, row: int, info: PodInfo) -> None:
        """Forget them."""
        if info.shape.spec.affinity is not None:
            self._change(row, info, -1)

    def _change(self, row: int, info: PodInfo, sign: int) -> None:
        terms = self.terms.of(info)
        kinds = (
            (self.anti_affinity, terms.anti_affinity),
            (self.affinity, terms.affinity),
            (self.preferred, terms.preferred),
        )
        for held, affinity_terms in kinds:
            for pick, topology_key, weight in affinity_terms:
                _hold(held, pick, topology_key, row, sign * weight)

    def table_grown(self, size: int) -> None:
        """Make room for more rows."""
        for kind in (self.anti_affinity, self.affinity, self.preferred):
            for held in kind:
                held.table_grown()


def _hold(terms: Anchored[Held], pick: Pick, topology_key: str, row: int, by: int) -> None:
    if not by:
        return
    key, place = (pick, topology_key), (pick.namespace, pick.anchor)
    held = terms.get(place, key)
    if held is None:
        held = Held(pick, topology_key)
        terms.put(place, key, held)
    if not held.change(row, by):
        terms.drop(place, key)


def pod_counts(table: NodeTable) -> PodCounts:
    """The counts that all plugins on a table share."""
    known = next((each for each in table.observers if isinstance(each, PodCounts)), None)
    return known or _observing(table, PodCounts(table))


def holders(table: NodeTable) -> Holders:
    """The holders of terms that all plugins on a table share."""
    known = next((each for each in table.observers if isinstance(each, Holders)), None)
    return known or _observing(table, Holders(table))


def _observing(table: NodeTable, observer: Observer) -> Observer:
    table.observers.append(observer)
    return observer


def by_value(codes: Codes, amounts: NDArray[np.integer[Any]], size: int) -> NDArray[np.float64]:
    """Amounts on rows, added up for each value of a label: `codes` says which value each row has, of so many."""
    return np.bincount(codes, amounts, size).astype(np.float64, copy=False)
