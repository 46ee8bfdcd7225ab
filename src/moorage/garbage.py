"""How often Python's garbage collector runs in a process that holds a whole cluster in memory."""

from __future__ import annotations

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
