"""Serves the page and the JSON behind it, on a loopback port of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from moorage.api.meta import Data
from moorage.apiserver.base.users import User
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.listener import Server
from moorage.apiserver.http.messages import Request, Response
from moorage.client import ApiError
from moorage.client.rights import RightsMissing, check_rights, to_follow
from moorage.page.answers import PageAnswers, Unanswerable
from moorage.page.clustermap import ClusterMap
from moorage.page.guard import SECURITY, objection, own_hosts
from moorage.page.reach import ServerReach
from moorage.page.rules import ENVIRONMENTS, checked
from moorage.page.saving import CannotSave
from moorage.page.sessions import Sessions
from moorage.page.stage import StoryStage
from moorage.page.whatif import CannotSimulate, WhatIf
from moorage.scheduler.scheduler import Scheduler

SECRET = "x-moorage-page"
GATHER_SECONDS = 0.1
"""Changes are gathered for so long before they are sent."""
ALIVE_SECONDS = 15.0
"""After so long without a change a comment is sent, so that both sides notice when the other is gone."""
_TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}  # fmt: skip
_VIEWER = User("page")
_LIMITS = Limits(body_size=1 << 20, connections=512, watches=256, request_time=150)
"""A simulation may take its time."""

PageHandler = Callable[[Request], Awaitable[Response]]


class PageServer:
    """The page of one cluster."""

    def __init__(
        self, scheduler: Scheduler, *, name: str, file: Path | None = None, stage: StoryStage | None = None,
        connection: Sequence[str] = (), read_only: bool = False,
    ) -> None:  # fmt: skip
        """`file` keeps what pages that are open need to go on after a restart: the port and who they are.

        `connection` are the options of a command that name the same cluster.
        """
        self.sessions = Sessions(file)
        self._scheduler = scheduler
        self._name = name
        self._stage = stage
        self._is_read_only = read_only
        self._what_if = WhatIf(connection)
        self._reach = ServerReach(scheduler.client)
        self._placement = ClusterMap(scheduler)
        self._answers = PageAnswers(scheduler, self._placement)
        self._server = Server(self._handle, lambda _: _VIEWER, None, limits=_LIMITS)
        self._starting: asyncio.Task[None] | None = None
        self._static = _static()
        self._encoded: tuple[int, int, bytes] = (-1, -1, b"")
        self._routes: dict[tuple[str, str], PageHandler] = {
            ("GET", "/ui/v1/cluster"): self._cluster,
            ("GET", "/ui/v1/placement"): self._whole,
            ("GET", "/ui/v1/changes"): self._changes,
            ("GET", "/ui/v1/why"): self._why,
            ("GET", "/ui/v1/rules"): self._rules,
            ("GET", "/ui/v1/vocabulary"): self._vocabulary,
            ("POST", "/ui/v1/try"): self._try,
            ("POST", "/ui/v1/decided"): self._decided,
            ("POST", "/ui/v1/save"): self._save,
            ("POST", "/ui/v1/check"): self._check,
            ("POST", "/ui/v1/simulate"): self._simulate,
            ("POST", "/ui/v1/story"): self._story,
        }

    async def start(self, listening: socket.socket) -> None:
        """Begin to serve on a socket."""
        await self._server.start(listening)

    async def stop(self) -> None:
        """Stop serving, and stop following the cluster."""
        await self._server.stop(grace=1)
        await self._reach.stop()
        if self._starting is not None:
            self._starting.cancel()
            with suppress(asyncio.CancelledError):
                await self._starting
            await self._scheduler.handle.informers.stop()

    @property
    def address(self) -> str:
        """Where the page is, without a token."""
        return f"http://127.0.0.1:{self._server.port}/"

    def url(self) -> str:
        """An address that opens the page once."""
        return f"{self.address}#token={self.sessions.token()}"

    async def _handle(self, request: Request) -> Response:
        why = objection(request, own_hosts(self._server.port))
        response = _problem(403, why) if why else await self._answer(request)
        response.headers = (*response.headers, *SECURITY)
        return response

    async def _answer(self, request: Request) -> Response:
        if request.method in ("GET", "HEAD") and (file := self._static.get(request.path)):
            return Response(200, file[1], (("Content-Type", file[0]), ("Cache-Control", "no-cache")))
        if request.path == "/ui/v1/session":
            return self._session(request)
        if request.path == "/ui/v1/token":
            return self._token(request)
        if not request.path.startswith("/ui/"):
            return _problem(404, f"there is nothing at {request.path}")
        if not self.sessions.knows(request.headers.get(SECRET)):
            return _problem(401, "this page is not open any more: open a new one with `moorage ui --url`")
        answer = self._routes.get((request.method, request.path))
        if answer is None:
            return _problem(404, f"there is no {request.method} {request.path}")
        return await self._answered(answer, request)

    async def _answered(self, answer: PageHandler, request: Request) -> Response:
        """An answer, or the problem that there is none: a sentence for the page is no failure of the request."""
        try:
            if answer != self._cluster:
                await self._follow()
            return await answer(request)
        except RightsMissing as error:
            return _json({"problem": str(error), "state": "forbidden"})
        except ApiError as error:
            return _json({"problem": str(error), "state": "stale"})
        except (Unanswerable, CannotSave, CannotSimulate) as error:
            return _json({"problem": str(error)})

    def _session(self, request: Request) -> Response:
        """Exchange a token. Only a script of the page sends this, not a browser that looks ahead."""
        if request.method != "POST":
            return _problem(405, "a token is exchanged by POST")
        if "prefetch" in request.headers.get("sec-purpose", ""):
            return _problem(403, "a page that nobody looks at yet gets no secret")
        secret = self.sessions.exchange(_body(request).get("token", ""))
        if secret is None:
            return _problem(401, "this address was opened before: get a new one with `moorage ui --url`")
        return _json({"secret": secret})

    def _token(self, request: Request) -> Response:
        """A new address, for whoever can read the file of this server."""
        if request.method != "POST" or not self.sessions.is_starter(_body(request).get("key", "")):
            return _problem(401, "only who started this server may ask for a new address")
        return _json({"url": self.url()})

    async def _follow(self) -> None:
        """Begin to follow the cluster when the first page asks: without a page this costs nothing.

        Raises RightsMissing, and ApiError when the cluster cannot even be asked for rights.
        """
        informers = self._scheduler.handle.informers
        if self._starting is None:
            await check_rights(self._scheduler.client, to_follow(informers))
        if self._starting is None:
            self._starting = asyncio.create_task(self._placement.follow(informers), name="page informers")
            self._reach.begin()
        await asyncio.shield(self._starting)

    async def _cluster(self, _: Request) -> Response:
        gates = {gate.value: True for gate in self._scheduler.handle.gates.on}
        stories, on_stage = (self._stage.programme, self._stage.on_stage) if self._stage else ([], "")
        facts = {"name": self._name, "gates": gates, "stories": stories, "onStage": on_stage}
        return _json({**facts, "readOnly": self._is_read_only})

    async def _whole(self, _: Request) -> Response:
        return _json(self._placement.whole())

    async def _changes(self, request: Request) -> Response:
        """Changes since a revision, as server-sent events."""
        after = request.parameter("after")
        epoch, _, revision = after.partition(".")
        known = int(revision) if revision.isdecimal() and len(revision) < 19 else -1
        if epoch != self._placement.epoch:
            known = -1
        headers = (("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"))
        if request.parameter("once"):
            news = b"" if known == self._placement.revision else self._event(known)
            return Response(200, self._reached() + news, headers)
        return Response(200, headers=headers, stream=self._stream(known))

    def _reached(self) -> bytes:
        return b"event: reach\ndata: %b\n\n" % msgspec.json.encode({"problem": self._reach.problem})

    async def _stream(self, known: int) -> AsyncIterator[bytes]:
        idle, problem = 0.0, None
        while True:
            revision = self._placement.revision
            if problem != self._reach.problem:
                problem = self._reach.problem
                yield self._reached()
            if known == revision:
                await asyncio.sleep(GATHER_SECONDS)
                idle += GATHER_SECONDS
                if idle >= ALIVE_SECONDS:
                    idle = 0.0
                    yield b": alive\n\n"
                continue
            event = self._event(known)
            yield event
            if event.startswith(b"event: reset"):
                return
            known, idle = revision, 0.0
            await asyncio.sleep(GATHER_SECONDS)

    def _event(self, known: int) -> bytes:
        """One event, encoded once for all pages that have seen the same."""
        before, upto, encoded = self._encoded
        if (before, upto) == (known, self._placement.revision):
            return encoded
        delta = self._placement.since(known)
        if delta is None:
            return b"event: reset\ndata: {}\n\n"
        identity = f"{self._placement.epoch}.{delta.revision}".encode()
        encoded = b"id: %b\ndata: %b\n\n" % (identity, msgspec.json.encode(delta))
        self._encoded = known, delta.revision, encoded
        return encoded

    async def _why(self, request: Request) -> Response:
        """What `moorage why -o json` says of a pod or of a template."""
        return _found(await self._answers.why(_asked_about(request)))

    async def _rules(self, request: Request) -> Response:
        """What decides where pods may run, as YAML, and where a change of it would go."""
        return _found(await self._answers.rules(_asked_about(request)))

    async def _vocabulary(self, _: Request) -> Response:
        """What can be written into rules."""
        return _json(self._answers.vocabulary())

    async def _try(self, request: Request) -> Response:
        """What `why` would say with other rules, or what is wrong with them."""
        body = _body(request)
        return _found(await self._answers.tried(_named(body), body.get("rules", "")))

    async def _decided(self, request: Request) -> Response:
        """Which parts of expressions decided about a node."""
        body = _body(request)
        return _found(await self._answers.decided(_named(body), body.get("node", ""), body.get("rules", "")))

    async def _save(self, request: Request) -> Response:
        """What saving rules would change; with the digest of that, they are saved."""
        if self._is_read_only:
            return _problem(403, "this page only reads: it was started with --read-only")
        body = _body(request)
        return _found(await self._answers.saved(_named(body), body.get("rules", ""), body.get("digest", "")))

    async def _simulate(self, request: Request) -> Response:
        """What `moorage simulate -o json` says of some changes; nothing is applied."""
        try:
            changes = msgspec.json.decode(request.body, type=list[list[str]])
        except (msgspec.DecodeError, UnicodeError) as error:
            return _problem(400, str(error))
        return _json(await self._what_if.simulate(changes))

    async def _story(self, request: Request) -> Response:
        """Play a story: its steps as lines of JSON, as they happen."""
        if self._stage is None:
            return _problem(403, "stories are played only on a cluster of `moorage up`")
        headers = (("Content-Type", "application/x-ndjson"), ("Cache-Control", "no-store"))
        return Response(200, headers=headers, stream=self._stage.play(_body(request).get("folder", "")))

    async def _check(self, request: Request) -> Response:
        """What admission says of an expression, as `moorage cel check` does."""
        body = _body(request)
        if body.get("env") not in ENVIRONMENTS:
            return _problem(400, "env must be taint or node")
        return _json(checked(body["env"], body.get("expression", "")))


def _static() -> dict[str, tuple[str, bytes]]:
    """The files of the page by path, read once."""
    found = {}
    for folder, prefix in (
        (files("moorage.page") / "static", "/"),
        (files("moorage.page") / "static/vendor", "/vendor/"),
    ):
        for file in folder.iterdir():
            kind = _TYPES.get("." + file.name.rpartition(".")[2])
            if kind and file.is_file():
                found[prefix + file.name] = (kind, file.read_bytes())
    found["/"] = found["/index.html"]
    return found


def _body(request: Request) -> dict[str, str]:
    try:
        return msgspec.json.decode(request.body, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeError):
        return {}


def _asked_about(request: Request) -> str:
    """The pod (`default/web-1`) or the template (`default/Deployment/web`) that a request is about."""
    return request.parameter("pod") or request.parameter("template")


def _named(body: dict[str, str]) -> str:
    return body.get("pod") or body.get("template") or ""


def _json(data: Any) -> Response:
    headers = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
    return Response(200, msgspec.json.encode(data), headers)


def _found(data: Data | list[Data] | None) -> Response:
    return _json({"problem": "there is no such pod, template or node any more"} if data is None else data)


def _problem(code: int, message: str) -> Response:
    body = msgspec.json.encode({"message": message})
    return Response(code, body, (("Content-Type", "application/json"), ("Cache-Control", "no-store")))
