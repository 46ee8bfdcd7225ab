"""Garbage collection must not hold the event loop, however much a process holds."""

from __future__ import annotations

import subprocess
import sys

_MEASURE = """
import gc
from moorage.garbage import collect_seldom

collect_seldom()
looked_at = []

def count(phase, about):
    if phase == "start":
        looked_at.append(sum(len(gc.get_objects(each)) for each in range(about["generation"] + 1)))

gc.callbacks.append(count)
held = [[number] for number in range(300_000)]
gc.callbacks.clear()
print(len(looked_at), max(looked_at))
"""


def test_no_collection_looks_at_more_than_a_part_of_what_is_held() -> None:
    ended = subprocess.run([sys.executable, "-c", _MEASURE], capture_output=True, text=True, check=True)
    collections, most = map(int, ended.stdout.split())
    assert collections < 100, "it is looked for garbage seldom"
    assert most <= 70_000
