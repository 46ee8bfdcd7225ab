"""Attacks with many objects: what is done for each pod, service or eviction must not grow with all of them at once."""

from __future__ import annotations

import asyncio
from typing import Any

from attack_rows.expressions import CREATED
from attack_rows.frame import Site, attack
from attack_rows.honest import PODS, pod
from attack_rows.parsing import DEFAULT, TEMPLATE

BUDGETS = f"/apis/policy/v1{DEFAULT}/poddisruptionbudgets"
REPLICA_SETS = f"/apis/apps/v1{DEFAULT}/replicasets"
SERVICES = f"/api/v1{DEFAULT}/services"
CONFIG_MAPS = f"/api/v1{DEFAULT}/configmaps"
MANY = 2000


def named(number: int, spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": f"x-{number}"}, "spec": spec}


def absent(number: int, count: int) -> list[Any]:
    """Requirements that every pod meets, and no two selectors have in common."""
    return [{"key": f"k-{number}-{each}", "operator": "DoesNotExist"} for each in range(count)]


async def budgets(site: Site) -> None:
    spec = {"minAvailable": 0}
    await site.fill(
        BUDGETS, [named(n, {**spec, "selector": {"matchExpressions": absent(n, 100)}}) for n in range(MANY)]
    )


@attack(f"{MANY:,} budgets with 100 requirements, 20 pods", by="editor", prepare=budgets, answers=CREATED, linger=10)
async def budgets_of_pods(site: Site) -> None:
    for number in range(20):
        await site.ask("POST", PODS.format("default"), pod(f"p-{number}"))


@attack(f"{MANY:,} budgets with 100 requirements, 20 evictions", by="editor", prepare=budgets, answers=(500,))
async def evictions(site: Site) -> None:
    """Kubernetes too answers 500 when several budgets select a pod."""
    await site.fill(PODS.format("default"), [pod(f"p-{number}") for number in range(20)])
    await asyncio.sleep(5)
    for number in range(20):
        name = f"p-{number}"
        await site.ask("POST", f"{PODS.format('default')}/{name}/eviction", {"metadata": {"name": name}})


async def replica_sets(site: Site) -> None:
    selectors = ({"matchLabels": {"app": "x"}, "matchExpressions": absent(n, 100)} for n in range(MANY))
    specs = ({"replicas": 0, "template": TEMPLATE, "selector": selector} for selector in selectors)
    await site.fill(REPLICA_SETS, [named(number, spec) for number, spec in enumerate(specs)])


@attack(
    f"{MANY:,} ReplicaSets with 100 requirements, 20 pods",
    by="editor",
    prepare=replica_sets,
    answers=CREATED,
    linger=10,
    keeps=True,
)
async def owners_of_pods(site: Site) -> None:
    for number in range(20):
        metadata = {"name": f"p-{number}", "labels": {"app": "x"}}
        await site.ask("POST", PODS.format("default"), {**pod(""), "metadata": metadata})


async def services(site: Site) -> None:
    await site.fill(SERVICES, [named(number, {"ports": [{"port": 80}]}) for number in range(3_000)])


@attack("3,000 services, and 20 more", by="editor", prepare=services, answers=CREATED)
async def more_services(site: Site) -> None:
    for number in range(20):
        await site.ask("POST", SERVICES, named(3_000 + number, {"type": "NodePort", "ports": [{"port": 80}]}))


async def megabytes(site: Site) -> None:
    await site.fill(CONFIG_MAPS, [{"metadata": {"name": f"x-{n}"}, "data": {"a": "x" * 1_000_000}} for n in range(200)])


@attack("100 deletions of collections, 200 objects of 1 MB", by="editor", prepare=megabytes, answers=(200, 429))
async def deletions(site: Site) -> None:
    """Nothing is selected, so that everything is read."""
    await asyncio.gather(*(site.ask("DELETE", f"{CONFIG_MAPS}?labelSelector=none") for _ in range(100)))


@attack("100 lists by selector, 200 objects of 1 MB", by="editor", prepare=megabytes, answers=(200, 429, 504))
async def selected(site: Site) -> None:
    await asyncio.gather(*(site.ask("GET", f"{CONFIG_MAPS}?labelSelector=none&limit=500") for _ in range(100)))


async def tainted(site: Site) -> None:
    taints = {"spec": {"taints": [{"key": "a", "value": "1", "effect": "NoExecute"}]}}
    await site.ask("PATCH", "/api/v1/nodes/node-1", taints, "application/merge-patch+json", by="administrator")


@attack("100 pods with 15,000 tolerations, each deleted", by="editor", prepare=tainted, answers=(200, 201), keeps=True)
async def tolerations(site: Site) -> None:
    """The history for watches has them for a while; nothing else may."""
    for number in range(100):
        many = [{"key": f"a-{number}-{each}", "operator": "Exists"} for each in range(15_000)]
        where = {"nodeName": "node-1"} if number % 2 else {}
        body = pod(f"x-{number}", tolerations=[*many, {"operator": "Exists"}], **where)
        await site.ask("POST", PODS.format("default"), body)
        await site.ask("DELETE", f"{PODS.format('default')}/x-{number}?gracePeriodSeconds=0")


@attack("3,000 budgets with labels of their own, each deleted", by="editor", answers=(200, 201))
async def label_keys(site: Site) -> None:
    """What is kept of a label that a selector named once costs every later pod."""
    waiting = iter(range(3000))
    async with site.session() as session:

        async def come_and_go() -> None:
            for number in waiting:
                spec = {"minAvailable": 0, "selector": {"matchLabels": {f"k-{number}": "v"}}}
                async with session.post(BUDGETS, json=named(number, spec)) as answer:
                    site.answers[answer.status] += 1
                await asyncio.sleep(0.05)
                async with session.delete(f"{BUDGETS}/x-{number}") as answer:
                    site.answers[answer.status] += 1

        await asyncio.gather(*(come_and_go() for _ in range(16)))
