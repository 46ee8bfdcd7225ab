"""Every run of the suite tries the same examples, in an order that keeps all workers busy to the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no failure, so there is no deadline.
settings.register_profile("fixed", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("fuzz", max_examples=500, database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")

TESTS = Path(__file__).parent
LONGEST_FIRST = ("live", "test_docs.py", "scheduler", "store", "cli", "controllers", "cel", "apiserver")
"""The rooms by the time that their longest file takes; the others are short."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_room)


def _room(item: pytest.Item) -> int:
    room = item.path.relative_to(TESTS).parts[0]
    return LONGEST_FIRST.index(room) if room in LONGEST_FIRST else len(LONGEST_FIRST)
