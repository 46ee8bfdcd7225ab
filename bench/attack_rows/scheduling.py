"""Attacks on the scheduler with pods that ask for very much."""

from __future__ import annotations

from typing import Any

from attack_rows.expressions import CREATED, PODS, REQUIRED, pod
from attack_rows.frame import Site, attack

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
