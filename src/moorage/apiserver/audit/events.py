"""One request in the audit log, in the form audit.k8s.io/v1 Event."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from uuid import uuid4

import msgspec

from moorage.api.meta import Data
from moorage.apiserver.access.rbac import Decision
from moorage.apiserver.audit.policy import AuditLevel, Treatment
from moorage.apiserver.base.users import User
from moorage.apiserver.http.messages import Refused, Request, Response
from moorage.apiserver.request import protobuf
from moorage.apiserver.request.bodies import media_type, read_yaml
from moorage.apiserver.request.routes import Route

MOST_YAML = 128 << 10
"""How long a YAML body may be that is written: it takes long to read, and one thread writes for all."""
RECEIVED, STARTED, COMPLETE = "RequestReceived", "ResponseStarted", "ResponseComplete"


class AuditedRequest(NamedTuple):
    """A request and its answer, before they are put into words, which is done on a thread."""

    audit_id: str
    treatment: Treatment
    route: Route
    request: Request
    response: Response | None
    """None as long as it is only received."""
    user: User
    """Who sent it."""
    impersonated: User | None
    """Who they acted as."""
    decision: Decision | None
    """What authorization said; None when it was not asked."""
    stage: str
    received: float
    ended: float

    @property
    def size(self) -> int:
        """How many bytes it holds besides itself; what is only received is counted when it is answered."""
        if self.response is None:
            return 0
        answer = self.response.body
        return len(self.request.body) + (len(answer) if isinstance(answer, bytes) else 0)


def new_id() -> str:
    """A name for a request."""
    return str(uuid4())


def event(of: AuditedRequest) -> bytes:
    """One line of the log."""
    request, response, level = of.request, of.response, of.treatment.level
    sent = _sent(request) if response and level >= AuditLevel.REQUEST and request.body else None
    is_shown = response and (level is AuditLevel.REQUEST_RESPONSE or _is_needed(of.route, response))
    answered = _answered(response) if response and is_shown else None
    content: Data = {
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": level.text, "auditID": of.audit_id,
        "stage": of.stage, "requestURI": _uri(request), "verb": of.route.verb or request.method.lower(),
        "user": _user(of.user),
    }  # fmt: skip
    if of.impersonated is not None:
        content["impersonatedUser"] = _user(of.impersonated)
    content["sourceIPs"] = list(_addresses(request))
    if agent := request.headers.get("user-agent"):
        content["userAgent"] = agent
    if of.route.kind.plural:
        content["objectRef"] = _reference(of.route, sent, answered)
    if response is not None:
        content["responseStatus"] = _status(response.status, answered)
    if level >= AuditLevel.REQUEST and sent is not None:
        content["requestObject"] = _shown(sent, of.treatment)
    if level >= AuditLevel.REQUEST_RESPONSE and answered is not None:
        content["responseObject"] = _shown(answered, of.treatment)
    content["requestReceivedTimestamp"] = _time(of.received)
    content["stageTimestamp"] = _time(of.ended)
    if of.decision is not None:
        allowed = "allow" if of.decision.allowed else "forbid"
        content["annotations"] = {
            "authorization.k8s.io/decision": allowed, "authorization.k8s.io/reason": of.decision.reason
        }  # fmt: skip
    return _encoded(content) + b"\n"


def _encoded(content: Data) -> bytes:
    """The event; without the objects in it when those cannot be written."""
    try:
        return msgspec.json.encode(content)
    except (ValueError, TypeError, RecursionError):
        return msgspec.json.encode({key: value for key, value in content.items() if not key.endswith("Object")})


def _is_needed(route: Route, response: Response) -> bool:
    """Whether the answer says what every event does: why a request failed, and what a new object is called."""
    return response.status >= 400 or route.verb in ("create", "delete")


def _sent(request: Request) -> Any:
    """The object or patch in a body, if it can be read."""
    kind = media_type(request)
    try:
        if kind.endswith("yaml"):
            return _yaml(request.body)
        return protobuf.decode(request.body) if kind == protobuf.MEDIA_TYPE else msgspec.json.decode(request.body)
    except (Refused, protobuf.ProtobufError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _yaml(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)  # as kubectl apply --server-side sends it
    except msgspec.DecodeError:
        return read_yaml(body).data if len(body) <= MOST_YAML else None


def _answered(response: Response) -> Any:
    """The object in a response, if it is whole and one."""
    if response.stream is not None or not isinstance(response.body, bytes):
        return None
    try:
        return msgspec.json.decode(response.body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _uri(request: Request) -> str:
    query = urlencode([(name, value) for name, values in request.query.items() for value in values])
    path = quote(request.path, safe="/:@!$&'()*+,;=~")
    return f"{path}?{query}" if query else path


def _user(user: User) -> Data:
    content: Data = {"username": user.name} if user.name else {}
    if user.uid:
        content["uid"] = user.uid
    if user.groups:
        content["groups"] = list(user.groups)
    if user.extra:
        content["extra"] = {key: list(values) for key, values in user.extra.items()}
    return content


def _addresses(request: Request) -> Iterator[str]:
    """Where a request came from: what proxies say of it, then the one that is connected."""
    for text in ",".join(request.headers.all("x-forwarded-for")).split(","):
        try:
            yield str(ipaddress.ip_address(text.strip()))
        except ValueError:
            continue
    yield request.address


def _reference(route: Route, sent: Any, answered: Any) -> Data:
    found = {
        "resource": route.kind.plural, "namespace": route.namespace, "name": route.name,
        "apiGroup": route.kind.group, "apiVersion": route.version, "subresource": route.subresource,
    }  # fmt: skip
    if route.verb == "create" and not route.name:
        found["name"] = _name(answered) or _name(sent)
    return {key: value for key, value in found.items() if value}


def _name(data: Any) -> str:
    metadata = data.get("metadata") if isinstance(data, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _status(code: int, answered: Any) -> Data:
    if isinstance(answered, dict) and answered.get("kind") == "Status":
        told = {key: answered[key] for key in ("status", "message", "reason", "details") if key in answered}
        return {"metadata": {}, **told, "code": code}
    return {"metadata": {}, "code": code}


def _shown(data: Any, treatment: Treatment) -> Any:
    if treatment.omit_managed_fields and isinstance(data, dict):
        for each in (data, *_items(data)):
            if isinstance(each, dict) and isinstance(each.get("metadata"), dict):
                each["metadata"].pop("managedFields", None)
    return data


def _items(data: Data) -> list[Any]:
    items = data.get("items")
    return items if isinstance(items, list) else []


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
