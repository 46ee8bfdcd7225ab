"""The addresses of services: one each, and none twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.asked import MERGE, Asked, Data
from tests.plane import api_server

SERVICES = "/api/v1/namespaces/default/services"


async def made(ask: Asked, name: str, where: str = SERVICES, **spec: Any) -> tuple[int, Data]:
    body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
    return await ask.told("POST", where, body)


async def address_of_new(ask: Asked, name: str, **spec: Any) -> str:
    code, service = await made(ask, name, **spec)
    assert code == 201, service
    address: str = service["spec"]["clusterIP"]
    return address


async def test_a_service_is_given_an_address_and_what_follows_from_it(ask: Asked) -> None:
    _, service = await made(ask, "web")
    spec = service["spec"]
    assert (spec["clusterIP"], spec["clusterIPs"]) == ("10.96.0.2", ["10.96.0.2"])
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    _, own = await ask.told("GET", f"{SERVICES}/kubernetes")
    assert own["spec"]["clusterIPs"] == ["10.96.0.1"]


async def test_services_that_come_together_have_different_addresses(ask: Asked) -> None:
    addresses = await asyncio.gather(*(address_of_new(ask, f"web-{number}") for number in range(20)))
    assert len(set(addresses)) == 20


async def test_an_address_is_not_given_again_soon_even_after_a_restart(tmp_path: Path) -> None:
    given = []
    for name in ("a", "b"):
        async with api_server(tmp_path) as server:
            ask = Asked(server.transport("tests"))
            given.append(await address_of_new(ask, name))
            await ask("DELETE", f"{SERVICES}/{name}")
    assert given == ["10.96.0.2", "10.96.0.3"]


async def test_a_headless_service_and_an_alias_have_none(ask: Asked) -> None:
    _, headless = await made(ask, "headless", clusterIP="None")
    assert headless["spec"]["clusterIPs"] == ["None"]
    assert headless["spec"]["ipFamilies"] == ["IPv4"]
    _, alias = await made(ask, "alias", type="ExternalName", externalName="example.org")
    assert "clusterIP" not in alias["spec"]


async def test_an_alias_that_becomes_a_service_is_given_an_address_and_the_other_way_round(ask: Asked) -> None:
    await made(ask, "web", type="ExternalName", externalName="example.org")
    forth = {"spec": {"type": "ClusterIP", "externalName": None}}
    _, service = await ask.told("PATCH", f"{SERVICES}/web", forth, MERGE)
    assert service["spec"]["clusterIP"] == "10.96.0.2"
    back = {"spec": {"type": "ExternalName", "externalName": "example.org"}}
    _, alias = await ask.told("PATCH", f"{SERVICES}/web", back, MERGE)
    assert "clusterIP" not in alias["spec"]


async def test_an_address_that_is_asked_for_is_given_once(ask: Asked) -> None:
    assert await address_of_new(ask, "a", clusterIP="10.96.0.2") == "10.96.0.2"
    code, told = await made(ask, "b", clusterIP="10.96.0.2")
    why = "failed to allocate IP 10.96.0.2: provided IP is already allocated"
    said = f'Service "b" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.2"]: {why}'
    assert (code, told["message"]) == (422, said)
    assert await address_of_new(ask, "b") == "10.96.0.3"
    await ask("DELETE", f"{SERVICES}/a")
    assert await address_of_new(ask, "c", clusterIP="10.96.0.2") == "10.96.0.2"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("10.97.0.1", "the provided IP (10.97.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/16"),
        ("10.96.0.1", "provided IP is already allocated"),
        ("here", "must be a valid IP address"),
    ],
)
async def test_an_address_that_cannot_be_had_is_refused(ask: Asked, address: str, why: str) -> None:
    code, told = await made(ask, "web", clusterIP=address)
    assert code == 422
    assert why in told["message"]


async def test_a_dry_run_takes_no_address(ask: Asked) -> None:
    _, first = await made(ask, "web", f"{SERVICES}?dryRun=All")
    assert first["spec"]["clusterIP"] == await address_of_new(ask, "web")
