"""Quotas: what a write adds to the usage of each, whether that is allowed, and what all objects use together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from moorage.api.meta import Object, ResourceList
from moorage.api.quota import ResourceQuota, ResourceQuotaSpec, ScopedResourceSelectorRequirement
from moorage.quantity import Quantity
from moorage.registry.state import Denied
from moorage.registry.strategy import Strategy
from moorage.registry.usage import ONE, Quantities, add

_ZERO = Quantity.integer(0)


class ObjectWrite(NamedTuple):
    """A new object, or an update of one."""

    strategy: Strategy
    new: Object
    old: Object | None
    subresource: str
    now: datetime

    def added(self, quota: ResourceQuota) -> Quantities:
        """What is added to the usage of a quota, without zeros."""
        more = _usage(self.strategy, self.new, self.now)
        if self.old is not None and _is_counted(self.strategy, self.old, quota.spec):
            less = _usage(self.strategy, self.old, self.now)
            more = {name: amount - less.get(name, _ZERO) for name, amount in more.items()}
        return {name: amount for name, amount in more.items() if amount.nano > 0}


def charge(write: ObjectWrite, quotas: Sequence[ResourceQuota]) -> list[ResourceList | None]:
    """What each quota has in use once the object is stored; None where that stays as it is. Raises Denied."""
    added = [_added(write, quota) for quota in quotas]
    return [_charged(write, quota, more) if more else None for quota, more in zip(quotas, added, strict=True)]


def _added(write: ObjectWrite, quota: ResourceQuota) -> Quantities:
    """What a quota counts of a write. Raises Denied when it cannot be counted."""
    strategy, hard = write.strategy, quota.status.hard
    names = names_of(strategy, hard)
    if not names or not _is_counted(strategy, write.new, quota.spec):
        return {}
    added = write.added(quota)
    if write.old is not None and not added:
        return {}
    name = quota.metadata.name
    if problem := strategy.usage.missing(write.new, names):
        raise Denied(f"failed quota: {name}: {problem}")
    if not names <= quota.status.used.keys():
        raise Denied(f"status unknown for quota: {name}, resources: {','.join(sorted(names))}")
    return {name: amount for name, amount in added.items() if name in hard}


def _charged(write: ObjectWrite, quota: ResourceQuota, added: Quantities) -> ResourceList:
    used, hard = _quantities(quota.status.used), _quantities(quota.status.hard)
    after = dict(used)
    add(after, added)
    exceeded = sorted(name for name in added if after[name] > hard[name])
    if exceeded and write.subresource != "status":
        parts = (("requested", added), ("used", used), ("limited", hard))
        texts = (f"{what}: {','.join(f'{name}={amounts[name]}' for name in exceeded)}" for what, amounts in parts)
        raise Denied(f"exceeded quota: {quota.metadata.name}, {', '.join(texts)}")
    return _texts(after)


def names_of(strategy: Strategy, names: Iterable[str]) -> set[str]:
    """The names among those that a quota limits under which objects of a kind are counted."""
    usage = strategy.usage
    if not usage.is_counted or not strategy.kind.namespaced:
        return set()
    counts = _counts(strategy)
    return {name for name in names if name in counts or usage.names(name)}


def counted(strategy: Strategy, item: Object | None, quota: ResourceQuota, now: datetime) -> Quantities:
    """What a quota counts of an object; nothing of one that does not exist."""
    if item is None or not _is_counted(strategy, item, quota.spec):
        return {}
    names = names_of(strategy, quota.spec.hard)
    return {name: amount for name, amount in _usage(strategy, item, now).items() if name in names}


def measure(quota: ResourceQuota, objects: Iterable[tuple[Strategy, Iterable[Object]]], now: datetime) -> ResourceList:
    """What is in use of a quota, by all objects of the kinds that it counts. Names that none has keep their amounts."""
    hard = quota.spec.hard
    used = {name: amount for name, amount in _quantities(quota.status.used).items() if name in hard}
    for strategy, items in objects:
        names = names_of(strategy, hard)
        used |= _total(strategy, [item for item in items if _is_counted(strategy, item, quota.spec)], names, now)
    return _texts(used)


def _total(strategy: Strategy, items: Iterable[Object], names: Collection[str], now: datetime) -> Quantities:
    total = dict.fromkeys(names, _ZERO)
    for item in items:
        add(total, {name: amount for name, amount in _usage(strategy, item, now).items() if name in names})
    return total


def _usage(strategy: Strategy, item: Object, now: datetime) -> Quantities:
    return {**dict.fromkeys(_counts(strategy), ONE), **strategy.usage.amounts(item, now)}


def _counts(strategy: Strategy) -> tuple[str, ...]:
    count = f"count/{strategy.kind.resource}"
    return (count, strategy.usage.alias) if strategy.usage.alias else (count,)


def _is_counted(strategy: Strategy, item: Object, spec: ResourceQuotaSpec) -> bool:
    return all(strategy.usage.matches(item, selector) for selector in _selectors(spec))


def _selectors(spec: ResourceQuotaSpec) -> Iterator[ScopedResourceSelectorRequirement]:
    for scope in spec.scopes:
        yield ScopedResourceSelectorRequirement(scope, "Exists")
    if spec.scope_selector is not None:
        yield from spec.scope_selector.match_expressions


def _quantities(amounts: ResourceList) -> Quantities:
    return {name: Quantity.of(amount) for name, amount in amounts.items()}


def _texts(amounts: Quantities) -> ResourceList:
    return {name: str(amount) for name, amount in amounts.items()}
