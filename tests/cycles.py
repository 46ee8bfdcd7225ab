"""Errors that are part of a reference cycle: nobody frees these, and what a request was about, for a long time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def freed_at_once(kind: type[BaseException]) -> Iterator[None]:
    """Check that no error of a kind is left when the block ends."""
    gc.collect()
    gc.disable()
    flags = gc.get_debug()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        left = [found for found in gc.garbage if isinstance(found, kind)]
        assert left == []
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.enable()
