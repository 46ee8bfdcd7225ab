"""The node ports of services, each allocated once."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decoded, prefix
from moorage.apiserver.http.failures import invalid
from moorage.apiserver.http.messages import Reason, Refused, status
from moorage.apiserver.verbs.ranges import next_free
from moorage.registry.cluster.serviceupdates import REACHABLE, needs_health_port, needs_ports
from moorage.store.protocol import Store
from moorage.validation import field

_SERVICE = kinds.row("v1", "Service")
_ALL, _FIRST_CHOICE, _LAST_CHOICE = range(30000, 32768), range(30086, 32768), range(30000, 30086)
"""The first ports are allocated last: they are those that people ask for."""
_LAST = "/registry/ranges/servicenodeports"
_OUTSIDE = f"provided port is not in the valid range. The range of valid ports is {_ALL.start}-{_ALL.stop - 1}"


async def give_ports(store: Store, service: Data, old: Data | None, *, dry: bool) -> None:
    """Allocate the node ports of a service; Refused when one that it asks for cannot be had."""
    spec, held = service["spec"], set(_ports(old["spec"]) if old else ())
    if spec.get("type") not in REACHABLE:
        return
    requested = {port.get("nodePort", 0) for port in spec.get("ports", ())}
    if needs_health_port(spec):
        requested.add(spec.get("healthCheckNodePort", 0))
    if requested <= held:
        return
    services = (await store.list(prefix(_SERVICE))).items
    taken = {port for item in services for port in _ports(decoded(item)["spec"])} - held
    pool = _Pool(store, taken, held, dry=dry)
    await _give_node_ports(pool, service)
    if needs_health_port(spec):
        await _give_health_port(pool, spec)


async def _give_node_ports(pool: _Pool, service: Data) -> None:
    spec, name = service["spec"], service["metadata"].get("name", "")
    ports = spec.get("ports", ())
    # A port that is served with several protocols has one node port.
    requested = {port.get("port", 0): port["nodePort"] for port in reversed(ports) if port.get("nodePort")}
    allocated: dict[int, int] = {}
    for index, port in enumerate(ports):
        own = port.get("port", 0)
        number = port.get("nodePort") or allocated.get(own) or requested.get(own)
        if number and number != allocated.get(own) and (problem := pool.take(number)):
            raise invalid(_SERVICE, name, [field.invalid(f"spec.ports[{index}].nodePort", number, problem)])
        if not number and needs_ports(spec):
            number = await pool.take_next("a nodePort")
        if number:
            port["nodePort"] = allocated[own] = number


async def _give_health_port(pool: _Pool, spec: Data) -> None:
    number = spec.get("healthCheckNodePort")
    if number and (problem := pool.take(number)):
        raise _failed(f"failed to allocate requested HealthCheck NodePort {number}: {problem}")
    spec["healthCheckNodePort"] = number or await pool.take_next("a HealthCheck NodePort 0")


class _Pool:
    """The ports that one service can still get."""

    def __init__(self, store: Store, taken: set[int], held: set[int], *, dry: bool) -> None:
        self._store = store
        self._taken = taken
        self._held = held
        self._dry = dry

    def take(self, number: int) -> str:
        """Take a port that was asked for; the problem with it, empty when there is none."""
        if number in self._taken:
            return "provided port is already allocated"
        self._taken.add(number)
        return "" if number in _ALL else _OUTSIDE

    async def take_next(self, what: str) -> int:
        """Take any port that is free."""
        for numbers in (_FIRST_CHOICE, _LAST_CHOICE):
            number = await next_free(self._store, _LAST, numbers, self._is_free, dry=self._dry)
            if number is not None:
                self._taken.add(number)
                return number
        raise _failed(f"failed to allocate {what}: range is full")

    def _is_free(self, number: int) -> bool:
        return number not in self._taken and number not in self._held


def _ports(spec: Data) -> Iterator[int]:
    yield from (port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort"))
    if health := spec.get("healthCheckNodePort"):
        yield health


def _failed(why: str) -> Refused:
    return Refused(status(500, Reason.INTERNAL_ERROR, f"Internal error occurred: {why}"))
