"""The ranges of service addresses and node ports, and whether a service can have those that it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network

from moorage.api.meta import Data
from moorage.registry.checks import Errors
from moorage.registry.cluster.serviceupdates import REACHABLE, needs_health_port
from moorage.validation.field import invalid

ADDRESSES = IPv4Network("10.96.0.0/16")
PORTS = range(30000, 32768)
_OUTSIDE = f"provided port is not in the valid range. The range of valid ports is {PORTS.start}-{PORTS.stop - 1}"
_ALLOCATED = "provided port is already allocated"


def asked_address(spec: Data) -> str:
    """The cluster IP that a service asks for; empty when any will do."""
    return spec.get("clusterIP") or next(iter(spec.get("clusterIPs", ())), "")


def addresses_in(specs: Iterable[Data]) -> set[str]:
    """The cluster IPs of services."""
    return {address for spec in specs for address in spec.get("clusterIPs", (spec.get("clusterIP", ""),))}


def ports_in(specs: Iterable[Data]) -> set[int]:
    """The node ports of services."""
    return {port for spec in specs for port in _ports(spec)}


def _ports(spec: Data) -> Iterator[int]:
    yield from (port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort"))
    if health := spec.get("healthCheckNodePort"):
        yield health


def address_errors(spec: Data, old: Data | None, others: Iterable[Data]) -> Errors:
    """What is wrong with the address that a service asks for."""
    asked = asked_address(spec)
    had_address = old is not None and old["spec"].get("type") != "ExternalName"
    if spec.get("type") == "ExternalName" or not asked or had_address:
        return
    try:
        address = IPv4Address(asked)
    except ValueError:
        return  # "None" or not an address: validation decides
    problem = ""
    if address not in ADDRESSES:
        problem = f"the provided IP ({asked}) is not in the valid range. The range of valid IPs is {ADDRESSES}"
    elif asked in addresses_in(others):
        problem = "provided IP is already allocated"
    if problem:
        yield invalid("spec.clusterIPs", spec.get("clusterIPs", [asked]), f"failed to allocate IP {asked}: {problem}")


def port_errors(spec: Data, old: Data | None, others: Iterable[Data]) -> Errors:
    """What is wrong with the node ports that a service asks for, and does not have already."""
    if spec.get("type") not in REACHABLE:
        return
    held, taken = set(_ports(old["spec"]) if old else ()), ports_in(others)
    own: dict[int, int] = {}
    for index, port in enumerate(spec.get("ports", ())):
        number, path = port.get("nodePort", 0), f"spec.ports[{index}].nodePort"
        # A port that is served with several protocols has one node port.
        if number and own.get(port.get("port", 0)) != number and number not in held:
            if number in taken:
                yield invalid(path, number, _ALLOCATED)
            elif number not in PORTS:
                yield invalid(path, number, _OUTSIDE)
            taken.add(number)
        own[port.get("port", 0)] = number
    health = spec.get("healthCheckNodePort", 0) if needs_health_port(spec) else 0
    if health and health not in held and (health in taken or health not in PORTS):
        why = f"failed to allocate requested HealthCheck NodePort {health}: "
        yield invalid("spec.healthCheckNodePort", health, why + (_ALLOCATED if health in taken else _OUTSIDE))
