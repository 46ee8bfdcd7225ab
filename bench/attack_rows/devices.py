"""Attacks with claims for devices: selectors that are costly, and searches that find nothing for long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attack_rows.expressions import CREATED, PODS, SHARE, bound, numbers, pod
from attack_rows.frame import Site, attack

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"
NODES, DEVICES, MODELS, EXPENSIVE, SELECTORS = 200, 24, 8, 20, 10


def costly(number: int) -> str:
    """A selector of cost 990,000, or nearly."""
    here = f"device.attributes['{DRIVER}'].serial"
    return f"{numbers(365)}.all(a, {numbers(365)}.all(b, a + b >= 0)) && {here} != {-1 - number}"


def request(name: str, count: int, selectors: Iterable[str]) -> dict[str, Any]:
    chosen = [{"cel": {"expression": source}} for source in selectors]
    exactly = {"deviceClassName": "gpu", "selectors": chosen, "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": exactly}


def claim(name: str, *requests: dict[str, Any], **devices: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests, **devices}}}


async def use(site: Site, body: dict[str, Any]) -> None:
    """Create a claim, and a pod that needs it."""
    name = body["metadata"]["name"]
    await site.ask("POST", CLAIMS, body)
    await site.ask(
        "POST", PODS.format("default"), pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])
    )


async def devices(site: Site) -> None:
    """Every node has devices, of which no two are alike, though some are of one model."""
    await site.fill(f"{GROUP}/deviceclasses", [{"metadata": {"name": "gpu"}, "spec": {}}])
    slices = []
    for node in range(NODES):
        attributes = [{"serial": {"int": node * DEVICES + at}, "model": {"int": at % MODELS}} for at in range(DEVICES)]
        listed = [{"name": f"gpu-{at}", "attributes": each} for at, each in enumerate(attributes)]
        pool = {"name": f"node-{node}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": f"node-{node}", "devices": listed}
        slices.append({"metadata": {"name": f"slice-{node}"}, "spec": spec})
    await site.fill(f"{GROUP}/resourceslices", slices)


@attack("claim with 1,000 selectors", by="editor")
async def many_selectors(site: Site) -> None:
    requests = [request(f"r-{at}", 1, map(costly, range(32 * at, 32 * at + 32))) for at in range(32)]
    await site.ask("POST", CLAIMS, claim("x", *requests))


@attack(
    f"{EXPENSIVE} claims × {SELECTORS} selectors of cost 990,000, {NODES * DEVICES:,} devices",
    by="editor",
    command=("up", "--nodes", str(NODES)),
    prepare=devices,
    answers=CREATED,
    keeps=True,
)
async def costly_selectors(site: Site) -> None:
    costs = [map(costly, range(number * SELECTORS, (number + 1) * SELECTORS)) for number in range(EXPENSIVE)]
    await beside(site, [claim(f"x-{number}", request("gpu", 1, each)) for number, each in enumerate(costs)])


@attack(
    f"{EXPENSIVE} claims that are searched for in vain, {NODES * DEVICES:,} devices",
    by="editor",
    command=("up", "--nodes", str(NODES)),
    prepare=devices,
    answers=CREATED,
    keeps=True,
)
async def long_searches(site: Site) -> None:
    """One more device is asked for than there are models, so that everything is tried."""
    distinct = [{"distinctAttribute": f"{DRIVER}/model"}]
    wanted = [request("gpu", MODELS + 1, [f"true || {number} > 0"]) for number in range(EXPENSIVE)]
    await beside(site, [claim(f"x-{number}", each, constraints=distinct) for number, each in enumerate(wanted)])


async def beside(site: Site, claims: list[dict[str, Any]]) -> None:
    """Bind honest pods with and without the pods of an attack."""
    await bound(site, "warm")
    usual = max([await bound(site, f"before-{each}") for each in range(2)])
    for body in claims:
        await use(site, body)
    rate = max([await bound(site, f"beside-{each}") for each in range(2)])
    site.note(f"{rate:,.0f} honest pods a second are bound, {usual:,.0f} without the attack ({rate / usual:.0%})")
    if rate < SHARE * usual:
        site.miss(f"honest pods are bound at less than {SHARE:.0%} of the usual rate")
