"""The API server: who asks, whether they may, what they want, and the answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from moorage.apiserver.access import reviews
from moorage.apiserver.access.accounttokens import KubernetesClaims, Reference, ServiceAccountTokens
from moorage.apiserver.access.authentication import Authenticator, impersonate
from moorage.apiserver.access.rbac import Attributes, Rbac, forbidden
from moorage.apiserver.base.users import User
from moorage.apiserver.describe import discovery, health, openapi, version
from moorage.apiserver.describe.yamlanswers import in_yaml
from moorage.apiserver.http.failures import bad_request, method_not_allowed, no_such_path, not_implemented
from moorage.apiserver.http.media import PLAIN, prefers_yaml
from moorage.apiserver.http.messages import Reason, Refused, Request, Response, status
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.request.bodies import parsed
from moorage.apiserver.request.options import check_timeout
from moorage.apiserver.request.routes import Route, find, unserved
from moorage.apiserver.verbs import eviction, read, scale
from moorage.apiserver.verbs.admission import Admission
from moorage.apiserver.verbs.watch import Watches
from moorage.apiserver.verbs.writing import Writer, timestamp
from moorage.client.clock import Clock
from moorage.client.priority import urgent
from moorage.features import Gates
from moorage.store.protocol import Store, StoreUnavailable

_LOG = logging.getLogger(__name__)
_NOT_HERE = {
    "log": "there are no containers here whose log could be read",
    "exec": "there are no containers here to run a command in",
    "attach": "there are no containers here to attach to",
    "portforward": "there are no containers here whose ports could be forwarded",
    "proxy": "there are no containers here to send requests to",
}

Answer = Callable[[Route, Request], Awaitable[Response]]


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
    ) -> None:
        self._store = store
        self._authenticator = authenticator
        self._accounts = accounts
        self._rbac = rbac
        self._writer = Writer(store, Admission(store, gates), rbac, clock)
        self._watches = Watches(store)
        self.metrics = Metrics()
        self._answers: dict[tuple[str, str], Answer] = {
            ("get", ""): lambda route, request: read.get(store, route, request),
            ("list", ""): lambda route, request: read.list_objects(store, route, request),
            ("watch", ""): self._watches.watch,
            ("create", ""): self._writer.create,
            ("update", ""): self._writer.update,
            ("patch", ""): self._writer.patch,
            ("delete", ""): self._writer.delete,
            ("deletecollection", ""): self._writer.delete_collection,
            ("get", "scale"): lambda route, request: scale.get(self._writer, route, request),
            ("update", "scale"): lambda route, request: scale.put(self._writer, route, request),
            ("patch", "scale"): lambda route, request: scale.patch(self._writer, route, request),
            ("create", "binding"): self._writer.bind,
            ("create", "eviction"): lambda route, request: eviction.evict(self._writer, route, request),
            ("create", "token"): self._token,
        }
        for part in ("status", "ephemeralcontainers", "resize", "finalize"):
            self._answers["get", part] = self._answers["get", ""]
            self._answers["update", part] = self._writer.update
            self._answers["patch", part] = self._writer.patch

    async def handle(self, request: Request) -> Response:
        """The answer to a request; every failure is one, and none tells more than it must."""
        with urgent():
            return await self._handle(request, None)

    async def handle_as(self, user: User, request: Request) -> Response:
        """The answer to a component in the same process, which need not prove who it is."""
        return await self._handle(request, user)

    async def _handle(self, request: Request, known: User | None) -> Response:
        start = time.perf_counter()
        route = find(request)
        try:
            response = await self._answered(route, request, known)
        except Refused as refused:
            response = refused.response
        except StoreUnavailable as error:
            details = {"retryAfterSeconds": 1}
            response = status(503, Reason.SERVICE_UNAVAILABLE, f"the store is not available: {error}", details)
        except Exception:  # noqa: BLE001 - the client gets an answer, the log the rest
            _LOG.exception("request failed: %s %s", request.method, request.path)
            response = status(
                500, Reason.INTERNAL_ERROR, "an internal error occurred; the server's log has the details"
            )
        if prefers_yaml(request.headers.get("accept")):
            response = await in_yaml(response)
        if route is not None:
            seconds = None if route.verb == "watch" else time.perf_counter() - start
            self.metrics.request(_what(route, request), response.status, seconds, dry_run="dryRun" in request.query)
        return response

    async def _answered(self, route: Route | None, request: Request, known: User | None) -> Response:
        if known is None:
            request.user = self._authenticator.authenticate(request)
            user = request.user = impersonate(request, self._rbac)
        else:
            user = request.user = known
        if "timeout" in request.query:
            check_timeout(request)
        if route is None:
            return await self._about_the_server(request, user)
        asked = Attributes(
            route.verb, route.kind.plural, route.kind.group, route.subresource, route.namespace, route.name
        )
        self._authorize(user, asked)
        if not route.verb:
            raise method_not_allowed()
        if route.subresource in _NOT_HERE:
            raise not_implemented(_NOT_HERE[route.subresource])
        answer = self._answers.get((route.verb, route.subresource))
        if answer is None:
            raise method_not_allowed()
        return await answer(route, request)

    def _authorize(self, user: User, asked: Attributes) -> None:
        decision = self._rbac.decide(user, asked)
        if not decision.allowed:
            raise Refused(forbidden(user, asked, decision.reason))

    async def _about_the_server(self, request: Request, user: User) -> Response:
        segments = request.segments
        if len(segments) >= 4 and segments[0] == "apis" and request.method == "POST":
            answer = self._review(segments, request, user)
            if answer is not None:
                return answer
        verb = {"GET": "get", "HEAD": "head"}.get(request.method, request.method.lower())
        self._authorize(user, Attributes(verb, path=request.path))
        if request.method not in ("GET", "HEAD"):
            raise no_such_path(unserved(segments)) if segments[:1] in (("api",), ("apis",)) else method_not_allowed()
        head = segments[0] if segments else ""
        if head in health.PATHS:
            found = await health.answer(self._store, request)
            if found is None:
                raise no_such_path()
            return found
        if head == "version":
            return Response(200, version.document())
        if head == "metrics":
            return Response(200, self.metrics.text(), (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),))
        found = openapi.answer(request) if head == "openapi" else discovery.answer(request)
        if found is None:
            raise no_such_path(unserved(segments))
        return found

    def _review(self, segments: tuple[str, ...], request: Request, user: User) -> Response | None:
        """Questions about rights: they are answered, not stored."""
        group, resource = segments[1], segments[-1]
        namespace = segments[4] if len(segments) == 6 and segments[3] == "namespaces" else ""
        answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "selfsubjectaccessreviews": lambda body: reviews.self_subject_access_review(self._rbac, user, body),
            "selfsubjectrulesreviews": lambda body: reviews.self_subject_rules_review(self._rbac, user, body),
            "subjectaccessreviews": lambda body: reviews.subject_access_review(self._rbac, body),
            "localsubjectaccessreviews": lambda body: reviews.local_subject_access_review(self._rbac, namespace, body),
            "selfsubjectreviews": lambda _: {"userInfo": reviews.user_info(user)},
            "tokenreviews": self._token_review,
        }
        if group not in ("authorization.k8s.io", "authentication.k8s.io") or resource not in answers:
            return None
        self._authorize(user, Attributes("create", resource, group, namespace=namespace))
        read.form_of(request, PLAIN)  # there is no table of an answer
        body = parsed(request)
        if not isinstance(body, dict):
            raise bad_request("the body must be an object")
        return Response(201, msgspec.json.encode(body | {"status": answers[resource](body)}))

    def _token_review(self, body: dict[str, Any]) -> dict[str, Any]:
        token = (body.get("spec") or {}).get("token") or ""
        try:
            user = self._authenticator.by_token(token)
        except Refused:
            return {"authenticated": False, "error": "the token is not valid"}
        return {"authenticated": True, "user": reviews.user_info(user)}

    async def _token(self, route: Route, request: Request) -> Response:
        """A token for a service account."""
        answer = await read.get(self._store, route, Request("GET", request.path))
        assert isinstance(answer.body, bytes)
        account = msgspec.json.decode(answer.body)
        body = parsed(request) if request.body else {}
        if not isinstance(body, dict):
            raise bad_request("the body must be a TokenRequest")
        spec = body.get("spec") or {}
        seconds, audiences = spec.get("expirationSeconds") or 3600, spec.get("audiences") or ()
        bound = KubernetesClaims(route.namespace, Reference(route.name, account["metadata"]["uid"]))
        try:
            token = self._accounts.issue(bound, seconds, audiences)
        except (ValueError, TypeError) as error:
            raise bad_request(f"spec.expirationSeconds: {error}") from None
        ends = datetime.fromtimestamp(token.expires, UTC)
        granted = {"token": token.text, "expirationTimestamp": timestamp(ends)}
        head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": account["metadata"]}
        return Response(201, msgspec.json.encode({**head, "spec": spec, "status": granted}))


def _what(route: Route, request: Request) -> tuple[str, ...]:
    scope = "resource" if route.name else "namespace" if route.namespace else "cluster"
    verb = "WATCH" if route.verb == "watch" else "LIST" if route.verb == "list" else request.method
    return verb, route.kind.group, route.version, route.kind.plural, route.subresource, scope
