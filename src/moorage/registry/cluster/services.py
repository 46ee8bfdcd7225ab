"""Services."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.names import label_key_errors
from moorage.registry import namesyntax, selectable
from moorage.registry.checks import Errors, one_of, port, port_number, syntax
from moorage.registry.cluster import allocation
from moorage.registry.cluster.serviceupdates import is_externally_accessible, needs_health_port, update_service
from moorage.registry.defaulting import fill
from moorage.registry.merging import ATOMIC, keyed, shape, struct
from moorage.registry.metadata import label_errors
from moorage.registry.printing import cells
from moorage.registry.printing.ages import UNKNOWN
from moorage.registry.printing.cells import NONE, PrintedRow
from moorage.registry.printing.columns import AGE, NAME, column, wide
from moorage.registry.printing.podsummary import Printable
from moorage.registry.state import Dependency, State
from moorage.registry.strategy import Strategy
from moorage.validation.field import duplicate, forbidden, invalid, not_supported, required

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_POLICIES = ("Cluster", "Local")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_MAX_AFFINITY_SECONDS = 86400
_HEALTH = "healthCheckNodePort"


def _defaults(obj: Data, _: str) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, (("sessionAffinity", "None"), ("type", "ClusterIP")))
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", 10800)
    for entry in spec.get("ports", ()):
        fill(entry, (("protocol", "TCP"),))
        if entry.get("port"):
            fill(entry, (("targetPort", entry["port"]),))
    kind = spec["type"]
    if kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs")):
        fill(spec, (("externalTrafficPolicy", "Cluster"),))
    if kind in ("LoadBalancer", "NodePort", "ClusterIP"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in obj.get("status", {}).get("loadBalancer", {}).get("ingress", ()):
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _create(obj: Data, _: str) -> None:
    obj["status"] = {"loadBalancer": {}}


def service_errors(new: Data, old: Data | None) -> Errors:
    """Validate a Service, or an update of one."""
    spec = new.get("spec", {})
    kind, ports = spec.get("type", ""), spec.get("ports", [])
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    yield from _type_errors(spec, kind, headless=headless)
    yield from _port_list_errors(ports, kind)
    yield from label_errors("spec.selector", spec.get("selector", {}))
    yield from _affinity_errors(spec)
    if kind != "ExternalName":
        yield from _address_errors(spec)
    yield from one_of("spec.type", kind, _TYPES)
    yield from _traffic_errors(spec)
    if old is not None:
        yield from _update_errors(spec, old.get("spec", {}))


def _type_errors(spec: Data, kind: str, *, headless: bool) -> Errors:
    if headless and kind in ("LoadBalancer", "NodePort"):
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(name):
                yield forbidden(f"spec.{name}", "may not be set for ExternalName services")
        alias = spec.get("externalName", "").removesuffix(".")
        if not alias:
            yield required("spec.externalName")
        else:
            yield from syntax("spec.externalName", alias, namesyntax.subdomain(alias))
    if "allocateLoadBalancerNodePorts" in spec and kind != "LoadBalancer":
        yield forbidden("spec.allocateLoadBalancerNodePorts", "may only be used when `type` is 'LoadBalancer'")
    if spec.get("loadBalancerSourceRanges") and kind != "LoadBalancer":
        yield forbidden("spec.LoadBalancerSourceRanges", "may only be used when `type` is 'LoadBalancer'")


def _port_list_errors(ports: list[Data], kind: str) -> Errors:
    names: set[str] = set()
    seen: set[tuple[str, int]] = set()
    node_ports: set[tuple[str, int]] = set()
    for index, entry in enumerate(ports):
        path = f"spec.ports[{index}]"
        yield from _port_errors(path, entry, names, is_named=len(ports) > 1)
        if entry.get("nodePort"):
            if kind == "ClusterIP":
                yield forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")
            node_key = (entry.get("protocol", ""), entry["nodePort"])
            if node_key in node_ports:
                yield duplicate(f"{path}.nodePort", entry["nodePort"])
            node_ports.add(node_key)
        key = (entry.get("protocol", ""), entry.get("port", 0))
        if key in seen:
            yield duplicate(path, {"protocol": key[0], "port": key[1]})
        seen.add(key)


def _port_errors(path: str, entry: Data, names: set[str], *, is_named: bool) -> Errors:
    name = entry.get("name", "")
    if not name:
        if is_named:
            yield required(f"{path}.name")
    else:
        yield from syntax(f"{path}.name", name, namesyntax.label(name))
        if name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)
    yield from port_number(f"{path}.port", entry.get("port", 0))
    yield from one_of(f"{path}.protocol", entry.get("protocol"), _PROTOCOLS)
    yield from port(f"{path}.targetPort", entry.get("targetPort"))
    if protocol := entry.get("appProtocol"):
        yield from syntax(f"{path}.appProtocol", protocol, label_key_errors(protocol))


def _affinity_errors(spec: Data) -> Errors:
    affinity, config = spec.get("sessionAffinity"), spec.get("sessionAffinityConfig")
    yield from one_of("spec.sessionAffinity", affinity, _AFFINITIES)
    if affinity == "None" and config is not None:
        yield forbidden("spec.sessionAffinityConfig", "must not be set when session affinity is None")
    if affinity == "ClientIP":
        seconds = (config or {}).get("clientIP", {}).get("timeoutSeconds", 0)
        if not 0 < seconds <= _MAX_AFFINITY_SECONDS:
            path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            yield invalid(path, seconds, f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}")


def _address_errors(spec: Data) -> Errors:
    first, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    if first and addresses and addresses[0] != first:
        yield invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    if not first and addresses:
        yield invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified")
    yield from _family_errors(spec)
    if "None" in addresses and len(addresses) > 1:
        yield invalid("spec.clusterIPs", addresses, "'None' must be the first and only value")
    for index, address in enumerate(addresses or ([first] if first else [])):
        if address != "None":
            yield from syntax(f"spec.clusterIPs[{index}]", address, namesyntax.address(address))
    if len(addresses) > 2:
        yield invalid("spec.clusterIPs", addresses, "may only hold up to 2 values")


def _family_errors(spec: Data) -> Errors:
    for index, family in enumerate(spec.get("ipFamilies", ())):
        if family not in _FAMILIES:
            yield not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in spec["ipFamilies"][:index]:
            yield duplicate(f"spec.ipFamilies[{index}]", family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        yield not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES)


def _traffic_errors(spec: Data) -> Errors:
    external, internal = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    if is_externally_accessible(spec):
        yield from one_of("spec.externalTrafficPolicy", external, _POLICIES)
    elif external:
        yield invalid("spec.externalTrafficPolicy", external, "may only be set for externally-accessible services")
    if internal is not None and internal not in _POLICIES:
        yield not_supported("spec.internalTrafficPolicy", internal, _POLICIES)
    if spec.get(_HEALTH) and not needs_health_port(spec):
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid(f"spec.{_HEALTH}", spec[_HEALTH], why)
    for index, address in enumerate(spec.get("externalIPs", ())):
        yield from syntax(f"spec.externalIPs[{index}]", address, namesyntax.address(address))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        yield not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS)


def _update_errors(spec: Data, before: Data) -> Errors:
    """Cluster IPs are immutable, unless the Service becomes or was an ExternalName."""
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return
    if needs_health_port(spec) and needs_health_port(before) and spec.get(_HEALTH) != before.get(_HEALTH):
        yield forbidden(f"spec.{_HEALTH}", "field is immutable")
    addresses, old_addresses = spec.get("clusterIPs", []), before.get("clusterIPs", [])
    if old_addresses and not addresses:
        yield invalid("spec.clusterIPs[0]", addresses, "primary clusterIP can not be unset")
    for index, (address, old) in enumerate(zip(addresses, old_addresses, strict=False)):
        if address != old and (index == 0 or len(addresses) == len(old_addresses)):
            yield invalid(f"spec.clusterIPs[{index}]", addresses, "may not change once set")


def _service_cluster_ip(row: PrintedRow) -> str:
    """The first cluster IP."""
    addresses = row.spec.get("clusterIPs")
    return addresses[0] if addresses else row.spec.get("clusterIP") or NONE


def _service_external_ip(row: PrintedRow) -> str:
    """The addresses of a Service for clients outside of the cluster."""
    match row.spec.get("type") or "ClusterIP":
        case "ExternalName":
            return row.spec.get("externalName") or ""
        case "ClusterIP" | "NodePort":
            return cells.joined(row.spec.get("externalIPs") or (), otherwise=NONE)
        case "LoadBalancer":
            ingress = (row.status.get("loadBalancer") or {}).get("ingress") or ()
            points = {entry.get("ip") or entry.get("hostname") or "" for entry in ingress} - {""}
            return cells.joined([*sorted(points), *(row.spec.get("externalIPs") or ())], otherwise="<pending>")
    return UNKNOWN


def _service_ports(row: PrintedRow) -> str:
    """The ports of a Service, with their node ports."""
    return cells.joined(map(_port, row.spec.get("ports") or ()), otherwise=NONE)


def _port(port: Printable) -> str:
    node_port = port.get("nodePort")
    number = f"{port.get('port', 0)}:{node_port}" if node_port else str(port.get("port", 0))
    return f"{number}/{port.get('protocol') or 'TCP'}"


def _conflicts(new: Data, old: Data | None, state: State) -> Errors:
    """An address or a port that is outside of its range or that another service has."""
    uid = new["metadata"]["uid"]
    others = [service["spec"] for service in state.all(SERVICE.kind) if service["metadata"].get("uid") != uid]
    yield from allocation.address_errors(new["spec"], old, others)
    yield from allocation.port_errors(new["spec"], old, others)


SERVICE = Strategy(
    kind=kinds.row("v1", "Service"),
    names=namesyntax.label,
    defaults=_defaults,
    create=_create,
    update=update_service,
    depends_on=(Dependency(kinds.row("v1", "Service"), for_updates=True),),
    conflicts=_conflicts,
    errors=service_errors,
    fields={
        **selectable.NAMES,
        "spec.clusterIP": selectable.at("spec.clusterIP"),
        "spec.type": selectable.at("spec.type"),
    },
    merge=shape(
        spec=struct(ports=keyed("port", "protocol", port=0, protocol="TCP"), selector=ATOMIC),
        status=struct(conditions=keyed("type"), loadBalancer=struct()),
    ),
    columns=(
        NAME,
        column("Type", cells.at("spec.type", "ClusterIP"), "From where it is reached."),
        column("Cluster-IP", _service_cluster_ip, "Its address inside of the cluster."),
        column("External-IP", _service_external_ip, "Its addresses for the outside."),
        column("Port(s)", _service_ports, "Its ports."),
        AGE,
        wide("Selector", lambda row: cells.label_text(row.spec.get("selector")), "The labels of the pods behind it."),
    ),
)
