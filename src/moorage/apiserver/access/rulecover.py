"""Which rights of some rules are not among those of others, without multiplying rules out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from moorage.apiserver.access.roles import ALL, RoleRule

MOST_COMPARED = 100_000
"""How many comparisons are made: a role of one's own rights needs some hundreds."""

Masks = dict[str, int]


class TooManyRights(Exception):
    """The rules combine too much to be compared."""


class _Held:
    """Held rules by what they are about. Bit n of a mask stands for rule n."""

    def __init__(self, rules: Iterable[RoleRule]) -> None:
        self._verbs: Masks = {}
        self._groups: Masks = {}
        self._resources: Masks = {}
        self._names: Masks = {}
        self._urls: Masks = {}
        self.unnamed = 0
        for number, rule in enumerate(rules):
            tables = (self._verbs, self._groups, self._resources, self._names, self._urls)
            for table, values in zip(tables, rule, strict=True):
                for value in values:
                    table[value] = table.get(value, 0) | 1 << number
            self.unnamed |= 0 if rule.names else 1 << number

    def verb(self, text: str) -> int:
        return self._verbs.get(text, 0) | self._verbs.get(ALL, 0)

    def group(self, text: str) -> int:
        return self._groups.get(text, 0) | self._groups.get(ALL, 0)

    def resource(self, text: str) -> int:
        resource, _, subresource = text.partition("/")
        mask = self._resources.get(ALL, 0) | self._resources.get(text if subresource else resource, 0)
        return mask | self._resources.get(f"*/{subresource}", 0) if subresource else mask

    def name(self, text: str) -> int:
        return self._names.get(text, 0) | self.unnamed

    def url(self, path: str) -> int:
        mask = self._urls.get(path, 0)
        for url, rules in self._urls.items():
            if url.endswith(ALL) and path.startswith(url.rstrip(ALL)):
                mask |= rules
        return mask


class _Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, comparisons: int) -> None:
        self.count += comparisons
        if self.count > MOST_COMPARED:
            raise TooManyRights


def uncovered(held: Iterable[RoleRule], granted: Iterable[RoleRule]) -> Iterator[RoleRule]:
    """The parts of the granted rules that no held rule covers: some verbs on one resource, or one on a path.

    Values that the same held rules are about are compared together. Raises TooManyRights.
    """
    own, counter = _Held(held), _Counter()
    for rule in granted:
        verbs = {verb: own.verb(verb) for verb in rule.verbs}
        if rule.groups and rule.resources:
            yield from _resources(own, rule, verbs, counter)
        for mask, urls in _alike({url: own.url(url) for url in rule.urls}).items():
            counter.add(len(verbs) + len(urls))
            missing = _missing(verbs, mask)
            yield from (RoleRule((verb,), urls=(url,)) for url, verb in product(urls, missing))


def _resources(own: _Held, rule: RoleRule, verbs: Masks, counter: _Counter) -> Iterator[RoleRule]:
    groups = _alike({group: own.group(group) for group in rule.groups})
    resources = _alike({resource: own.resource(resource) for resource in rule.resources})
    names: Mapping[int, list[str]] = _alike({name: own.name(name) for name in rule.names}) or {own.unnamed: []}
    kinds = set(verbs.values())
    for group_mask, resource_mask in product(groups, resources):
        either = group_mask & resource_mask
        counter.add(len(kinds))
        if all(kind & either & own.unnamed for kind in kinds):
            continue
        for name_mask, alike in names.items():
            counter.add(len(kinds))
            if all(kind & either & name_mask for kind in kinds):
                continue
            counter.add(len(verbs))
            missing = _missing(verbs, either & name_mask)
            for group, resource in product(groups[group_mask], resources[resource_mask]):
                yield from (RoleRule(missing, (group,), (resource,), (name,)) for name in alike)
                if not alike:
                    yield RoleRule(missing, (group,), (resource,))


def _alike(masks: Masks) -> dict[int, list[str]]:
    """The values by the held rules that are about them."""
    values: dict[int, list[str]] = {}
    for value, mask in masks.items():
        values.setdefault(mask, []).append(value)
    return values


def _missing(verbs: Masks, mask: int) -> tuple[str, ...]:
    return tuple(verb for verb, own in verbs.items() if not own & mask)
