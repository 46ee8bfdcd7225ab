"""The webhook as a server: AdmissionReviews over HTTPS, with a certificate that it renews by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Concatenate, ParamSpec, Self

import msgspec

from moorage.api import kinds
from moorage.api.cluster import Namespace
from moorage.api.meta import Object, ObjectMeta
from moorage.apiserver.base.offload import YAML_COST, in_hand, offload
from moorage.apiserver.base.users import User
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.listener import Server
from moorage.apiserver.http.messages import Reason, Request, Response, status
from moorage.client import ApiError, Client, Informers, Missing, TooManyRequests, Unavailable
from moorage.client.clock import Clock
from moorage.client.rights import Right, check_rights, to_follow
from moorage.logs import Log
from moorage.tools.attach.webhook.certificates import WebhookCertificates
from moorage.tools.attach.webhook.review import ReviewError, mutate, namespace_of, validate
from moorage.tools.attach.webhook.rewriting import WebhookSettings

SERVICE = "moorage-webhook"
LIMITS = Limits(body_size=8 << 20, connections=512, seats=32, queued=256, request_time=8, queue_time=5)
"""A review holds an object twice; the API server waits for its answer for ten seconds at most."""
_RENEW_SECONDS, _RETRY_SECONDS = 30.0, 2.0
_NAMESPACE = kinds.row("v1", "Namespace")
_MUTATE, _VALIDATE = "/mutate", "/validate"
_HEALTH = ("/healthz", "/readyz")

_LOG = Log(__name__)
P = ParamSpec("P")


def service_names(namespace: str) -> tuple[str, ...]:
    """What the certificate is for: the Service, and this machine."""
    service = f"{SERVICE}.{namespace}.svc"
    return service, f"{service}.cluster.local", "localhost", "127.0.0.1"


class _Namespaces:
    """The namespaces that reviews are about, so that an API server which is slow is not asked at each of them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known = Informers(client)
        self._known.of(Namespace)

    async def __aenter__(self) -> Self:
        """Follow them. Raises RightsMissing."""
        with suppress(TooManyRequests, Unavailable):  # it will be there when it is there
            await check_rights(self._client, (*to_follow(self._known), Right("get", _NAMESPACE)))
        try:
            await self._known.start()
        except BaseException:
            await self._known.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Follow them no longer."""
        await self._known.stop()

    async def of(self, name: str) -> Object | None:
        """The namespace of a name. One that is gone allows what one without labels does. Raises ApiError."""
        if not name:
            return None
        if known := self._known.of(Namespace).get("", name):
            return known
        try:
            return msgspec.json.decode(await self._client.get(_NAMESPACE, "", name), type=Object)
        except Missing:
            return Object(metadata=ObjectMeta(name=name))


def caller(request: Request) -> User:
    """Who asks: an address, because an API server need not say who it is. Addresses share as users do."""
    return User(request.address)


async def answer_review(request: Request, settings: WebhookSettings, namespaces: _Namespaces) -> Response:
    """The answer to a request of the API server, or of a kubelet that asks for health."""
    if request.method == "GET" and request.path in _HEALTH:
        return Response(200, b"ok", (("Content-Type", "text/plain"),))
    if request.path not in (_MUTATE, _VALIDATE):
        message = f"nothing is served at {request.path}: reviews at {_MUTATE} and {_VALIDATE}"
        return status(404, Reason.NOT_FOUND, message)
    if request.method != "POST":
        return status(405, Reason.METHOD_NOT_ALLOWED, "reviews are posted")
    try:
        if request.path == _MUTATE:
            return await _reviewed(mutate, request.body, settings)
        namespace = await namespaces.of(namespace_of(request.body))
        return await _reviewed(validate, request.body, settings, namespace)
    except ReviewError as error:
        return status(400, Reason.BAD_REQUEST, str(error))
    except ApiError as error:
        message = f"what the namespace allows is not known: {error}"
        return status(500, Reason.INTERNAL_ERROR, message)


async def _reviewed(
    work: Callable[Concatenate[bytes, P], bytes], body: bytes, *args: P.args, **kwargs: P.kwargs
) -> Response:
    """What a review gives, in a thread; of very large ones few are in memory at a time: anybody may send them."""
    async with in_hand(len(body)):
        return Response(200, await offload(len(body) * YAML_COST, work, body, *args, **kwargs))


async def serve_webhook(
    client: Client,
    settings: WebhookSettings,
    namespace: str,
    bind: str,
    port: int,
    started: Callable[[int], None] = lambda _: None,
    clock: Clock | None = None,
) -> None:
    """Answer reviews until cancelled. It listens once it has a certificate, and says on which port.

    Raises RightsMissing.
    """
    clock = clock or Clock()
    async with _Namespaces(client) as namespaces:
        certificates = WebhookCertificates(client, namespace, service_names(namespace))
        while not await _renewed(certificates, clock):
            await clock.sleep(_RETRY_SECONDS)

        def answer(request: Request) -> Awaitable[Response]:
            return answer_review(request, settings, namespaces)

        server = Server(answer, caller, certificates.tls, bind, port, LIMITS)
        await server.start()
        started(server.port)
        try:
            while True:
                await clock.sleep(_RENEW_SECONDS)
                await _renewed(certificates, clock)
        finally:
            with suppress(asyncio.CancelledError):
                await server.stop()


async def _renewed(certificates: WebhookCertificates, clock: Clock) -> bool:
    try:
        await certificates.renew(clock.now())
    except ApiError as error:
        _LOG.warning("Certificate not published", err=error)
        return False
    return True
