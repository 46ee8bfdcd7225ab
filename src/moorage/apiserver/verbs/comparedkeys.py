"""Which keys of taints, of device taints and of labels are compared as numbers or versions by pods and claims."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.kinds import Kind
from moorage.api.meta import Data, Object
from moorage.api.placementrules import terms_of, tolerations_of
from moorage.apiserver.base.objects import decode, key, prefix
from moorage.apiserver.base.pacing import in_slices
from moorage.match.glob import compile_glob
from moorage.match.operators import COMPARISONS, Comparison, selector_comparison
from moorage.store.protocol import Item, Store

POD, _CLAIM = kinds.row("v1", "Pod"), kinds.row("resource.k8s.io/v1", "ResourceClaim")
_MAX_KEYS = 1000
_SCAN_SECONDS = 30.0
_MARKS = tuple(f'"{name}"'.encode() for name in COMPARISONS)


class Sort(Enum):
    """What is compared, and by whom."""

    TAINT = "pods"
    LABEL = "pods, in node selectors,"
    DEVICE_TAINT = "resource claims"

    @property
    def kind(self) -> Kind:
        """The kind whose objects compare it."""
        return _CLAIM if self is Sort.DEVICE_TAINT else POD


@dataclass(slots=True)
class _Known:
    """What is known of the objects of one kind."""

    revision: int = 0
    """Up to where they were read."""
    at: float = float("-inf")
    """When they were last read."""


@dataclass(slots=True)
class ComparedKeys:
    """The keys that are compared, each with an object that does so.

    Objects that this server is given are noted as they come. The store is read for those that it had before, and again
    when half a minute has passed, for those that came by another server: then only what changed is looked at.
    """

    store: Store
    now: Callable[[], float] = time.monotonic
    _by_key: dict[tuple[Sort, str], dict[str, str]] = field(default_factory=dict)
    """By the key, or the pattern of keys: operators, each with the place of an object that uses it."""
    _patterns: dict[tuple[Sort, str], Callable[[str], bool]] = field(default_factory=dict)
    _known: dict[str, _Known] = field(default_factory=dict)

    def note(self, kind: Kind, data: Data) -> None:
        """Note what an object compares that is being written."""
        if kind is _CLAIM or (kind is POD and _may_compare(data)):
            metadata = data["metadata"]
            where = key(kind, metadata.get("namespace", ""), metadata.get("name", ""))
            self.note_alike(where, list(_compared(kind, data)))

    def note_alike(self, where: str, comparisons: Sequence[tuple[Sort, str, str]]) -> None:
        """Note an object, by its place, that compares what `compared_by` said of another one of its template."""
        for sort, name, operator in comparisons:
            self._put(sort, name, operator, where)

    async def comparisons(self, sort: Sort, name: str) -> AsyncIterator[Comparison]:
        """The comparisons with which some object compares the values of a key."""
        await self._scan(sort.kind)
        for found in self._spellings(sort, name):
            for operator, where in list(self._by_key.get(found, {}).items()):
                if await self._still_compares(found, operator, where):
                    yield COMPARISONS[operator]

    def _spellings(self, sort: Sort, name: str) -> list[tuple[Sort, str]]:
        patterns = (found for found, matches in self._patterns.items() if found[0] is sort and matches(name))
        return [(sort, name), *patterns]

    async def _still_compares(self, found: tuple[Sort, str], operator: str, where: str) -> bool:
        """Whether the object, or else another one, uses an operator on a key."""
        item = await self.store.get(where)
        if item is not None and (*found, operator) in compared_by(item, found[0].kind):
            return True
        self._forget(found)
        await self._scan(found[0].kind, again=True)
        return operator in self._by_key.get(found, {})

    async def _scan(self, kind: Kind, *, again: bool = False) -> None:
        known = self._known.setdefault(kind.plural, _Known())
        if not again and self.now() - known.at < _SCAN_SECONDS:
            return
        seen, known.at = 0 if again else known.revision, self.now()
        page = await self.store.list(prefix(kind))
        async for item in in_slices([item for item in page.items if item.revision > seen]):
            self.note_alike(item.key, compared_by(item, kind))
        known.revision = page.revision

    def _put(self, sort: Sort, name: str, operator: str, where: str) -> None:
        found = sort, name
        if found not in self._by_key and len(self._by_key) >= _MAX_KEYS:
            self._forget(next(iter(self._by_key)))
        self._by_key.setdefault(found, {})[operator] = where
        if "*" in name and found not in self._patterns:
            self._patterns[found] = compile_glob(name)

    def _forget(self, found: tuple[Sort, str]) -> None:
        self._by_key.pop(found, None)
        self._patterns.pop(found, None)


def compared_by(item: Item, kind: Kind) -> list[tuple[Sort, str, str]]:
    """What a stored object compares: the key, or the pattern of keys, and the operator."""
    if not any(mark in item.value for mark in _MARKS):
        return []
    return list(_compared(kind, decode(item)))


def _may_compare(pod: Data) -> bool:
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or ()
    return bool((spec.get("affinity") or {}).get("nodeAffinity")) or any(
        each.get("operator") in COMPARISONS for each in tolerations
    )


def _compared(kind: Kind, data: Data) -> Iterator[tuple[Sort, str, str]]:
    try:
        item: Object = convert(data, kind.struct)
    except DecodeError:
        return
    sort = Sort.TAINT if kind is POD else Sort.DEVICE_TAINT
    for _, tolerations in tolerations_of(item):
        yield from ((sort, each.key, each.operator) for each in tolerations if each.operator in COMPARISONS)
    for _, term in terms_of(item):
        for requirement in term.match_expressions:
            if selector_comparison(requirement.operator):
                yield Sort.LABEL, requirement.key, requirement.operator
