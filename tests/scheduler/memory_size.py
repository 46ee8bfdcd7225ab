"""How much memory things keep: their own bytes, and those of everything that only they lead to."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from types import BuiltinFunctionType, CodeType, CoroutineType, FrameType, FunctionType, ModuleType
from typing import Any

from moorage.client import Client
from moorage.client.events import Recorder
from moorage.scheduler.decisions import Ranks
from moorage.scheduler.devices.answers import PlanAnswers

_OTHERS = (
    type, ModuleType, FunctionType, BuiltinFunctionType, CodeType, FrameType, CoroutineType, logging.Logger,
    asyncio.AbstractEventLoop, asyncio.Future, Client, Recorder, PlanAnswers, Ranks,
)  # fmt: skip
"""What belongs to everybody, and what has a bound of its own that is reached only after a long time."""


def weight(*roots: Any) -> int:
    """The bytes of some objects with all that they lead to."""
    gc.collect()
    total, left, seen = 0, list(roots), set[int]()
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, _OTHERS):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        left += gc.get_referents(each)
    return total
