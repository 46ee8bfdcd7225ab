"""How fast honest pods are bound beside an attack, in turns with how fast they are without it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from attack_rows.frame import Site

PODS = "/api/v1/namespaces/{}/pods"
SHARE = 0.8
"""Of the usual rate at which honest pods are bound, what must be left beside an attack."""
HONEST, CLIENTS, ROUNDS = 1000, 8, 4
PATIENCE = 60.0


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "pause"}], **spec}}


async def compare(site: Site, attack: Callable[[int], Awaitable[None]]) -> None:
    """Bind honest pods without an attack and beside it, by turns; miss the goal when too little is left.

    `attack(turn)` creates pods in `default`, in each turn others, so that nothing is known of them yet. Both begin with
    the same number of pods: those of the turn before are gone.
    """
    await _bound(site)
    usual = attacked = 0.0
    for turn in range(ROUNDS):
        usual += await _bound(site)
        await attack(turn)
        attacked += await _bound(site)
        await _remove(site, "default")
    rate, before = HONEST * ROUNDS / attacked, HONEST * ROUNDS / usual
    site.note(f"{rate:,.0f} honest pods a second are bound, {before:,.0f} without the attack ({rate / before:.0%})")
    if rate < SHARE * before:
        site.miss(f"honest pods are bound at less than {SHARE:.0%} of the usual rate")


async def _bound(site: Site) -> float:
    """Create honest pods and wait until all are bound: in how many seconds. They are gone afterwards."""
    path, waiting = PODS.format("honest"), iter(range(HONEST))
    start = time.monotonic()
    async with site.session("tenant") as session:

        async def create() -> None:
            for number in waiting:
                async with session.post(path, json=pod(f"pod-{number}")) as answer:
                    assert answer.status == 201, await answer.text()

        await asyncio.gather(*(create() for _ in range(CLIENTS)))
    await _none(site, f"{path}?fieldSelector=spec.nodeName%3D&limit=1")
    taken = time.monotonic() - start
    await _none(site, f"{path}?fieldSelector=status.phase%3DPending&limit=1")
    await _remove(site, "honest")
    return taken


async def _remove(site: Site, namespace: str) -> None:
    path = PODS.format(namespace)
    await site.ask("DELETE", path, {"gracePeriodSeconds": 0}, by="administrator")
    await _none(site, f"{path}?limit=1")


async def _none(site: Site, path: str) -> None:
    """Wait until a list is empty."""
    start = time.monotonic()
    async with site.session("administrator") as session:
        while time.monotonic() - start < PATIENCE:
            async with session.get(path) as answer:
                if not (await answer.json())["items"]:
                    return
            await asyncio.sleep(0.02)
    site.miss(f"after {PATIENCE:.0f} s there were still pods at {path}")
