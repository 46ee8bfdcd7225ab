"""The QoS class of a pod, by the requests and limits of its containers."""

from __future__ import annotations

from typing import Any

from moorage.quantity import Quantity

_COMPUTE = ("cpu", "memory")


def qos_class(spec: dict[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort."""
    holders = [spec] if "resources" in spec else [*spec.get("containers", ()), *spec.get("initContainers", ())]
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    is_limited = True
    for holder in holders:
        resources = holder.get("resources", {})
        _add(requests, resources.get("requests", {}))
        count = _add(limits, resources.get("limits", {}))
        # Pod-level limits may be absent altogether, but not only for one of the two resources.
        is_limited = is_limited and (count == 2 or (holder is spec and not resources.get("limits")))
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_limited and requests == limits else "Burstable"


def _add(totals: dict[str, int], amounts: dict[str, str]) -> int:
    count = 0
    for name in _COMPUTE:
        if name in amounts and (nano := Quantity.of(amounts[name]).nano) > 0:
            totals[name] = totals.get(name, 0) + nano
            count += 1
    return count
