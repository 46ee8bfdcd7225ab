"""The API server: from a request to its response, step by step."""

from __future__ import annotations

import asyncio
import time

from moorage.apiserver.access.accounttokens import ServiceAccountTokens
from moorage.apiserver.access.authentication import Authenticator, impersonate
from moorage.apiserver.access.rbac import Attributes, Decision, Rbac, forbidden
from moorage.apiserver.audit.log import NOBODY, AuditLog
from moorage.apiserver.base.offload import VERY_LARGE, in_hand
from moorage.apiserver.base.users import ANONYMOUS, User
from moorage.apiserver.describe.yamlanswers import in_yaml
from moorage.apiserver.http.media import prefers_yaml
from moorage.apiserver.http.messages import Reason, Refused, Request, Response, status
from moorage.apiserver.metrics import ApiServerMetrics
from moorage.apiserver.request.options import check_timeout
from moorage.apiserver.request.routes import Route, find
from moorage.apiserver.verbs.admission import Admission
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.documents import DOCUMENTS
from moorage.apiserver.verbs.handlers import handler_of
from moorage.client.clock import Clock
from moorage.client.priority import urgent
from moorage.features import Gates
from moorage.logs import Log
from moorage.store.protocol import Store, StoreFull, StoreUnavailable

_LOG = Log(__name__)
_COUNTED = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
"""Methods that are counted by their names: clients may not add to the metrics by inventing some."""


class App:
    """Answers requests."""

    def __init__(
        self,
        store: Store,
        gates: Gates,
        authenticator: Authenticator,
        accounts: ServiceAccountTokens,
        rbac: Rbac,
        clock: Clock | None = None,
        audit: AuditLog | None = None,
        plugins: frozenset[str] = frozenset(),
    ) -> None:
        self.metrics = ApiServerMetrics(gates)
        self._audit = audit
        if audit is not None:
            self.metrics.serve(audit)
        self._authenticator = authenticator
        self._rbac = rbac
        self._backend = Backend(
            store=store,
            admission=Admission(store, gates, plugins),
            authenticator=authenticator,
            accounts=accounts,
            rbac=rbac,
            clock=clock or Clock(),
            metrics=self.metrics.text,
        )

    def authenticate(self, request: Request) -> User:
        """Who sends a request, of which only the head is known. Refused (401)."""
        try:
            user = self._authenticator.authenticate(request)
        except Refused as refused:
            route, start = find(request), time.perf_counter()
            self._measure(route, request, refused.response, start)
            if self._audit is not None:
                self._audit.note(route, request, refused.response, NOBODY, None, start)
            raise
        self._received(request, user)
        return user

    def _received(self, request: Request, sender: User) -> None:
        if self._audit is not None and self._audit.notes_arrivals:
            self._audit.received(find(request), request, sender)

    def refused(self, request: Request, response: Response) -> None:
        """Count and write down a request of a known user that the connection has refused, such as with 429."""
        route, start = find(request), time.perf_counter()
        self._measure(route, request, response, start)
        if self._audit is not None:
            self._audit.note(route, request, response, request.user or ANONYMOUS, None, start)

    async def handle(self, request: Request) -> Response:
        """The response to a request of a client; every failure is one, and none tells more than it must."""
        with urgent():
            return await self._handle(request, None)

    async def handle_as(self, user: User, request: Request) -> Response:
        """The response to a component in the same process, which need not authenticate."""
        self._received(request, user)
        return await self._handle(request, user)

    async def _handle(self, request: Request, known: User | None) -> Response:
        start = time.perf_counter()
        route, sender, decision = find(request), known or request.user or ANONYMOUS, None
        try:
            user = request.user = impersonate(request, self._rbac) if known is None else known
            check_timeout(request)
            asked = _attributes(route)
            decision = self._rbac.decide(user, asked)
            _require(decision, user, asked)
            response = await self._answered(route, request)
        except Exception as error:  # noqa: BLE001 - the client gets an answer, the log the rest
            response = _failure(request, error)
        except asyncio.CancelledError:
            if self._audit is not None:
                self._audit.note(route, request, _cancelled(), sender, decision, start)
            raise
        if self._audit is not None:
            self._audit.note(route, request, response, sender, decision, start)
        if prefers_yaml(request.headers.get("accept")):
            response = await in_yaml(response)
        self._measure(route, request, response, start)
        return response

    async def _answered(self, route: Route, request: Request) -> Response:
        handler, size = handler_of(route, request), len(request.body)
        if size < VERY_LARGE:
            return await handler(self._backend, route, request)
        async with in_hand(size):
            return await handler(self._backend, route, request)

    def _measure(self, route: Route, request: Request, response: Response, start: float) -> None:
        """Count a request: one for objects by what was asked for, others by the first part of their path."""
        method = request.method if request.method in _COUNTED else "other"
        verb = "WATCH" if route.verb == "watch" else "LIST" if route.verb == "list" else method
        if route.kind.plural:
            scope = "resource" if route.name else "namespace" if route.namespace else "cluster"
            labels = verb, route.kind.group, route.version, route.kind.plural, route.subresource, scope
        else:
            labels = verb, "", "", "", route.endpoint if route.endpoint in DOCUMENTS else "", ""
        seconds = None if route.verb == "watch" else time.perf_counter() - start
        self.metrics.request(labels, response.status, seconds, dry_run="dryRun" in request.query)


def _attributes(route: Route) -> Attributes:
    verb, kind, _, namespace, name, subresource, _, path = route
    return Attributes(verb, kind.plural, kind.group, subresource, namespace, name, path)


def _require(decision: Decision, user: User, asked: Attributes) -> None:
    if not decision.allowed:
        raise Refused(forbidden(user, asked, decision.reason))


def _cancelled() -> Response:
    """What the audit log says of a request without an answer."""
    return status(504, Reason.TIMEOUT, "the request took too long, or the client has disconnected")


def _failure(request: Request, error: Exception) -> Response:
    if isinstance(error, Refused):
        return error.response
    if isinstance(error, StoreFull):
        return status(507, Reason.INSUFFICIENT_STORAGE, str(error))
    if isinstance(error, StoreUnavailable):
        details = {"retryAfterSeconds": 1}
        return status(503, Reason.SERVICE_UNAVAILABLE, f"the store is not available: {error}", details)
    _LOG.exception("Request failed", trace=error, verb=request.method, URI=request.path)
    return status(500, Reason.INTERNAL_ERROR, "an internal error occurred; the server's log has the details")
