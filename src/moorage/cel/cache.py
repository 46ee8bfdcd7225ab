"""Compiled expressions, kept as long as they are among the most recently used."""

from __future__ import annotations

import threading
from typing import NamedTuple

from moorage.bounded import Bounded
from moorage.cel.env import Env
from moorage.cel.errors import CompileError
from moorage.cel.program import Program

MOST_BYTES = 32 << 20
"""How much memory the kept programs take together, about."""


class Counters(NamedTuple):
    """How often an expression was in the cache, had to be compiled, and was dropped to make room."""

    hits: int
    misses: int
    evictions: int


class ProgramCache:
    """Programs of one environment by their text. An expression that does not compile is kept as its error."""

    def __init__(self, env: Env, size: int = 1024, most_bytes: int = MOST_BYTES) -> None:
        self._env = env
        self._entries: Bounded[str, _Entry] = Bounded(size, most_bytes)
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    def compile(self, text: str) -> Program:
        """The program of an expression, or CompileError. Threads that ask at once share one compilation."""
        with self._lock:
            entry = self._entries.get(text)
            if entry is not None:
                self._hits += 1
            else:
                self._misses += 1
                entry = _Entry()
                self._entries.put(text, entry, self._size(len(text) + 1))
        outcome = entry.outcome or self._make(text, entry)
        if isinstance(outcome, CompileError):
            # Without this the error would remember every place that ever raised it.
            raise outcome.with_traceback(None)
        return outcome

    def _make(self, text: str, entry: _Entry) -> Program | CompileError:
        outcome = entry.make(self._env, text)
        with self._lock:
            if self._entries.get(text) is entry:
                self._entries.put(text, entry, self._size(outcome.size))
        return outcome

    def _size(self, size: int) -> int:
        """What an entry counts as: never so much that it would not be kept."""
        return min(size, self._entries.most_bytes // 16)

    @property
    def counters(self) -> Counters:
        """The counters so far."""
        with self._lock:
            return Counters(self._hits, self._misses, self._entries.evictions)

    @property
    def bytes(self) -> int:
        """About how much memory the kept programs take."""
        return self._entries.bytes

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, text: str) -> bool:
        """Whether a program is there; one that another thread is still compiling must be waited for."""
        with self._lock:
            entry = self._entries.get(text)
        return entry is not None and entry.outcome is not None


class _Entry:
    __slots__ = ("lock", "outcome")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.outcome: Program | CompileError | None = None

    def make(self, env: Env, text: str) -> Program | CompileError:
        """Compile, unless another thread has just done so."""
        with self.lock:
            if self.outcome is None:
                try:
                    self.outcome = env.compile(text)
                except CompileError as error:
                    self.outcome = error
            return self.outcome
