"""The three answers of the matcher: match, no match, and an error with its reason, which never matches."""

from __future__ import annotations

from typing import NamedTuple


class Verdict(NamedTuple):
    """An answer. It is true in a condition only when it is a match."""

    matched: bool
    error: str = ""
    """Why the question could not be answered, as a sentence for a person."""
    log: str = ""
    """The error as a stable message for logs, without values."""

    def __bool__(self) -> bool:
        return self.matched


MATCH = Verdict(True)
NO_MATCH = Verdict(False)
