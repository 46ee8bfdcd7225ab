"""The errors of an API server, by the codes and reasons of its Status answers."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.api.meta import Wire


class StatusCause(Wire):
    """One of the reasons for a failure: a field, and what is wrong with it."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(Wire):
    """The details of a Status."""

    retry_after_seconds: int = 0
    causes: tuple[StatusCause, ...] = ()


class StatusMeta(Wire):
    """The metadata of a Status."""

    continue_: str = ""


class Status(Wire):
    """A failure as the server describes it."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None
    metadata: StatusMeta | None = None


LONGEST_DELAY = 300.0
"""For how many seconds a server may ask to be left alone."""

read_status = msgspec.json.Decoder(Status).decode


class ApiError(Exception):
    """The request failed; the message is the server's."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float = 0) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after
        self.continue_ = ""
        """Where a list can be gone on with, though not as of its revision; empty when it cannot."""
        self.causes: tuple[StatusCause, ...] = ()


class Missing(ApiError):
    """There is no such object."""


class Exists(ApiError):
    """There is an object of this name already."""


class Conflict(ApiError):
    """The object has changed since it was read."""


def is_race(error: Exception) -> bool:
    """Whether somebody else was faster, which is no reason to warn: the next attempt sees the newer state."""
    return isinstance(error, Conflict | Exists | Missing)


class Invalid(ApiError):
    """The object is not valid."""


class Forbidden(ApiError):
    """The client lacks permission, or admission denied the request: the message says which."""


class Expired(ApiError):
    """The events after that revision are no longer known: list again."""


class TooManyRequests(ApiError):
    """The server is busy, or a disruption budget does not allow the eviction now."""


class Unavailable(ApiError):
    """The server cannot be reached or cannot answer; the request may or may not have been done."""


_BY_CODE: dict[int, type[ApiError]] = {
    403: Forbidden, 404: Missing, 409: Conflict, 410: Expired, 422: Invalid, 429: TooManyRequests,
    500: Unavailable, 502: Unavailable, 503: Unavailable, 504: Unavailable, 507: Unavailable,
}  # fmt: skip


def of(code: int, body: bytes, retry_after: float = 0) -> ApiError:
    """The error for an answer; the delay that its body names takes precedence over that of its headers."""
    try:
        status = read_status(body)
    except (msgspec.DecodeError, UnicodeError):
        status = Status(message=body.decode(errors="replace").strip())
    kind = Exists if status.reason == "AlreadyExists" else _BY_CODE.get(code, ApiError)
    delay = (status.details.retry_after_seconds if status.details else 0) or retry_after
    message = status.message or f"the server answered {code}"
    error = kind(code, status.reason, message, max(0.0, min(delay, LONGEST_DELAY)))
    error.causes = status.details.causes if status.details else ()
    error.continue_ = status.metadata.continue_ if status.metadata else ""
    return error


def first_of(group: ExceptionGroup[Any]) -> Exception:
    """The first exception of a group, however deep: what a sentence can be said about."""
    error: Exception = group.exceptions[0]
    return first_of(error) if isinstance(error, ExceptionGroup) else error
