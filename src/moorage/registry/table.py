"""The strategies of all kinds, found in the folders of this room."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.registry import cluster, device, pod, storage, workload
from moorage.registry.merging import OBJECT, MergeShape
from moorage.registry.strategy import Strategy

_NAMESPACE = kinds.row("v1", "Namespace")


def _strategies() -> Iterator[Strategy]:
    for folder in (cluster, workload, storage, device, pod):
        for module in iter_modules(folder.__path__, f"{folder.__name__}."):
            contents = vars(import_module(module.name)).values()
            yield from (value for value in contents if isinstance(value, Strategy))


_BY_NAME = {(strategy.kind.group, strategy.kind.kind): strategy for strategy in _strategies()}


def strategy_of(kind: Kind) -> Strategy:
    """The strategy of a kind; one without any rules for questions that are not stored, such as reviews."""
    return _BY_NAME.get((kind.group, kind.kind)) or Strategy(kind=kind)


def strategy_named(group: str, kind: str) -> Strategy | None:
    """The strategy of a kind by its names."""
    return _BY_NAME.get((group, kind))


@cache
def depended_upon() -> frozenset[str]:
    """The resource names of the kinds on whose objects others depend when they are written."""
    dependencies = (dependency.kind for strategy in _BY_NAME.values() for dependency in strategy.depends_on)
    return frozenset(kind.resource for kind in (_NAMESPACE, *dependencies))


def shape_of(group: str, kind: str) -> MergeShape:
    """How objects of a kind merge."""
    strategy = _BY_NAME.get((group, kind))
    return OBJECT if strategy is None else strategy.merge
