"""Many clients at once against a model: every answer is one that some order of the requests explains."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moorage.apiserver.access.accounttokens import ServiceAccountTokens
from moorage.apiserver.access.authentication import Authenticator
from moorage.apiserver.access.rbac import Rbac
from moorage.apiserver.access.tokens import ADMIN, Tokens
from moorage.apiserver.app import App
from moorage.apiserver.bootstrap import bootstrap
from moorage.apiserver.http.messages import Request, Response
from moorage.features import ALL_ON
from moorage.store.sqlite import SqliteStore
from tests.apiserver.edge import made

PATH = "/api/v1/namespaces/default/configmaps"
NAMES = ("a", "b", "c")
Data = dict[str, Any]


class Server:
    """The API server on a store, without sockets."""

    def __init__(self, store: SqliteStore) -> None:
        accounts = ServiceAccountTokens(made().service_account_key, lambda *_: False)
        authenticator = Authenticator(Tokens({}), accounts, (made().authority.certificate,))
        self._app = App(store, ALL_ON, authenticator, accounts, Rbac())

    async def ask(self, method: str, path: str, body: Data | None = None, media_type: str = "") -> tuple[int, Data]:
        headers = [("content-type", media_type)] if media_type else []
        request = Request.of(method, path, headers, msgspec.json.encode(body) if body is not None else b"")
        response = await self._app.handle_as(ADMIN, request)
        return response.status, content(response)

    async def watch(self, query: str) -> Response:
        return await self._app.handle_as(ADMIN, Request.of("GET", f"{PATH}?watch=1&{query}"))


def content(response: Response) -> Data:
    body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    data: Data = msgspec.json.decode(body)
    return data


async def act(server: Server, step: tuple[str, str, int]) -> None:
    """One thing that a client does; whatever is refused must be refused for a reason that can be."""
    what, name, number = step
    path = f"{PATH}/{name}"
    if what == "create":
        code, _ = await server.ask("POST", PATH, {"metadata": {"name": name}, "data": {"n": str(number)}})
        assert code in (201, 409)
    elif what == "patch":
        body = {"data": {f"k{number % 3}": str(number)}}
        code, _ = await server.ask("PATCH", path, body, "application/merge-patch+json")
        assert code in (200, 404)
    elif what == "replace":
        code, found = await server.ask("GET", path)
        if code == 200:
            code, _ = await server.ask("PUT", path, found | {"data": {"n": str(number)}})
            assert code in (200, 404, 409)
    else:
        code, _ = await server.ask("DELETE", path)
        assert code in (200, 404)


async def replayed(server: Server, begin: list[Data], version: str, end: str) -> dict[str, Data]:
    """What a watcher knows that saw a list and then all changes up to a revision."""
    known = {item["metadata"]["name"]: item for item in begin}
    stream = (await server.watch(f"resourceVersion={version}")).stream
    assert stream is not None
    seen = int(version)
    async for chunk in stream:
        for line in chunk.splitlines():
            event = msgspec.json.decode(line)
            item = event["object"]
            revision = int(item["metadata"]["resourceVersion"])
            assert revision > seen, "changes come in order, each once"
            seen = revision
            if event["type"] == "DELETED":
                del known[item["metadata"]["name"]]
            else:
                assert (event["type"] == "ADDED") == (item["metadata"]["name"] not in known)
                known[item["metadata"]["name"]] = item
        if seen >= int(end):
            break
    await stream.aclose()  # type: ignore[attr-defined]
    return known


steps = st.lists(
    st.tuples(st.sampled_from(("create", "patch", "replace", "delete")), st.sampled_from(NAMES), st.integers(0, 99)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, seed=st.integers(0, 2**16))
def test_a_watch_replays_to_what_a_list_shows_whatever_clients_do(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]], seed: int
) -> None:
    async def scenario(file: Path) -> None:
        store = await SqliteStore.open(file)
        server = Server(store)
        await bootstrap(store)
        begin = (await server.ask("GET", PATH))[1]
        order = random.Random(seed)
        for start in range(0, len(steps), 6):
            clients = [act(server, step) for step in steps[start : start + 6]]
            order.shuffle(clients)
            await asyncio.gather(*clients)
        # A last change that always happens: up to it the watcher has to come.
        code, last = await server.ask("POST", PATH, {"metadata": {"generateName": "last-"}})
        assert code == 201
        end = (await server.ask("GET", PATH))[1]
        known = await replayed(
            server, begin["items"], begin["metadata"]["resourceVersion"], last["metadata"]["resourceVersion"]
        )
        assert known == {item["metadata"]["name"]: item for item in end["items"]}
        await store.close()

    asyncio.run(scenario(tmp_path_factory.mktemp("model") / "m.db"))


def test_one_client_at_a_time_gets_what_a_dictionary_would_give(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "m.db")
        server = Server(store)
        await bootstrap(store)
        model: dict[str, dict[str, str]] = {}
        choose = random.Random(7)
        for number in range(600):
            name, path = (one := choose.choice(NAMES)), f"{PATH}/{one}"
            what = choose.choice(("create", "patch", "replace", "delete", "get"))
            if what == "create":
                code, _ = await server.ask("POST", PATH, {"metadata": {"name": name}, "data": {"n": str(number)}})
                assert code == (409 if name in model else 201)
                model.setdefault(name, {"n": str(number)})
            elif what == "delete":
                assert (await server.ask("DELETE", path))[0] == (200 if name in model else 404)
                model.pop(name, None)
            elif what == "get":
                code, found = await server.ask("GET", path)
                assert (code, found.get("data")) == ((200, model[name]) if name in model else (404, None))
            elif what == "patch":
                body = {"data": {"p": str(number)}}
                code, found = await server.ask("PATCH", path, body, "application/merge-patch+json")
                if name in model:
                    model[name] = model[name] | {"p": str(number)}
                assert (code, found.get("data")) == ((200, model[name]) if name in model else (404, None))
            else:
                code, _ = await server.ask("PUT", path, {"metadata": {"name": name}, "data": {"r": str(number)}})
                assert code == (200 if name in model else 404)
                if name in model:
                    model[name] = {"r": str(number)}
        await store.close()

    asyncio.run(scenario())
