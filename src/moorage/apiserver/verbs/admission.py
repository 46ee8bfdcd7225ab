"""Admission: what other objects decide about a write, gathered from the store, and what is wrong with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moorage.api import kinds
from moorage.api.decode import DecodeError
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decoded, key, prefix
from moorage.apiserver.base.offload import offload
from moorage.apiserver.http.failures import bad_request, forbidden, invalid, not_found
from moorage.apiserver.http.messages import Refused
from moorage.bounded import Bounded
from moorage.features import Gates
from moorage.match.operators import COMPARISONS
from moorage.registry.judge import MAX_ADVISED, judge, limit
from moorage.registry.metadata import MetadataError
from moorage.registry.prepare import prepare_create, prepare_update
from moorage.registry.state import AbsentObject, Denied, State
from moorage.registry.strategy import Strategy
from moorage.registry.table import strategy_of
from moorage.store.protocol import Item, Store

_NAMESPACE, _POD = kinds.row("v1", "Namespace"), kinds.row("v1", "Pod")
_MAX_TAINT_KEYS = _MAX_PLACES = 1000
_REFUSALS = (MetadataError, DecodeError, Denied, AbsentObject)


class Surroundings(NamedTuple):
    """The stored objects on which the outcome of a write depends. When they are equal, so is the outcome."""

    found: tuple[tuple[str, Sequence[Item]], ...]
    """Objects by the resource name of their kind."""

    def state(self) -> State:
        """The objects as strategies read them."""
        return State({resource: [decoded(item) for item in items] for resource, items in self.found})


_NOTHING = Surroundings(())


@dataclass(slots=True)
class Admission:
    """The rules of one API server: its gates, and the other objects that some rules look at."""

    store: Store
    gates: Gates
    _places: Bounded[tuple[str, str, str, str | None], tuple[tuple[str, str], ...]] = field(
        default_factory=lambda: Bounded(_MAX_PLACES)
    )
    """Where the objects are on which a write depends, by kind, namespace and sub-resource."""
    _compared: Bounded[str, tuple[int, str]] = field(default_factory=lambda: Bounded(_MAX_TAINT_KEYS))
    """By taint key: the revision up to which no pod compares it, and the key of a pod that does."""

    async def around(self, strategy: Strategy, namespace: str, *, updated: str | None = None) -> Surroundings:
        """The objects on which a new object of a kind depends, or an update of one or of its sub-resource."""
        who = strategy.kind.group, strategy.kind.kind, namespace, updated
        places = self._places.get(who)
        if places is None:
            places = tuple(_places(strategy, namespace, updated))
            self._places.put(who, places)
        if not places:
            return _NOTHING
        found = await self.store.read_each([place for _, place in places])
        return Surroundings(tuple([(resource, items) for (resource, _), items in zip(places, found, strict=True)]))

    async def prepare_create(self, kind: Kind, new: Data, namespace: str, now: str, uid: str) -> State:
        """Make of what a client sent the object that is to be stored, in place; the state on which it depends."""
        strategy = strategy_of(kind)
        state = (await self.around(strategy, namespace)).state()
        try:
            prepare_create(strategy, new, namespace, state, now, uid)
        except _REFUSALS as error:
            raise refused(kind, new, error) from None
        return state

    async def prepare_update(self, kind: Kind, new: Data, old: Data, subresource: str, now: str) -> State:
        """Make of what a client sent the object that replaces `old`, in place. Returns the objects it depends on."""
        strategy = strategy_of(kind)
        state = (await self.around(strategy, old["metadata"].get("namespace", ""), updated=subresource)).state()
        try:
            prepare_update(strategy, new, old, subresource, state, now)
        except _REFUSALS as error:
            raise refused(kind, new, error) from None
        return state

    async def judge(
        self, kind: Kind, new: Data, old: Data | None, state: State, subresource: str = "", *, size: int = 0
    ) -> list[str]:
        """The warnings about an object of `size` bytes; Refused with all its errors (422), or what forbids it (403)."""
        strategy = strategy_of(kind)
        # A pod may hold expressions, and to compile those takes longer than anything else of the same size.
        weight = 4 * size if kind.pod_spec else size
        try:
            errors, warned = await offload(weight, judge, strategy, new, old, state, self.gates, subresource)
            if not errors:
                limit(strategy, new, old, state, subresource)
        except _REFUSALS as error:
            raise refused(kind, new, error) from None
        if errors:
            raise invalid(kind, new["metadata"].get("name", ""), errors)
        return warned + [warning async for warning in self.taint_warnings(new, old)]

    async def taint_warnings(self, new: Data, old: Data | None) -> AsyncIterator[str]:
        """Warn of taints whose values are not the numbers or versions as which some pod compares them."""
        if new.get("kind") != "Node":
            return
        before = ((old or {}).get("spec") or {}).get("taints")
        taints = (new.get("spec") or {}).get("taints") or []
        for index, taint in enumerate(taints[:MAX_ADVISED] if taints != before else []):
            value = taint.get("value", "")
            if all(compared.values.value(value) is not None for compared in COMPARISONS.values()):
                continue
            operator = await self._comparison_of(taint["key"])
            compared = COMPARISONS.get(operator)
            if compared is not None and compared.values.value(value) is None:
                where = f"spec.taints[{index}].value"
                what = compared.values.what
                yield f'{where}: "{value}" is not {what}, and pods compare {taint["key"]} with {operator}'

    async def _comparison_of(self, taint_key: str) -> str:
        """The operator with which some pod compares a taint key. Only pods that changed since last time are read."""
        seen, where = self._compared.get(taint_key) or (0, "")
        if where and (item := await self.store.get(where)) and (operator := compared_by(item, taint_key)):
            return operator
        page = await self.store.list(prefix(_POD))
        comparisons = ((item.key, compared_by(item, taint_key)) for item in page.items if item.revision > seen)
        where, operator = next((comparison for comparison in comparisons if comparison[1]), ("", ""))
        self._compared.put(taint_key, (seen, where) if where else (page.revision, ""))
        return operator


def _places(strategy: Strategy, namespace: str, updated: str | None) -> Iterator[tuple[str, str]]:
    """The resource names and the places in the store of what a write depends on."""
    for kind, in_namespace, updates in strategy.depends_on:
        if updated is None or updated in updates:
            yield kind.resource, prefix(kind, namespace if in_namespace else "")
    if updated is None and strategy.kind.namespaced:
        yield _NAMESPACE.resource, key(_NAMESPACE, "", namespace)


def compared_by(pod: Item, taint_key: str) -> str:
    """The operator with which a pod compares the values of a taint key as numbers or versions."""
    if f'"{taint_key}"'.encode() in pod.value:
        for toleration in decoded(pod)["spec"].get("tolerations") or ():
            if toleration.get("key") == taint_key and toleration.get("operator") in COMPARISONS:
                return str(toleration["operator"])
    return ""


def refused(kind: Kind, new: Data, error: Exception) -> Refused:
    """The answer to a write that cannot be done."""
    if isinstance(error, Denied):
        return forbidden(kind, new["metadata"].get("name", ""), str(error))
    if isinstance(error, AbsentObject):
        return not_found(error.kind, error.name)
    if isinstance(error, DecodeError):
        return bad_request(f'{kind.kind} in version "{kind.api_version}" cannot be handled as a {kind.kind}: {error}')
    return bad_request(str(error))
