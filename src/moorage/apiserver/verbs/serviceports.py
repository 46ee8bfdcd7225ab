"""The ports of nodes that lead to services: each is given once."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decoded, prefix
from moorage.apiserver.http.failures import invalid
from moorage.apiserver.http.messages import Reason, Refused, status
from moorage.apiserver.verbs.ranges import next_free
from moorage.registry.serviceupdates import REACHABLE, needs_health_port, needs_ports
from moorage.store.protocol import Store
from moorage.validation import field

_SERVICE = kinds.row("v1", "Service")
_ALL, _GIVEN, _LEFT = range(30000, 32768), range(30086, 32768), range(30000, 30086)
"""The first ports are given only when no others are left: people like to ask for them."""
_LAST = "/registry/ranges/servicenodeports"
_OUTSIDE = f"provided port is not in the valid range. The range of valid ports is {_ALL.start}-{_ALL.stop - 1}"


async def give_ports(store: Store, service: Data, old: Data | None, *, dry: bool) -> None:
    """Give the ports of a service some of the nodes, or see to it that nobody has those that it asks for."""
    spec, held = service["spec"], set(_ports(old["spec"]) if old else ())
    if spec.get("type") not in REACHABLE:
        return
    wanted = {port.get("nodePort", 0) for port in spec.get("ports", ())}
    if needs_health_port(spec):
        wanted.add(spec.get("healthCheckNodePort", 0))
    if wanted <= held:
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
    # A port that is there for several protocols leads to it by one number.
    asked = {port.get("port", 0): port["nodePort"] for port in reversed(ports) if port.get("nodePort")}
    given: dict[int, int] = {}
    for index, port in enumerate(ports):
        own = port.get("port", 0)
        number = port.get("nodePort") or given.get(own) or asked.get(own)
        if number and number != given.get(own) and (problem := pool.take(number)):
            raise invalid(_SERVICE, name, [field.invalid(f"spec.ports[{index}].nodePort", number, problem)])
        if not number and needs_ports(spec):
            number = await pool.take_next("a nodePort")
        if number:
            port["nodePort"] = given[own] = number


async def _give_health_port(pool: _Pool, spec: Data) -> None:
    number = spec.get("healthCheckNodePort")
    if number and (problem := pool.take(number)):
        raise _failed(f"failed to allocate requested HealthCheck NodePort {number}: {problem}")
    spec["healthCheckNodePort"] = number or await pool.take_next("a HealthCheck NodePort 0")


class _Pool:
    """The ports that others have left to one service."""

    def __init__(self, store: Store, taken: set[int], held: set[int], *, dry: bool) -> None:
        self._store = store
        self._taken = taken
        self._held = held
        self._dry = dry

    def take(self, number: int) -> str:
        """Take a port that was asked for; the answer says why it cannot be had, empty when it can."""
        if number in self._taken:
            return "provided port is already allocated"
        self._taken.add(number)
        return "" if number in _ALL else _OUTSIDE

    async def take_next(self, what: str) -> int:
        """Take any port that is free."""
        for numbers in (_GIVEN, _LEFT):
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
