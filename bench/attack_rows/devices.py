"""Attacks with claims for devices: selectors that are costly, and searches that find nothing for long."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attack_rows.expressions import CREATED, numbers
from attack_rows.frame import Site, attack
from attack_rows.honest import PODS, compare, pod

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
    for node in range(1, NODES + 1):
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
    def make(number: int) -> dict[str, Any]:
        return request("gpu", 1, map(costly, range(number * SELECTORS, (number + 1) * SELECTORS)))

    await beside(site, make)


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
    await beside(site, lambda number: request("gpu", MODELS + 1, [f"true || {number} > 0"]), constraints=distinct)


async def beside(site: Site, make: Callable[[int], dict[str, Any]], **more: Any) -> None:
    """Bind honest pods with and without pods whose claims have these requests."""

    async def attack(turn: int) -> None:
        for number in range(turn * EXPENSIVE, (turn + 1) * EXPENSIVE):
            await use(site, claim(f"x-{number}", make(number), **more))

    await compare(site, attack)
