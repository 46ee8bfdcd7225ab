"""Admission: what other objects decide about a write, gathered from the store, and what is wrong with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from moorage.api import kinds
from moorage.api.decode import DecodeError
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decoded, key, prefix
from moorage.apiserver.base.offload import LARGE, offload
from moorage.apiserver.base.pacing import in_slices
from moorage.apiserver.http.failures import bad_request, forbidden, invalid, not_found
from moorage.apiserver.http.messages import Refused
from moorage.apiserver.verbs.comparedkeys import ComparedKeys, Sort
from moorage.bounded import Bounded
from moorage.features import Gates
from moorage.match.deferral import NotReady, deferring
from moorage.match.operators import COMPARISONS
from moorage.registry.judge import MAX_ADVISED, judge, limit
from moorage.registry.metadata import MetadataError
from moorage.registry.prepare import prepare_create, prepare_update
from moorage.registry.state import AbsentObject, Denied, State
from moorage.registry.strategy import Strategy
from moorage.registry.table import strategy_of
from moorage.store.protocol import Item, Store

T = TypeVar("T")
_NAMESPACE = kinds.row("v1", "Namespace")
_QUOTA = kinds.row("v1", "ResourceQuota")
_COMPARED = frozenset(("Node", "ResourceSlice", "DeviceTaintRule"))
"""The kinds whose taints and labels others compare."""
_MAX_PLACES = 1000
_REFUSALS = (MetadataError, DecodeError, Denied, AbsentObject)


class Surroundings(NamedTuple):
    """The stored objects on which the outcome of a write depends. When they are equal, so is the outcome."""

    found: tuple[tuple[str, Sequence[Item]], ...]
    """Objects by the resource name of their kind."""
    plugins: frozenset[str] = frozenset()

    async def state(self) -> State:
        """The objects as strategies read them; there may be many."""
        objects = {resource: [decoded(item) async for item in in_slices(items)] for resource, items in self.found}
        return State(objects, plugins=self.plugins)


@dataclass(slots=True)
class Admission:
    """The rules of one API server: its gates, and the other objects that some rules look at."""

    store: Store
    gates: Gates
    plugins: frozenset[str] = frozenset()
    """The admission plugins that are on though they are off by default."""
    compared: ComparedKeys = field(init=False)
    _places: Bounded[tuple[str, str, str, str | None], tuple[tuple[str, str], ...]] = field(
        default_factory=lambda: Bounded(_MAX_PLACES)
    )
    """Where the objects are on which a write depends, by kind, namespace and sub-resource."""

    def __post_init__(self) -> None:
        self.compared = ComparedKeys(self.store)

    async def around(self, strategy: Strategy, namespace: str, *, updated: str | None = None) -> Surroundings:
        """The objects on which a new object of a kind depends, or an update of one or of its sub-resource."""
        places = self._places_around(strategy, namespace, updated)
        if not places:
            return Surroundings((), self.plugins)
        return self._surroundings(places, await self.store.read_each([place for _, place in places]))

    async def around_new(self, strategy: Strategy, namespace: str) -> tuple[Surroundings, Sequence[Item]]:
        """The objects on which a new object depends, and the quotas of its namespace, by one read."""
        if not namespace:
            return await self.around(strategy, namespace), ()
        places = self._places_around(strategy, namespace, None)
        *found, quotas = await self.store.read_each([*[place for _, place in places], prefix(_QUOTA, namespace)])
        return self._surroundings(places, found), quotas

    def _places_around(self, strategy: Strategy, namespace: str, updated: str | None) -> tuple[tuple[str, str], ...]:
        who = strategy.kind.group, strategy.kind.kind, namespace, updated
        places = self._places.get(who)
        if places is None:
            places = tuple(self._needed(strategy, namespace, updated))
            self._places.put(who, places)
        return places

    def _surroundings(self, places: Sequence[tuple[str, str]], found: Sequence[Sequence[Item]]) -> Surroundings:
        pairs = tuple([(resource, items) for (resource, _), items in zip(places, found, strict=True)])
        return Surroundings(pairs, self.plugins)

    def _needed(self, strategy: Strategy, namespace: str, updated: str | None) -> Iterator[tuple[str, str]]:
        """The resource names and the places in the store of what a write depends on."""
        for kind, in_namespace, updates in strategy.depends_on:
            if updated is None or updated in updates:
                yield kind.resource, prefix(kind, namespace if in_namespace else "")
        if strategy.kind.namespaced and (updated is None or (self.plugins and not updated)):
            yield _NAMESPACE.resource, key(_NAMESPACE, "", namespace)

    async def prepare_create(
        self, kind: Kind, new: Data, namespace: str, now: str, uid: str, *, size: int = 0
    ) -> State:
        """Make of what a client sent, `size` bytes, the object to be stored, in place; the state it depends on."""
        strategy = strategy_of(kind)
        state = await (await self.around(strategy, namespace)).state()
        try:
            await offload(size, prepare_create, strategy, new, namespace, state, now, uid)
        except _REFUSALS as error:
            raise refused(kind, new, error) from None
        return state

    async def prepare_update(
        self, kind: Kind, new: Data, old: Data, subresource: str, now: str, *, size: int = 0
    ) -> State:
        """Make of what a client sent, `size` bytes, the object that replaces `old`, in place; what it depends on."""
        strategy = strategy_of(kind)
        around = await self.around(strategy, old["metadata"].get("namespace", ""), updated=subresource)
        state = await around.state()
        try:
            await offload(size, prepare_update, strategy, new, old, subresource, state, now)
        except _REFUSALS as error:
            raise refused(kind, new, error) from None
        return state

    async def judge(
        self, kind: Kind, new: Data, old: Data | None, state: State, subresource: str = "", *, size: int = 0
    ) -> list[str]:
        """The warnings about an object of `size` bytes; Refused with all its errors (422), or what forbids it (403)."""
        strategy = strategy_of(kind)
        try:
            ask = partial(judge, strategy, new, old, state, self.gates, subresource)
            errors, warned = await _worked_out(size, ask)
            if not errors:
                await offload(size, limit, strategy, new, old, state, subresource)
        except _REFUSALS as error:
            raise refused(kind, new, error) from None
        if errors:
            raise invalid(kind, new["metadata"].get("name", ""), errors)
        self.compared.note(kind, new)
        if kind.kind not in _COMPARED or subresource:
            return warned
        return warned + [warning async for warning in self.comparison_warnings(new, old)]

    async def comparison_warnings(self, new: Data, old: Data | None) -> AsyncIterator[str]:
        """Warn of taints and labels whose values are not the numbers or versions as which some object compares them."""
        before = {(sort, name, value) for _, sort, name, value in _comparable(old or {})}
        changed = (each for each in _comparable(new) if each[1:] not in before)
        for path, sort, name, value in islice(changed, MAX_ADVISED):
            if all(compared.values.value(value) is not None for compared in COMPARISONS.values()):
                continue
            said = set[str]()
            async for compared in self.compared.comparisons(sort, name):
                what = compared.values.what
                if compared.values.value(value) is None and what not in said:
                    said.add(what)
                    yield f'{path}: "{value}" is not {what}, and {sort.value} compare {name} with {compared.name}'


async def _worked_out(size: int, ask: Callable[[], T]) -> T:
    """An answer about an object of `size` bytes, from a thread when it is large or has expressions that take long."""
    if size < LARGE:
        try:
            with deferring():
                return ask()
        except NotReady:
            pass
    return await offload(LARGE, ask)


def _comparable(data: Data) -> Iterator[tuple[str, Sort, str, str]]:
    """The values of an object that others may compare: the path, the sort, the key and the value of each."""
    spec, kind = data.get("spec") or {}, data.get("kind")
    taints: list[tuple[str, Data]] = []
    if kind == "Node":
        for name, value in (data["metadata"].get("labels") or {}).items():
            yield "metadata.labels", Sort.LABEL, name, value
        taints = [(f"spec.taints[{index}]", taint) for index, taint in enumerate(spec.get("taints") or ())]
    elif kind == "ResourceSlice":
        taints = [
            (f"spec.devices[{place}].taints[{index}]", taint)
            for place, device in enumerate(spec.get("devices") or ())
            for index, taint in enumerate(device.get("taints") or ())
        ]
    elif kind == "DeviceTaintRule":
        taints = [("spec.taint", spec.get("taint") or {})]
    for path, taint in taints:
        sort = Sort.TAINT if kind == "Node" else Sort.DEVICE_TAINT
        yield f"{path}.value", sort, taint.get("key", ""), taint.get("value", "")


def refused(kind: Kind, new: Data, error: Exception) -> Refused:
    """The answer to a write that cannot be done."""
    if isinstance(error, Denied):
        return forbidden(kind, new["metadata"].get("name", ""), str(error))
    if isinstance(error, AbsentObject):
        return not_found(error.kind, error.name)
    if isinstance(error, DecodeError):
        return bad_request(f'{kind.kind} in version "{kind.api_version}" cannot be handled as a {kind.kind}: {error}')
    return bad_request(str(error))
