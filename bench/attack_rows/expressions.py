"""Attacks with expressions that are costly to compile or to evaluate, inside and outside of the bound of a pod."""

from __future__ import annotations

from typing import Any

from attack_rows.frame import Site, attack
from attack_rows.honest import PODS, compare, pod

CREATED = (201,)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "node.labels['kubernetes.io/hostname']"
NODES, EXPENSIVE, EXPRESSIONS = 1000, 50, 10


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
    for number in (1, 2, 3):
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


@attack("100 expressions of 10 KB, errors all over", by="editor")
async def wrong_expressions(site: Site) -> None:
    for part in ("@", '1+"a"==1&&', "(", "unknown&&"):
        sources = [f"{part * (10_000 // len(part))}{each}" for each in range(100)]
        answer = await site.ask("POST", PODS.format("default"), pod("x", **required(*sources)))
        if len(answer.text) > 1 << 20:
            site.miss(f"an answer of {len(answer.text):,} bytes")


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
    await site.ask("POST", PODS.format("default"), pod("x", tolerations=tolerations, nodeName="node-1"))


@attack(
    f"{EXPENSIVE} pods × {EXPRESSIONS} expressions of cost 990,000, {NODES:,} nodes",
    by="editor",
    command=("up", "--nodes", str(NODES)),
    answers=CREATED,
    keeps=True,
)
async def within_the_bound(site: Site) -> None:
    async def attack(turn: int) -> None:
        for number in range(EXPENSIVE):
            make, first = failing if number % 2 else over_nodes, (turn * EXPENSIVE + number) * EXPRESSIONS
            sources = [make(275 if number % 2 else 375, first + each) for each in range(EXPRESSIONS)]
            await site.ask("POST", PODS.format("default"), pod(f"x-{number}", **required(*sources)))

    await compare(site, attack)
