"""The node ports of services, each allocated once."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decoded, prefix
from moorage.apiserver.base.pacing import in_slices
from moorage.apiserver.http.failures import invalid
from moorage.apiserver.verbs.ranges import next_free
from moorage.registry.cluster.allocation import PORTS, ports_in
from moorage.registry.cluster.serviceupdates import REACHABLE, needs_health_port, needs_ports
from moorage.store.protocol import Store
from moorage.validation import field

_SERVICE = kinds.row("v1", "Service")
_FIRST_CHOICE, _LAST_CHOICE = range(PORTS.start + 86, PORTS.stop), range(PORTS.start, PORTS.start + 86)
"""The first ports are allocated last: they are those that people ask for."""
_LAST = "/registry/ranges/servicenodeports"


async def give_ports(store: Store, service: Data, *, dry: bool) -> None:
    """Allocate the node ports that a service needs and does not name."""
    spec = service["spec"]
    if spec.get("type") not in REACHABLE:
        return
    # A port that is served with several protocols has one node port.
    named = {port.get("port", 0): port["nodePort"] for port in reversed(spec.get("ports", ())) if port.get("nodePort")}
    missing = [port for port in spec.get("ports", ()) if not port.get("nodePort")] if needs_ports(spec) else []
    needs_health = needs_health_port(spec) and not spec.get("healthCheckNodePort")
    if not missing and not needs_health:
        return
    services = (await store.list(prefix(_SERVICE))).items
    taken = ports_in([spec, *[decoded(item)["spec"] async for item in in_slices(services)]])
    waiting = {port.get("port", 0) for port in missing} - named.keys()
    free = iter(await _free(store, taken, len(waiting) + needs_health, dry=dry))
    for port in missing:
        own = port.get("port", 0)
        if own not in named:
            named[own] = _next(free, service, "spec.ports", len(spec["ports"]))
        port["nodePort"] = named[own]
    if needs_health:
        spec["healthCheckNodePort"] = _next(free, service, "spec.healthCheckNodePort", 0)


async def _free(store: Store, taken: set[int], count: int, *, dry: bool) -> list[int]:
    """So many ports that are free, or as many as are left."""
    found: list[int] = []
    for numbers in (_FIRST_CHOICE, _LAST_CHOICE):
        if len(found) < count:
            left = count - len(found)
            found += await next_free(store, _LAST, numbers, lambda number: number not in taken, left, dry=dry)
    return found


def _next(free: Iterator[int], service: Data, path: str, value: int) -> int:
    if number := next(free, 0):
        return number
    problem = field.invalid(path, value, "failed to allocate a nodePort: range is full")
    raise invalid(_SERVICE, service["metadata"].get("name", ""), [problem])
