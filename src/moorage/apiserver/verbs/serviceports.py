"""The node ports of services, each allocated once."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decoded, prefix
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
    pool = _Pool(store, ports_in([spec, *(decoded(item)["spec"] for item in services)]), service, dry=dry)
    for port in missing:
        own = port.get("port", 0)
        if own not in named:
            named[own] = await pool.take_next("spec.ports[0].nodePort")
        port["nodePort"] = named[own]
    if needs_health:
        spec["healthCheckNodePort"] = await pool.take_next("spec.healthCheckNodePort")


class _Pool:
    """The ports that one service can still get."""

    def __init__(self, store: Store, taken: set[int], service: Data, *, dry: bool) -> None:
        self._store = store
        self._taken = taken
        self._service = service
        self._dry = dry

    async def take_next(self, path: str) -> int:
        """Take any port that is free; Refused when there is none."""
        for numbers in (_FIRST_CHOICE, _LAST_CHOICE):
            number = await next_free(self._store, _LAST, numbers, self._is_free, dry=self._dry)
            if number is not None:
                self._taken.add(number)
                return number
        problem = field.invalid(path, 0, "failed to allocate a nodePort: range is full")
        raise invalid(_SERVICE, self._service["metadata"].get("name", ""), [problem])

    def _is_free(self, number: int) -> bool:
        return number not in self._taken
