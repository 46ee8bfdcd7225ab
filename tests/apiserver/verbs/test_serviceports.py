"""The ports of nodes that lead to services: one each, and none twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moorage.apiserver.verbs.ranges import next_free
from moorage.store import open_store
from tests.apiserver.asked import MERGE, Asked, Data
from tests.plane import api_server

SERVICES = "/api/v1/namespaces/default/services"
DNS = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}]
OUTSIDE = "provided port is not in the valid range. The range of valid ports is 30000-32767"
TAKEN = "provided port is already allocated"


async def made(ask: Asked, name: str, where: str = SERVICES, **spec: Any) -> Data:
    spec = {"type": "NodePort", "ports": [{"port": 80}], **spec}
    code, service = await ask.told("POST", where, {"metadata": {"name": name}, "spec": spec})
    assert code in (201, 422), service
    return service


async def patched(ask: Asked, name: str, **spec: Any) -> Data:
    _, service = await ask.told("PATCH", f"{SERVICES}/{name}", {"spec": spec}, MERGE)
    return service


def ports(service: Data) -> list[int | None]:
    return [port.get("nodePort") for port in service["spec"]["ports"]]


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
async def test_a_service_that_is_reached_from_outside_is_given_a_port_of_the_nodes(ask: Asked, kind: str) -> None:
    (port,) = ports(await made(ask, "web", type=kind))
    assert port == 30086
    assert ports(await made(ask, "inside", type="ClusterIP")) == [None]
    assert ports(await made(ask, "balanced", type="LoadBalancer", allocateLoadBalancerNodePorts=False)) == [None]


async def test_services_that_come_together_have_different_ports(ask: Asked) -> None:
    services = await asyncio.gather(*(made(ask, f"web-{number}") for number in range(20)))
    assert len({port for service in services for port in ports(service)}) == 20


async def test_a_port_that_serves_two_protocols_has_one_number(ask: Asked) -> None:
    assert ports(await made(ask, "dns", ports=DNS)) == [30086, 30086]
    asked = [DNS[0], {**DNS[1], "nodePort": 30053}]
    assert ports(await made(ask, "asked", ports=asked)) == [30053, 30053]
    assert ports(await made(ask, "web", ports=[{"name": "a", "port": 80}, {"name": "b", "port": 81}])) == [30087, 30088]


async def test_a_port_that_is_asked_for_is_given_once(ask: Asked) -> None:
    wanted = [{"port": 80, "nodePort": 30086}]
    assert ports(await made(ask, "a", ports=wanted)) == [30086]
    refused = await made(ask, "b", ports=wanted)
    assert refused["message"] == f'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 30086: {TAKEN}'
    assert ports(await made(ask, "b")) == [30087]
    await ask("DELETE", f"{SERVICES}/a")
    assert ports(await made(ask, "c", ports=wanted)) == [30086]


async def test_a_port_outside_of_the_range_is_refused(ask: Asked) -> None:
    refused = await made(ask, "web", ports=[{"port": 80, "nodePort": 80}])
    assert refused["message"] == f'Service "web" is invalid: spec.ports[0].nodePort: Invalid value: 80: {OUTSIDE}'


async def test_a_dry_run_takes_no_port(ask: Asked) -> None:
    dry = await made(ask, "web", f"{SERVICES}?dryRun=All", ports=[{"name": "a", "port": 1}, {"name": "b", "port": 2}])
    assert ports(dry) == [30086, 30087]
    assert ports(await made(ask, "web")) == [30086]


async def test_a_manifest_that_names_no_port_can_be_sent_again(ask: Asked) -> None:
    before = await made(ask, "web")
    again = {"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    _, after = await ask.told("PUT", f"{SERVICES}/web", again)
    assert ports(after) == ports(before)
    grown = await patched(
        ask, "web", ports=[{"name": "old", "port": 80, "nodePort": 30086}, {"name": "new", "port": 81}]
    )
    assert ports(grown) == [30086, 30087]
    refused = await patched(ask, "web", ports=[{"port": 80, "nodePort": 8080}])
    assert OUTSIDE in refused["message"]


async def test_a_service_that_changes_its_type_gets_a_port_and_lets_go_of_it(ask: Asked) -> None:
    await made(ask, "web", type="ClusterIP")
    reached = await patched(ask, "web", type="LoadBalancer")
    assert ports(reached) == [30086]
    balanced = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
    assert (await ask("PATCH", f"{SERVICES}/web/status", balanced, MERGE)).status == 200
    inside = await patched(ask, "web", type="ClusterIP")
    assert inside["status"] == {"loadBalancer": {}}
    assert ports(inside) == [None]
    assert not {"allocateLoadBalancerNodePorts", "externalTrafficPolicy"} & inside["spec"].keys()
    changed = await patched(ask, "web", type="ClusterIP", ports=[{"port": 80, "nodePort": 30001}])
    assert "may not be used when `type` is 'ClusterIP'" in changed["message"]


async def test_a_balancer_that_keeps_traffic_local_has_a_port_for_health_checks(ask: Asked) -> None:
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    service = await made(ask, "web", **local)
    assert (ports(service), service["spec"]["healthCheckNodePort"]) == ([30086], 30087)
    refused = await made(ask, "other", **local, healthCheckNodePort=30087)
    why = f"failed to allocate requested HealthCheck NodePort 30087: {TAKEN}"
    assert refused["code"] == 422
    assert refused["message"] == f'Service "other" is invalid: spec.healthCheckNodePort: Invalid value: 30087: {why}'
    assert "field is immutable" in (await patched(ask, "web", healthCheckNodePort=30090))["message"]
    anywhere = await patched(ask, "web", externalTrafficPolicy="Cluster")
    assert "healthCheckNodePort" not in anywhere["spec"]
    useless = await patched(ask, "web", healthCheckNodePort=30090)
    assert "may only be set when `type` is 'LoadBalancer'" in useless["message"]


async def test_a_service_with_more_ports_than_there_are_is_refused_and_takes_none(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        ask = Asked(server.transport("tests"))
        before = await server.store.revision()
        many = [{"name": f"p{number}", "port": number} for number in range(1, 9_001)]
        refused = await made(ask, "many", ports=many)
        assert refused["message"] == (
            'Service "many" is invalid: spec.ports: Invalid value: 9000: failed to allocate a nodePort: range is full'
        )
        assert ports(await made(ask, "one")) == [30086]
        all_of_them = await made(ask, "most", ports=many[:2_767])
        assert len(set(ports(all_of_them))) == 2_767
        assert await server.store.revision() - before < 20, "ports are not written one by one"


async def test_numbers_are_given_in_turn_until_there_are_none_left(tmp_path: Path) -> None:
    store = await open_store("sqlite", tmp_path)
    taken: set[int] = set()

    async def take() -> int | None:
        free = await next_free(store, "/registry/ranges/test", range(5, 8), lambda each: each not in taken, dry=False)
        taken.update(free)
        return free[0] if free else None

    assert [await take() for _ in range(4)] == [5, 6, 7, None]
    taken -= {5, 7}
    assert [await take(), await take()] == [5, 7]
    await store.close()
