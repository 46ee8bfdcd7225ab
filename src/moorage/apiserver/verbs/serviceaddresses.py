"""The cluster IPs of services: each service gets the next one that is free."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decoded, prefix
from moorage.apiserver.http.failures import invalid
from moorage.apiserver.verbs.ranges import next_free
from moorage.store.protocol import Store
from moorage.validation import field

_SERVICE = kinds.row("v1", "Service")
_RANGE = IPv4Network("10.96.0.0/16")
_ALLOCATED = range(int(_RANGE[2]), int(_RANGE.broadcast_address))
"""The first address is the API server's own."""
_LAST = "/registry/ranges/serviceips"


async def give_address(store: Store, service: Data, *, dry: bool) -> None:
    """Allocate the cluster IP of a service; Refused when the one that it asks for cannot be had."""
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return
    asked = spec.get("clusterIP") or next(iter(spec.get("clusterIPs", ())), "")
    give_cluster_ip(service, asked or await _next(store, service, dry=dry))
    if asked and (problem := _problem(asked, await _taken(store))):
        raise _refused(service, f"failed to allocate IP {asked}: {problem}")


def give_cluster_ip(service: Data, address: str) -> None:
    """Fill in the cluster IP of a service, `None` for a headless one, and the fields that follow from it."""
    spec = service["spec"]
    spec["clusterIP"] = address
    spec.setdefault("clusterIPs", [address])
    spec.setdefault("ipFamilies", ["IPv6" if ":" in address else "IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _problem(asked: str, taken: set[str]) -> str:
    try:
        address = IPv4Address(asked)
    except ValueError:
        return ""  # "None" or not an address: validation decides
    if address not in _RANGE:
        return f"the provided IP ({asked}) is not in the valid range. The range of valid IPs is {_RANGE}"
    return "provided IP is already allocated" if asked in taken else ""


async def _next(store: Store, service: Data, *, dry: bool) -> str:
    taken = await _taken(store)
    number = await next_free(store, _LAST, _ALLOCATED, lambda number: str(IPv4Address(number)) not in taken, dry=dry)
    if number is None:
        raise _refused(service, "failed to allocate IP: range is full")
    return str(IPv4Address(number))


async def _taken(store: Store) -> set[str]:
    specs = [decoded(item)["spec"] for item in (await store.list(prefix(_SERVICE))).items]
    return {address for spec in specs for address in spec.get("clusterIPs", (spec.get("clusterIP", ""),))}


def _refused(service: Data, why: str) -> Exception:
    addresses = service["spec"].get("clusterIPs", [])
    return invalid(_SERVICE, service["metadata"].get("name", ""), [field.invalid("spec.clusterIPs", addresses, why)])
