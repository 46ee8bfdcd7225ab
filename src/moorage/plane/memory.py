"""When Python looks for garbage: seldom, in a process that holds a whole cluster in memory."""

from __future__ import annotations

import gc

_ALLOCATIONS = 50_000


def collect_seldom() -> None:
    """Leave what there is by now alone, and look at the rest less often: nearly nothing here refers to itself.

    With the interpreter's own settings a sixth of the time of a busy server goes into looking in vain.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, 20, 100)
