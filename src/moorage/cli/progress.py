"""How far a long reading is, on one line of a terminal; silence in a pipe."""

from __future__ import annotations

import sys
import time
from types import TracebackType

_INTERVAL = 0.1
_CLEAR = "\r\x1b[K"


class ReadingProgress:
    """Shows on standard error what is being read. Leaves nothing behind."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._next = 0.0
        self._done: dict[str, int] = {}

    def __call__(self, resource: str, done: int, total: int | None) -> None:
        """So many objects have been read, of so many in all if that is known."""
        self._done[resource] = done
        now = time.monotonic()
        if not self._shows or now < self._next:
            return
        self._next = now + _INTERVAL
        of = f" of {total:,}" if total and total > done else ""
        sys.stderr.write(f"{_CLEAR}reading {resource}: {done:,}{of} ({sum(self._done.values()):,} objects in all)")
        sys.stderr.flush()

    def __enter__(self) -> ReadingProgress:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._shows and self._done:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
