"""Attacks on the scheduler with pods that ask for very much."""

from __future__ import annotations

from typing import Any

from attack_rows.expressions import CREATED, REQUIRED
from attack_rows.frame import Site, attack
from attack_rows.honest import PODS, pod

UP = ("up", "--nodes", "200")


async def crowd(site: Site) -> None:
    """Pods that selectors are compared with."""
    pods = [{**pod(f"pod-{n}"), "metadata": {"name": f"pod-{n}", "labels": {"app": f"a{n % 50}"}}} for n in range(2000)]
    await site.fill(PODS.format("honest"), pods)


async def three(site: Site, make: Any) -> None:
    for number in range(3):
        await site.ask("POST", PODS.format("default"), make(number))


@attack("pods that request 2,000 resources that no node has", by="editor", command=UP, answers=CREATED, linger=5)
async def resources(site: Site) -> None:
    def make(number: int) -> dict[str, Any]:
        asked = {f"example.com/r-{number}-{each}": "1" for each in range(2000)}
        body = pod(f"x-{number}")
        body["spec"]["containers"][0]["resources"] = {"requests": asked, "limits": asked}
        return body

    await three(site, make)


@attack("pods that select by 4,000 labels that no node has", by="editor", command=UP, answers=CREATED, linger=5)
async def label_keys(site: Site) -> None:
    def make(number: int) -> dict[str, Any]:
        absent = [{"key": f"k-{number}-{each}", "operator": "DoesNotExist"} for each in range(4000)]
        return pod(
            f"x-{number}", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": absent}]}}}
        )

    await three(site, make)


@attack("pods with 20,000 labels in their nodeSelector", by="editor", command=UP, answers=CREATED, linger=5)
async def node_selectors(site: Site) -> None:
    await three(site, lambda number: pod(f"x-{number}", nodeSelector={f"k-{number}-{n}": "v" for n in range(20_000)}))


@attack("pods with 8,000 host ports", by="editor", command=UP, answers=CREATED, linger=5)
async def host_ports(site: Site) -> None:
    """Each pod is placed beside the others."""

    def make(number: int) -> dict[str, Any]:
        body = pod(f"x-{number}", nodeSelector={"kubernetes.io/hostname": "node-1"})
        ports = range(8000 * number + 1, 8000 * (number + 1))
        body["spec"]["containers"][0]["ports"] = [{"containerPort": each, "hostPort": each} for each in ports]
        return body

    await three(site, make)


@attack("pods with 2,500 ephemeral volumes", by="editor", answers=CREATED, linger=15, keeps=True)
async def ephemeral_volumes(site: Site) -> None:
    """The pod is tried again for each claim that is made for it."""
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volumes = [{"name": f"v-{each}", "ephemeral": {"volumeClaimTemplate": claim}} for each in range(2500)]
    for number in range(2):
        await site.ask("POST", PODS.format("default"), pod(f"x-{number}", volumes=volumes))


@attack("3 budgets with 10,000 requirements, 2,000 pods", by="editor", command=UP, prepare=crowd, answers=CREATED)
async def budgets(site: Site) -> None:
    path = "/apis/policy/v1/namespaces/honest/poddisruptionbudgets"
    for number in range(3):
        absent = [{"key": f"k-{number}-{each}", "operator": "DoesNotExist"} for each in range(10_000)]
        spec = {"minAvailable": 1, "selector": {"matchExpressions": absent}}
        await site.ask("POST", path, {"metadata": {"name": f"x-{number}"}, "spec": spec}, by="tenant")


def far(number: int, count: int) -> dict[str, Any]:
    terms = [
        {
            "topologyKey": "zone",
            "labelSelector": {"matchExpressions": [{"key": f"x-{number}-{each}", "operator": "Exists"}]},
        }
        for each in range(count)
    ]
    return pod(f"x-{number}", affinity={"podAntiAffinity": {REQUIRED: terms}})


@attack("pods with 2,000 anti-affinity terms, 2,000 pods", by="editor", command=UP, prepare=crowd, linger=5)
async def too_many_terms(site: Site) -> None:
    await three(site, lambda number: far(number, 2000))


@attack(
    "50 pods with 100 anti-affinity terms, 2,000 pods",
    by="editor",
    command=UP,
    prepare=crowd,
    answers=CREATED,
    linger=10,
)
async def many_terms(site: Site) -> None:
    for number in range(50):
        await site.ask("POST", PODS.format("default"), far(number, 100))
