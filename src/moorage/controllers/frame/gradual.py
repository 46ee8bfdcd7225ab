"""Long work on a change of an object: begun at once, and gone on with while others are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator

from moorage.logs import Log

AT_ONCE = 10_000
"""How much is done before others have their turn: a millisecond or two of comparing one label after the other."""
_LOG = Log(__name__)


class Gradual:
    """Works through steps in the order in which they came. What waits and has not begun is not added twice."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Callable[[], Iterator[int]]] = {}
        self._begun: Iterator[int] | None = None
        self._goes_on = False
        """Whether the event loop will call back."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return self._begun is None and not self._waiting

    def add(self, key: Hashable, steps: Callable[[], Iterator[int]]) -> None:
        """Do some work under a name. Each step says how much it was."""
        self._waiting.setdefault(key, steps)
        if not self._goes_on:
            self._go_on()

    def _go_on(self) -> None:
        try:
            self._goes_on = self._work(AT_ONCE)
        except Exception:  # noqa: BLE001 - the trouble of one change must not end the others' work
            self._begun, self._goes_on = None, not self.is_idle
            _LOG.exception("Handler of a change failed")
        if self._goes_on:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _work(self, most: int) -> bool:
        """Do about so much. Whether something is left."""
        while most > 0 and not self.is_idle:
            if self._begun is None:
                first = next(iter(self._waiting))
                self._begun = self._waiting.pop(first)()
            done = next(self._begun, None)
            if done is None:
                self._begun = None
            else:
                most -= done
        return not self.is_idle
