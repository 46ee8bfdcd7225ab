"""Every run of the suite tries the same examples, in an order that keeps all workers busy to the end."""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A busy machine is no failure, so there is no deadline.
settings.register_profile("fixed", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("fuzz", max_examples=500, database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")

TESTS = Path(__file__).parent
LONGEST_FIRST = ("live", "test_docs.py", "scheduler", "store", "cli", "controllers", "cel", "apiserver")
"""The rooms by the time that their longest file takes; the others are short."""
HANGS = 900
"""The seconds after which a test does not end any more, however busy the machine is."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_room)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that hangs fails with its name, and with where each of its threads was; the others go on."""

    def give_up(*_: object) -> None:
        faulthandler.dump_traceback(sys.__stderr__ or 2)
        pytest.fail(f"{item.nodeid} hangs: it has not ended for {HANGS} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(HANGS)
    try:
        return (yield)
    finally:
        signal.alarm(0)


def _room(item: pytest.Item) -> int:
    room = item.path.relative_to(TESTS).parts[0]
    return LONGEST_FIRST.index(room) if room in LONGEST_FIRST else len(LONGEST_FIRST)
