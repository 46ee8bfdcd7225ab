"""What an object uses of a quota: its count for every kind, and for some kinds more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moorage.api.quota import ScopedResourceSelectorRequirement
from moorage.quantity import Quantity

ONE = Quantity.integer(1)
Quantities = dict[str, Quantity]
"""Amounts by the name of the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How objects of one kind are measured. The functions get them as the struct of their kind."""

    is_counted: bool = True
    """Whether quotas count them at all."""
    alias: str = ""
    """Another name of their count, beside `count/...`."""
    amounts: Callable[[Any, datetime], Mapping[str, Quantity]] = lambda *_: {}
    """What an object uses at a time, beside its count."""
    names: Callable[[str], bool] = lambda _: False
    """Whether a resource is one that `amounts` may name."""
    matches: Callable[[Any, ScopedResourceSelectorRequirement], bool] = lambda *_: False
    """Whether an object is in a scope."""
    missing: Callable[[Any, Collection[str]], str] = lambda *_: ""
    """What an object must say because quotas limit these resources; empty when it does."""
    updates: tuple[str, ...] = ()
    """The sub-resources whose updates may change what an object uses; the empty one is the object itself."""


COUNT = Usage()


def requires(selector: ScopedResourceSelectorRequirement, names: Collection[str]) -> bool:
    """Whether one of the names that an object has for a scope, such as that of its class, satisfies a requirement."""
    match selector.operator:
        case "Exists":
            return bool(names)
        case "DoesNotExist":
            return not names
        case "In":
            return any(name in selector.values for name in names)
        case _:
            return not names or any(name not in selector.values for name in names)


def add(total: Quantities, more: Mapping[str, Quantity]) -> None:
    """Add amounts to a sum."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount
