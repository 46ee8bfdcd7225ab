"""What the containers of a pod request, or are limited to, together."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.api.meta import ResourceList
from moorage.api.pod import PodSpec
from moorage.quantity import Quantity
from moorage.registry.usage import Quantities, add

REQUESTS, LIMITS = "requests", "limits"


def quantities(amounts: ResourceList) -> Quantities:
    """Amounts as numbers."""
    return {name: Quantity.of(amount) for name, amount in amounts.items()}


def total(spec: PodSpec, part: str) -> Quantities:
    """The sum of the containers and sidecars, at least that of the init container that needs most."""
    together: Quantities = {}
    for container in spec.containers:
        add(together, quantities(getattr(container.resources, part)))
    sidecars: Quantities = {}
    largest: Quantities = {}
    for container in spec.init_containers:
        amounts = quantities(getattr(container.resources, part))
        if container.restart_policy == "Always":
            add(together, amounts)
            add(sidecars, amounts)
            amounts = dict(sidecars)
        else:
            add(amounts, sidecars)
        _raise_to(largest, amounts)
    _raise_to(together, largest)
    return together


def pod_level(spec: PodSpec, part: str) -> Quantities:
    """What the pod says for all its containers together."""
    return {} if spec.resources is None else quantities(getattr(spec.resources, part))


def _raise_to(together: Quantities, least: Mapping[str, Quantity]) -> None:
    for name, amount in least.items():
        if name not in together or together[name] < amount:
            together[name] = amount
