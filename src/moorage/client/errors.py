"""What an API server may answer instead of what was asked for."""

from __future__ import annotations

import msgspec

from moorage.api.meta import Wire


class Details(Wire):
    """What a Status says beside its message."""

    retry_after_seconds: int = 0


class Status(Wire):
    """A failure as the server tells it."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


read_status = msgspec.json.Decoder(Status).decode


class ApiError(Exception):
    """The server refused; the message is its own."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float = 0) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after


class Missing(ApiError):
    """There is no such object."""


class Exists(ApiError):
    """There is an object of this name already."""


class Conflict(ApiError):
    """The object is not as it was when it was read."""


class Invalid(ApiError):
    """The object is not valid."""


class Forbidden(ApiError):
    """The client may not, or the server will not now: the message says which."""


class Expired(ApiError):
    """What happened since that revision is no longer known: list again."""


class TooManyRequests(ApiError):
    """Not now: the server is busy, or a disruption budget is used up."""


class Unavailable(ApiError):
    """The server cannot be reached or cannot answer; the request may or may not have been done."""


_BY_CODE: dict[int, type[ApiError]] = {
    403: Forbidden, 404: Missing, 409: Conflict, 410: Expired, 422: Invalid, 429: TooManyRequests,
    500: Unavailable, 502: Unavailable, 503: Unavailable, 504: Unavailable,
}  # fmt: skip


def of(code: int, body: bytes, retry_after: float = 0) -> ApiError:
    """The error that an answer is; what its body says counts before what its headers say."""
    try:
        status = read_status(body)
    except (msgspec.DecodeError, UnicodeError):
        status = Status(message=body.decode(errors="replace").strip())
    kind = Exists if status.reason == "AlreadyExists" else _BY_CODE.get(code, ApiError)
    told = status.details.retry_after_seconds if status.details else 0
    return kind(code, status.reason, status.message or f"the server answered {code}", told or retry_after)
