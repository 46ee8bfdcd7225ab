"""The API server for components in the same process: the same requests and responses, without a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric import ec

from moorage.apiserver.access.accounttokens import ServiceAccountTokens
from moorage.apiserver.access.authentication import Authenticator
from moorage.apiserver.access.rbac import Rbac
from moorage.apiserver.access.tokens import Tokens
from moorage.apiserver.app import App
from moorage.apiserver.base.users import MASTERS, User
from moorage.apiserver.http.messages import Headers, Request, Response, Target
from moorage.client import errors
from moorage.client.clock import Clock
from moorage.client.transport import Answer
from moorage.features import Gates
from moorage.store.protocol import Store, StoreError

_UNCHECKED = {"fieldValidation": ["Ignore"]}
"""Nobody reads the warnings that a component gets."""


class LocalTransport:
    """Carries a component's requests to an API server in the same process, as one user."""

    def __init__(self, app: App, user: User, agent: str) -> None:
        self._app = app
        self._user = user
        self._agent = agent
        self._headers: dict[str, Headers] = {}
        """The headers of requests by the type of their body."""

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        """The answer to one request."""
        response = await self._app.handle_as(self._user, self._request(method, target, body, content_type))
        whole = response.body
        return Answer(response.status, whole if isinstance(whole, bytes) else b"".join(whole))

    async def respond(self, request: Request) -> Response:
        """The whole response to a request with headers of its own."""
        return await self._app.handle_as(self._user, request)

    @asynccontextmanager
    async def stream(self, target: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer to a GET as it comes."""
        response = await self._app.handle_as(self._user, self._request("GET", target, b"", ""))
        if response.stream is None:
            whole = response.body
            raise errors.of(response.status, whole if isinstance(whole, bytes) else b"".join(whole))
        async with aclosing(cast(Any, response.stream)) as chunks:
            yield _with_client_errors(chunks)

    async def close(self) -> None:
        """There is nothing to release."""

    def _request(self, method: str, target: str, body: bytes, content_type: str) -> Request:
        headers = self._headers.get(content_type)
        if headers is None:
            pairs = [("user-agent", self._agent), *([("content-type", content_type)] if content_type else ())]
            headers = self._headers[content_type] = Headers(pairs)
        to = Target(target.encode())
        return Request(method, to.path, to.segments, to.query or (_UNCHECKED if body else {}), headers, body)


def private_server(store: Store, gates: Gates, clock: Clock, agent: str) -> LocalTransport:
    """An API server that listens nowhere: only its transport reaches it, as a user who may do everything."""
    accounts = ServiceAccountTokens(ec.generate_private_key(ec.SECP256R1()), lambda *_: False)
    app = App(store, gates, Authenticator(Tokens({}), accounts, ()), accounts, Rbac(), clock)
    return LocalTransport(app, User(agent, (MASTERS,)), agent)


async def _with_client_errors(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A stream that fails with the errors of a client."""
    try:
        async for chunk in chunks:
            yield chunk
    except StoreError as error:
        raise errors.Unavailable(503, "ServiceUnavailable", f"the store is not available: {error}") from None
