"""The cluster IPs of services: each service gets the next one that is free."""

from __future__ import annotations

from ipaddress import IPv4Address

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decoded, prefix
from moorage.apiserver.base.pacing import in_slices
from moorage.apiserver.http.failures import invalid
from moorage.apiserver.verbs.ranges import next_free
from moorage.registry.cluster.allocation import ADDRESSES, addresses_in, asked_address
from moorage.store.protocol import Store
from moorage.validation import field

_SERVICE = kinds.row("v1", "Service")
_ALLOCATED = range(int(ADDRESSES[2]), int(ADDRESSES.broadcast_address))
"""The first address is the API server's own."""
_LAST = "/registry/ranges/serviceips"


async def give_address(store: Store, service: Data, *, dry: bool) -> None:
    """Give a service the cluster IP that it asks for, or the next one that is free."""
    if service["spec"].get("type") != "ExternalName":
        give_cluster_ip(service, asked_address(service["spec"]) or await _next(store, service, dry=dry))


def give_cluster_ip(service: Data, address: str) -> None:
    """Fill in the cluster IP of a service, `None` for a headless one, and the fields that follow from it."""
    spec = service["spec"]
    spec["clusterIP"] = address
    spec.setdefault("clusterIPs", [address])
    spec.setdefault("ipFamilies", ["IPv6" if ":" in address else "IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


async def _next(store: Store, service: Data, *, dry: bool) -> str:
    services = (await store.list(prefix(_SERVICE))).items
    taken = addresses_in([decoded(item)["spec"] async for item in in_slices(services)])
    free = await next_free(store, _LAST, _ALLOCATED, lambda number: str(IPv4Address(number)) not in taken, dry=dry)
    if not free:
        problem = field.invalid("spec.clusterIPs", [], "failed to allocate IP: range is full")
        raise invalid(_SERVICE, service["metadata"].get("name", ""), [problem])
    return str(IPv4Address(free[0]))
