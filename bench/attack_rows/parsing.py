"""Attacks with bodies and objects that are costly to parse, to multiply out or to act on."""

from __future__ import annotations

from typing import Any

from attack_rows.frame import Site, attack

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
YAML = "application/yaml"
CREATED = (201,)
DEFAULT = "/namespaces/default"


@attack("nothing at all", by="authenticated", answers=CREATED)
async def nothing(site: Site) -> None:
    """What the bench itself costs."""
    await site.ask("POST", REVIEWS, {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}})


@attack("120 KB of [ as YAML", by="authenticated")
async def brackets(site: Site) -> None:
    await site.ask("POST", REVIEWS, b"[" * 120_000, YAML)


@attack("120 KB of { as YAML", by="authenticated")
async def braces(site: Site) -> None:
    await site.ask("POST", REVIEWS, b"{" * 120_000, YAML)


@attack("8 × 1 MiB of [ as YAML", by="editor")
async def large_brackets(site: Site) -> None:
    for _ in range(8):
        await site.ask("POST", f"/api/v1{DEFAULT}/configmaps", b"[" * (1 << 20), YAML)


def stateful_set(replicas: int) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}
    spec = {
        "replicas": replicas, "podManagementPolicy": "Parallel", "serviceName": "x",
        "selector": {"matchLabels": {"app": "x"}}, "template": template,
    }  # fmt: skip
    return {"metadata": {"name": "x"}, "spec": spec}


@attack("StatefulSet with 2,147,483,647 replicas", by="editor", answers=CREATED, linger=10)
async def ordinals(site: Site) -> None:
    await site.ask("POST", f"/apis/apps/v1{DEFAULT}/statefulsets", stateful_set(2**31 - 1))
