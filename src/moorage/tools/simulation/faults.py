"""Faults of the components that play a cluster: an answer must not hide that something went wrong on the way to it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Faults(logging.Handler):
    """Counts the exceptions that components log and go on after."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._seen: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Note an exception."""
        if record.exc_info and (error := record.exc_info[1]) is not None:
            self._seen[f"{type(error).__name__}: {error} ({record.module}.py)"] += 1

    def notes(self) -> list[str]:
        """What a person should know about it."""
        return [f"a fault of Moorage, {count} times, may have changed the answer: {said}"
                for said, count in self._seen.most_common()]  # fmt: skip


@contextmanager
def noticing() -> Iterator[Faults]:
    """Notice the faults of the components that run meanwhile."""
    logger, faults = logging.getLogger("moorage"), Faults()
    logger.addHandler(faults)
    try:
        yield faults
    finally:
        logger.removeHandler(faults)
