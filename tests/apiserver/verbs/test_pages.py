"""Lists a page at a time, and what becomes of them when the past is forgotten."""

from __future__ import annotations

from pathlib import Path

from tests.apiserver.asked import Asked, Data
from tests.plane import api_server

TEMPLATES = "/api/v1/namespaces/default/podtemplates"


async def kept(ask: Asked, *names: str) -> None:
    for name in names:
        template = {"spec": {"containers": [{"name": "main", "image": "web:1"}]}}
        code, _ = await ask.told("POST", TEMPLATES, {"metadata": {"name": name}, "template": template})
        assert code == 201


def names(listed: Data) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_all_pages_show_what_was_there_when_the_first_was_read(ask: Asked) -> None:
    await kept(ask, "a", "b", "c", "d", "e")
    _, first = await ask.told("GET", f"{TEMPLATES}?limit=2")
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 3)
    await kept(ask, "bb")
    _, second = await ask.told("GET", f"{TEMPLATES}?limit=2&continue={first['metadata']['continue']}")
    assert (names(second), second["metadata"]["remainingItemCount"]) == (["c", "d"], 1)
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_list_whose_past_is_forgotten_can_go_on_with_the_present(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        ask = Asked(server.transport("tests"))
        await kept(ask, "a", "b", "c", "d", "e")
        _, first = await ask.told("GET", f"{TEMPLATES}?limit=2")
        await kept(ask, "bb")
        await server.store.compact(await server.store.revision())
        code, told = await ask.told("GET", f"{TEMPLATES}?limit=2&continue={first['metadata']['continue']}")
        assert (code, told["reason"]) == (410, "Expired")
        _, second = await ask.told("GET", f"{TEMPLATES}?limit=2&continue={told['metadata']['continue']}")
        assert (names(second), second["metadata"]["remainingItemCount"]) == (["bb", "c"], 2)
        assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
        _, third = await ask.told("GET", f"{TEMPLATES}?limit=2&continue={second['metadata']['continue']}")
        assert (names(third), "continue" in third["metadata"]) == (["d", "e"], False)
