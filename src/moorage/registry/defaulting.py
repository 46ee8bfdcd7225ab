"""Setting fields that an object leaves open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moorage.api.meta import Data
from moorage.quantity import Quantity


def fill(part: Data, defaults: Iterable[tuple[str, Any]]) -> None:
    """Set the defaults of fields that are absent, empty or zero."""
    for name, value in defaults:
        if not part.get(name):
            part[name] = value


def absent(part: Data, **defaults: Any) -> None:
    """Set the defaults of fields that are absent; an empty or zero value is kept."""
    for name, value in defaults.items():
        part.setdefault(name, value)


def keep(new: Data, old: Data, names: Iterable[str]) -> None:
    """Set fields to what they were: to their old values, or absent."""
    for name in names:
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)


def round_up(amounts: Data) -> None:
    """Round quantities up to thousandths, as Kubernetes does."""
    for name, value in amounts.items():
        quantity = Quantity.parse(value)
        if quantity.nano % 10**6:
            milli = -(-quantity.nano // 10**6)
            amounts[name] = str(Quantity(milli * 10**6, quantity.format))
