"""Ages and durations in the short format of kubectl."""

from __future__ import annotations

from datetime import datetime

UNKNOWN = "<unknown>"
INVALID = "<invalid>"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY
_SPANS = (
    (2 * _MINUTE, "s", 1, "", 0),
    (10 * _MINUTE, "m", _MINUTE, "s", 1),
    (3 * _HOUR, "m", _MINUTE, "", 0),
    (8 * _HOUR, "h", _HOUR, "m", _MINUTE),
    (2 * _DAY, "h", _HOUR, "", 0),
    (8 * _DAY, "d", _DAY, "h", _HOUR),
    (2 * _YEAR, "d", _DAY, "", 0),
    (8 * _YEAR, "y", _YEAR, "d", _DAY),
)
"""Up to how many seconds which unit is used, and which smaller one for the rest."""


def human(seconds: float) -> str:
    """A duration with two or three figures: `5m30s`, `47h`, `2y13d`. One second below zero counts as zero."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else INVALID
    for below, unit, size, smaller, smaller_size in _SPANS:
        if whole < below:
            rest = whole % size // smaller_size if smaller_size else 0
            return f"{whole // size}{unit}{rest}{smaller}" if rest else f"{whole // size}{unit}"
    return f"{whole // _YEAR}y"


def moment(text: str | None) -> datetime | None:
    """Parse a timestamp of an object."""
    return datetime.fromisoformat(text) if text else None


def since(text: str | None, now: datetime) -> str:
    """How long ago a time was."""
    return human((now - datetime.fromisoformat(text)).total_seconds()) if text else UNKNOWN
