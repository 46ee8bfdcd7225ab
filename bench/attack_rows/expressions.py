"""Attacks with expressions that are costly to compile or to evaluate, inside and outside of the bound of a pod."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from attack_rows.frame import Site, attack

PODS = "/api/v1/namespaces/{}/pods"
CREATED = (201,)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "node.labels['kubernetes.io/hostname']"
HONEST = 1000
NODES, EXPENSIVE, EXPRESSIONS = 1000, 50, 10
SHARE = 0.8
"""Of the usual rate at which honest pods are bound, what must be left beside an attack."""


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "pause"}], **spec}}


def numbers(count: int) -> str:
    return f"[{','.join(map(str, range(count)))}]"


def over_nodes(count: int, number: int) -> str:
    """An expression whose cost grows with the square of `count`: 337 is 800,000, 375 is 990,000."""
    return f"{numbers(count)}.all(a, {numbers(count)}.all(b, a + b >= 0)) && {HOSTNAME} != 'x{number}'"


def over_taints(count: int, number: int) -> str:
    return f"{numbers(count)}.exists(a, {numbers(count)}.exists(b, a + b < 0)) && taint.value == 'x{number}'"


def failing(count: int, number: int) -> str:
    """The same cost, where each step fails and is absorbed, which takes longest."""
    return f"{numbers(count)}.all(a, {numbers(count)}.exists(b, {HOSTNAME} == 'x{number}' || 1 / (a - a) == 1) || true)"


def required(*sources: str) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchCELExpressions": list(sources)}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: terms}}}


async def tainted(site: Site) -> None:
    for number in range(3):
        path = f"/api/v1/nodes/node-{number}"
        taints = {"spec": {"taints": [{"key": "a", "value": str(number), "effect": "NoExecute"}]}}
        await site.ask("PATCH", path, taints, "application/merge-patch+json", by="administrator")


@attack("100 matchCELExpressions of cost 800,000", by="editor")
async def hundred(site: Site) -> None:
    await site.ask(
        "POST", PODS.format("default"), pod("x", **required(*(over_nodes(337, each) for each in range(100))))
    )


@attack("200 CEL tolerations of cost 990,000", by="editor", prepare=tainted)
async def costly_tolerations(site: Site) -> None:
    tolerations = [{"expression": over_taints(350, each)} for each in range(200)]
    await site.ask("POST", PODS.format("default"), pod("x", tolerations=tolerations))


@attack("6,000 CEL tolerations", by="editor", prepare=tainted)
async def many_tolerations(site: Site) -> None:
    tolerations = [{"expression": f"taint.key == 'a{each}'"} for each in range(6000)]
    await site.ask("POST", PODS.format("default"), pod("x", tolerations=tolerations))


@attack("6,000 plain tolerations", by="editor", prepare=tainted, answers=CREATED)
async def plain_tolerations(site: Site) -> None:
    tolerations = [{"key": f"a{each}", "operator": "Exists"} for each in range(6000)]
    await site.ask("POST", PODS.format("default"), pod("x", tolerations=tolerations))


@attack("100 expressions of 10 KB", by="editor", answers=CREATED)
async def long_expressions(site: Site) -> None:
    sources = [f"{' && '.join([HOSTNAME + ' != ' + repr(str(each))] * 190)}" for each in range(100)]
    await site.ask("POST", PODS.format("default"), pod("x", **required(*sources)))


@attack("DaemonSet, 10 expressions of cost 990,000, 3 nodes", by="editor", answers=CREATED, linger=5)
async def daemons(site: Site) -> None:
    spec = pod("x", **required(*(failing(275, each) for each in range(10))))["spec"]
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    await site.ask("POST", "/apis/apps/v1/namespaces/default/daemonsets", body)


@attack("pod on its node, 10 tolerations of cost 990,000", by="editor", prepare=tainted, answers=CREATED, linger=5)
async def placed(site: Site) -> None:
    tolerations = [{"expression": over_taints(350, each)} for each in range(10)]
    await site.ask("POST", PODS.format("default"), pod("x", tolerations=tolerations, nodeName="node-0"))


async def bound(site: Site, prefix: str) -> float:
    """Create honest pods and wait until all are bound: how many a second."""
    path = PODS.format("honest")
    start = time.monotonic()
    waiting = iter(range(HONEST))
    async with site.session("tenant") as session:

        async def create() -> None:
            for number in waiting:
                async with session.post(path, json=pod(f"{prefix}-{number}")) as answer:
                    assert answer.status == 201, await answer.text()

        await asyncio.gather(*(create() for _ in range(8)))
        left = {"fieldSelector": "spec.nodeName=", "limit": "1"}
        while time.monotonic() - start < 60:
            async with session.get(path, params=left) as answer:
                if not (await answer.json())["items"]:
                    break
            await asyncio.sleep(0.02)
    return HONEST / (time.monotonic() - start)


@attack(
    f"{EXPENSIVE} pods × {EXPRESSIONS} expressions of cost 990,000, {NODES:,} nodes",
    by="editor",
    command=("up", "--nodes", str(NODES)),
    answers=CREATED,
    keeps=True,
)
async def within_the_bound(site: Site) -> None:
    await bound(site, "warm")
    usual = max([await bound(site, f"before-{each}") for each in range(2)])
    for number in range(EXPENSIVE):
        make = failing if number % 2 else over_nodes
        sources = [make(275 if number % 2 else 375, number * EXPRESSIONS + each) for each in range(EXPRESSIONS)]
        await site.ask("POST", PODS.format("default"), pod(f"x-{number}", **required(*sources)))
    beside = max([await bound(site, f"beside-{each}") for each in range(2)])
    site.note(f"{beside:,.0f} honest pods a second are bound, {usual:,.0f} without the attack ({beside / usual:.0%})")
    if beside < SHARE * usual:
        site.miss(f"honest pods are bound at less than {SHARE:.0%} of the usual rate")
