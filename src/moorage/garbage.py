"""Memory of a process that holds a whole cluster: how often garbage is collected, and what the system gets back."""

from __future__ import annotations

import ctypes
import gc

_ALLOCATIONS = 50_000


def collect_seldom() -> None:
    """Exempt all objects that exist by now from garbage collection, and run it less often for the rest.

    Nearly nothing here is part of a reference cycle: with the interpreter's own thresholds, a sixth of the time of a
    busy server goes into looking for cycles in vain.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, 20, 100)


def give_back() -> None:
    """Give free memory back to the operating system, where the C library can; it takes some milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
