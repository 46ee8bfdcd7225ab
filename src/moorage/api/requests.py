"""What a pod takes of a node: the resource requests of its containers, added up as in Kubernetes, and host ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moorage.api.meta import ResourceList
from moorage.api.pod import Container, PodSpec
from moorage.bounded import remember_short
from moorage.quantity import Quantity, QuantityError

CPU, MEMORY, EPHEMERAL, PODS = "cpu", "memory", "ephemeral-storage", "pods"
DEFAULT_MILLI_CPU, DEFAULT_MEMORY = 100, 200 * 1024 * 1024
"""What a container that asks for nothing counts as when nodes are scored."""

_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_KNOWN, _SHORT = 4096, 64
"""How many texts are remembered with their amounts, and how long they may be."""

Amounts = dict[str, int]
"""Milli-cores of cpu, whole units of everything else."""
MOST = 2**56
"""No amount and no sum of amounts counts as more: a hundred times as much fits into 64 bits."""


def amounts(resources: ResourceList) -> Amounts:
    """Quantities as integers; one that cannot be parsed is 0."""
    return {name: amount(name, value) for name, value in resources.items()}


def amount(name: str, value: str | int | float) -> int:
    """One quantity as an integer, rounded up, and no more than there can be of anything."""
    return _known(value, name == CPU) if isinstance(value, str) else _rounded(value, name == CPU)


def _rounded(value: str | int | float, in_thousandths: bool) -> int:
    try:
        quantity = Quantity.of(value)
    except QuantityError:
        return 0
    return max(-MOST, min(MOST, quantity.milli_value() if in_thousandths else quantity.value()))


@remember_short(_KNOWN, _SHORT)
def _known(text: str, in_thousandths: bool) -> int:
    """The same: pods and nodes by the thousand have the same texts."""
    return _rounded(text, in_thousandths)


def amount_text(name: str, value: int) -> str:
    """An amount as people write it, rounded down to one decimal place: `3.2`, `1.5Gi`."""
    if name == CPU:
        return f"{value / 1000:.3f}".rstrip("0").rstrip(".")
    if not (name in (MEMORY, EPHEMERAL) or name.startswith("hugepages-")):
        return str(value)
    unit = min(max(abs(value).bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    tenths = value * 10 >> 10 * unit
    return f"{tenths // 10}.{tenths % 10}".removesuffix(".0") + _UNITS[unit]


def pod_requests(spec: PodSpec, missing: Mapping[str, int] | None = None) -> Amounts:
    """The sum of the containers, at least the largest init container, then pod-level requests and the overhead.

    `missing` is what a container counts as for resources that it does not name.
    """
    total: Amounts = {}
    for container in spec.containers:
        _add(total, _container(container, missing))
    beside: Amounts = {}
    largest: Amounts = {}
    for container in spec.init_containers:
        asked = _container(container, missing)
        if container.restart_policy == "Always":
            _add(total, asked)
            _add(beside, asked)
            asked = dict(beside)
        else:
            _add(asked, beside)
        _raise_to(largest, asked)
    _raise_to(total, largest)
    if spec.resources is not None:
        for name, value in spec.resources.requests.items():
            if name in (CPU, MEMORY) or name.startswith("hugepages-"):
                total[name] = amount(name, value)
    _add(total, amounts(spec.overhead))
    return total


def _container(container: Container, missing: Mapping[str, int] | None) -> Amounts:
    asked = amounts(container.resources.requests)
    for name, value in (missing or {}).items():
        asked.setdefault(name, value)
    return asked


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = min(MOST, total.get(name, 0) + value)


def _raise_to(total: Amounts, least: Mapping[str, int]) -> None:
    for name, value in least.items():
        total[name] = max(total.get(name, 0), value)


class HostPort(NamedTuple):
    """A port that a pod takes of its node."""

    protocol: str
    address: str
    port: int

    @property
    def taken(self) -> tuple[HostPort, HostPort]:
        """What is taken of a node: the port at its address, and the port at some address."""
        return self, self._replace(address=_SOME_ADDRESS)

    @property
    def needed(self) -> tuple[HostPort, ...]:
        """What must not be taken of a node, so that many ports need not be compared one by one."""
        if self.address == _ANY_ADDRESS:
            return (self._replace(address=_SOME_ADDRESS),)
        return self, self._replace(address=_ANY_ADDRESS)


_ANY_ADDRESS = "0.0.0.0"
_SOME_ADDRESS = ""


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The ports that a pod takes of its node."""
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    return tuple(
        HostPort(port.protocol or "TCP", port.host_ip or _ANY_ADDRESS, port.host_port)
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    )


def images_of(spec: PodSpec) -> tuple[str, ...]:
    """The images of a pod's containers and volumes, each with its tag."""
    containers = (container.image for container in (*spec.init_containers, *spec.containers))
    volumes = (volume.image.reference for volume in spec.volumes if volume.image is not None)
    return tuple(map(normalized_image, (*containers, *volumes)))


def normalized_image(name: str) -> str:
    """An image's name with the tag that it has when none is written."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
