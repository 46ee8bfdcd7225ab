"""Updates of a Service: allocated addresses and ports are kept, fields that its new type does not use are cleared."""

from __future__ import annotations

from collections.abc import Callable

from moorage.api.meta import Data

REACHABLE = ("LoadBalancer", "NodePort")
"""The types of Services that have node ports."""


def needs_ports(spec: Data) -> bool:
    """Whether the ports of a Service get node ports."""
    return spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
    )


def needs_health_port(spec: Data) -> bool:
    """Whether a Service gets a healthCheckNodePort."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _has_cluster_ip(spec: Data) -> bool:
    return spec.get("type") != "ExternalName"


def _is_load_balancer(spec: Data) -> bool:
    return spec.get("type") == "LoadBalancer"


def is_externally_accessible(spec: Data) -> bool:
    """Whether clients outside of the cluster can reach a Service."""
    return spec.get("type") in REACHABLE or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


_ALLOCATED: dict[str, Callable[[Data], bool]] = {
    "clusterIP": _has_cluster_ip,
    "clusterIPs": _has_cluster_ip,
    "ipFamilies": _has_cluster_ip,
    "ipFamilyPolicy": _has_cluster_ip,
    "healthCheckNodePort": needs_health_port,
}
"""Fields that the server allocates, and which Services use them."""
_USED = {
    **_ALLOCATED,
    "allocateLoadBalancerNodePorts": _is_load_balancer,
    "loadBalancerClass": _is_load_balancer,
    "externalTrafficPolicy": is_externally_accessible,
}
"""Fields that only some types of Services use."""


def update_service(new: Data, old: Data, _: str) -> None:
    """Keep the allocated fields, and clear those that the new type does not use, unless this update has set them."""
    spec, before = new.setdefault("spec", {}), old.get("spec", {})
    if spec.get("clusterIP") and spec.get("clusterIPs") in (None, [], before.get("clusterIPs")):
        spec["clusterIPs"] = [spec["clusterIP"], *spec.get("clusterIPs", [])[1:]]
    for name, is_used in _ALLOCATED.items():
        if is_used(before) and is_used(spec) and not spec.get(name) and name in before:
            spec[name] = before[name]
    for name, is_used in _USED.items():
        if is_used(before) and not is_used(spec) and spec.get(name) == before.get(name):
            spec.pop(name, None)
    if needs_ports(before) and needs_ports(spec):
        _keep_node_ports(spec, before)
    if (
        before.get("type") in REACHABLE
        and spec.get("type") not in REACHABLE
        and _node_ports(spec) <= _node_ports(before)
    ):
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)
    if not _is_load_balancer(spec):
        new["status"] = {**new.get("status", {}), "loadBalancer": {}}


def _keep_node_ports(spec: Data, before: Data) -> None:
    allocated = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports", ())}
    used = _node_ports(spec)
    for port in spec.get("ports", ()):
        number = allocated.get(port.get("name", ""))
        if number and not port.get("nodePort") and number not in used:
            port["nodePort"] = number


def _node_ports(spec: Data) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")}
