"""The failures of requests, as Status objects in the words of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.apiserver.http.messages import Reason, Refused, status
from moorage.validation.field import FieldError

_MOST_ERRORS, _MOST_TEXT = 500, 64 << 10
"""How many errors are listed, and after how many characters of them no more."""


def _details(kind: Kind, name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "group": kind.group, "kind": kind.plural, **more}


def not_found(kind: Kind, name: str) -> Refused:
    """There is no such object."""
    return Refused(status(404, Reason.NOT_FOUND, f'{kind.resource} "{name}" not found', _details(kind, name)))


def no_such_path(missing: str = "") -> Refused:
    """Nothing is served at this path, or no objects of a kind that is served at another."""
    message = "the server could not find the requested resource"
    return Refused(status(404, Reason.NOT_FOUND, f"{message}: there are no {missing} here" if missing else message, {}))


def already_exists(kind: Kind, name: str) -> Refused:
    """There already is such an object."""
    message = f'{kind.resource} "{name}" already exists'
    return Refused(status(409, Reason.ALREADY_EXISTS, message, _details(kind, name)))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(kind: Kind, name: str, why: str = MODIFIED, *, of: str = "") -> Refused:
    """The object is not in the state that the request expects."""
    message = f'Operation cannot be fulfilled on {of or kind.resource} "{name}": {why}'
    return Refused(status(409, Reason.CONFLICT, message, _details(kind, name)))


def invalid(kind: Kind, name: str, errors: Sequence[FieldError]) -> Refused:
    """Validation of an object failed."""
    return invalid_as(kind.group, kind.kind, name, errors)


def invalid_as(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> Refused:
    """Validation failed. As many errors are listed as fit; of the others only the number."""
    causes = list(_causes(errors))
    bodies = list(dict.fromkeys(f"{cause['field']}: {cause['message']}" for cause in causes))
    if len(errors) > len(causes):
        bodies.append(f"and {len(errors) - len(causes)} more")
    listed = bodies[0] if len(bodies) == 1 else f"[{', '.join(bodies)}]"
    what = f"{kind}.{group}" if group else kind
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    return Refused(status(422, Reason.INVALID, f'{what} "{name}" is invalid: {listed}', details))


def _causes(errors: Sequence[FieldError]) -> Iterator[Data]:
    """The first errors, as many as may be listed: 500, and of long ones only the beginnings and fewer."""
    length = 0
    for error in errors[:_MOST_ERRORS]:
        if length > _MOST_TEXT:
            return
        text = error.body
        text = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
        length += len(text)
        yield {"reason": error.type.reason, "message": text, "field": error.field}


def forbidden(kind: Kind, name: str, why: str) -> Refused:
    """Admission does not allow it."""
    return Refused(status(403, Reason.FORBIDDEN, f'{kind.resource} "{name}" is forbidden: {why}', _details(kind, name)))


def bad_request(message: str) -> Refused:
    """The request is malformed or contradicts itself."""
    return Refused(status(400, Reason.BAD_REQUEST, message))


def too_large(message: str) -> Refused:
    """The body is larger than the limit."""
    return Refused(status(413, Reason.REQUEST_ENTITY_TOO_LARGE, f"Request entity too large: {message}"))


def expired(message: str, go_on: str = "") -> Refused:
    """The revision is too old. `go_on` is a token with which a list continues inconsistently."""
    return Refused(status(410, Reason.EXPIRED, message, metadata={"continue": go_on} if go_on else {}))


def too_large_resource_version(revision: int, current: int) -> Refused:
    """The revision is newer than the store."""
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return Refused(status(504, Reason.TIMEOUT, message, {"causes": causes, "retryAfterSeconds": 1}))


def method_not_allowed() -> Refused:
    """The resource does not allow this method."""
    message = "the server does not allow this method on the requested resource"
    return Refused(status(405, Reason.METHOD_NOT_ALLOWED, message, {}))


def unsupported_media_type(accepted: Sequence[str]) -> Refused:
    """The media type of the body is not supported."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return Refused(status(415, Reason.UNSUPPORTED_MEDIA_TYPE, message))


def not_implemented(what: str) -> Refused:
    """The request is not supported."""
    return Refused(status(501, "NotImplemented", what))
