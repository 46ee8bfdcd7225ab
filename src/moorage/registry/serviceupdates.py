"""What becomes of a service that is changed: it keeps what it was given and lets go of what its type does not use."""

from __future__ import annotations

from collections.abc import Callable

from moorage.api.meta import Data

REACHABLE = ("LoadBalancer", "NodePort")
"""The types of services that nodes have ports for."""


def needs_ports(spec: Data) -> bool:
    """Whether each port of a service is to have one of the nodes."""
    return spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
    )


def needs_health_port(spec: Data) -> bool:
    """Whether nodes are asked if they have pods of a service."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _has_address(spec: Data) -> bool:
    return spec.get("type") != "ExternalName"


def _is_balanced(spec: Data) -> bool:
    return spec.get("type") == "LoadBalancer"


def _is_reachable(spec: Data) -> bool:
    return spec.get("type") in REACHABLE or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


_GIVEN: dict[str, Callable[[Data], bool]] = {
    "clusterIP": _has_address,
    "clusterIPs": _has_address,
    "ipFamilies": _has_address,
    "ipFamilyPolicy": _has_address,
    "healthCheckNodePort": needs_health_port,
}
"""Fields that a service is given, and which services need them."""
_NEEDED = {
    **_GIVEN,
    "allocateLoadBalancerNodePorts": _is_balanced,
    "loadBalancerClass": _is_balanced,
    "externalTrafficPolicy": _is_reachable,
}


def update_service(new: Data, old: Data, _: str) -> None:
    """Keep what a service was given; drop what it needs no more, unless somebody has just changed it."""
    spec, before = new.setdefault("spec", {}), old.get("spec", {})
    for name, needs in _GIVEN.items():
        if needs(before) and needs(spec) and not spec.get(name) and name in before:
            spec[name] = before[name]
    for name, needs in _NEEDED.items():
        if needs(before) and not needs(spec) and spec.get(name) == before.get(name):
            spec.pop(name, None)
    if needs_ports(before) and needs_ports(spec):
        _keep_ports(spec, before)
    if before.get("type") in REACHABLE and spec.get("type") not in REACHABLE and _numbers(spec) <= _numbers(before):
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)
    if not _is_balanced(spec):
        new["status"] = {**new.get("status", {}), "loadBalancer": {}}


def _keep_ports(spec: Data, before: Data) -> None:
    known = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports", ())}
    used = _numbers(spec)
    for port in spec.get("ports", ()):
        number = known.get(port.get("name", ""))
        if number and not port.get("nodePort") and number not in used:
            port["nodePort"] = number


def _numbers(spec: Data) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")}
