"""The token of a service account, issued when a TokenRequest is created."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from moorage.apiserver.access.accounttokens import KubernetesClaims, Reference
from moorage.apiserver.access.reviews import token_spec
from moorage.apiserver.base.objects import decode, key
from moorage.apiserver.http.failures import bad_request, not_found
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.request.bodies import parsed
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs.backend import Backend
from moorage.client.clock import timestamp

_DEFAULT_SECONDS = 3600


async def issue(backend: Backend, route: Route, request: Request) -> Response:
    """Issue a token for a service account."""
    item = await backend.store.get(key(route.kind, route.namespace, route.name))
    if item is None:
        raise not_found(route.kind, route.name)
    metadata = decode(item)["metadata"]
    body = await parsed(request) if request.body else {}
    if not isinstance(body, dict):
        raise bad_request("the body must be a TokenRequest")
    spec = token_spec(body)
    account = KubernetesClaims(route.namespace, Reference(route.name, metadata["uid"]))
    try:
        token = backend.accounts.issue(account, spec.expiration_seconds or _DEFAULT_SECONDS, spec.audiences)
    except ValueError as error:
        raise bad_request(f"spec.expirationSeconds: {error}") from None
    status = {"token": token.text, "expirationTimestamp": timestamp(datetime.fromtimestamp(token.expires, UTC))}
    head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": metadata}
    return Response(201, msgspec.json.encode({**head, "spec": body.get("spec") or {}, "status": status}))
