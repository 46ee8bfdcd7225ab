"""Memory of a process that holds a whole cluster: how often garbage is collected, and what the system gets back."""

from __future__ import annotations

import ctypes
import gc

_ALLOCATIONS, _YOUNG, _OLD = 5_000, 10, 2_000
"""After how many new objects the newest are looked at, after how many such looks those of all of these, and after how
many of those everything: none but the last, after a hundred million, looks at more than 60,000 objects, for the event
loop stands still meanwhile."""


def collect_seldom() -> None:
    """Exempt all objects that exist by now from garbage collection, and run it less often for the rest.

    Nearly nothing here is part of a reference cycle: with the interpreter's own thresholds, a sixth of the time of a
    busy server goes into looking for cycles in vain.
    """
    gc.collect()
    gc.freeze()
    raise_thresholds()


def raise_thresholds() -> None:
    """Run garbage collection less often."""
    gc.set_threshold(_ALLOCATIONS, _YOUNG, _OLD)


def give_back() -> None:
    """Give free memory back to the operating system, where the C library can; it takes some milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
