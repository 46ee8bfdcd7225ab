"""Field errors: what an object is refused for, in Kubernetes' words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from moorage.gotext import quote


class ErrorType(Enum):
    """The sort of error: its name on the wire, and how a message begins."""

    REQUIRED = ("FieldValueRequired", "Required value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    NOT_FOUND = ("FieldValueNotFound", "Not found")
    INTERNAL = ("InternalError", "Internal error")

    @property
    def reason(self) -> str:
        """The name that a Status cause carries."""
        return self.value[0]


OMITTED = object()
"""The value of an error that does not show it."""
_WITHOUT_VALUE = {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with one field."""

    type: ErrorType
    field: str
    value: Any
    detail: str

    @property
    def body(self) -> str:
        """The message without the field."""
        text: str = self.type.value[1]
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            text += f": {_shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def _shown(value: Any) -> str:
    return quote(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def required(field: str, detail: str = "") -> FieldError:
    """A value is missing."""
    return FieldError(ErrorType.REQUIRED, field, "", detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """A value is malformed."""
    return FieldError(ErrorType.INVALID, field, value, detail)


def not_supported(field: str, value: str, supported: Iterable[str]) -> FieldError:
    """A value is none of the supported ones."""
    return FieldError(ErrorType.NOT_SUPPORTED, field, value, f"supported values: {', '.join(map(quote, supported))}")


def forbidden(field: str, detail: str) -> FieldError:
    """A value is forbidden, or may not change."""
    return FieldError(ErrorType.FORBIDDEN, field, "", detail)


def too_long(field: str, limit: int) -> FieldError:
    """A value has more bytes than it may have."""
    return FieldError(ErrorType.TOO_LONG, field, "", f"may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """A list has more items than it may have."""
    return FieldError(ErrorType.TOO_MANY, field, count, f"must have at most {limit} items")


def duplicate(field: str, value: Any, detail: str = "") -> FieldError:
    """A value that must be unique occurs twice."""
    return FieldError(ErrorType.DUPLICATE, field, value, detail)


def not_found(field: str, value: Any, detail: str = "") -> FieldError:
    """A value names something that does not exist."""
    return FieldError(ErrorType.NOT_FOUND, field, value, detail)
