"""New nodes are left alone until whoever makes them is done, but not for ever."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from moorage.client.clock import ManualClock
from moorage.controllers.frame import settling
from moorage.controllers.frame.settling import Settling


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    monkeypatch.setattr(settling, "QUIET", 1.0)
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


def test_new_nodes_settle_together_a_second_after_the_last_change(clock: ManualClock) -> None:
    settled: list[str] = []
    nodes = Settling(clock, settled.append)
    nodes.see("a")
    clock.advance(0.9)
    nodes.see("b")
    clock.advance(0.9)
    assert (settled, "a" in nodes) == ([], True)
    clock.advance(0.1)
    assert (sorted(settled), "a" in nodes) == (["a", "b"], False)


def test_nodes_that_never_stop_changing_settle_after_ten_seconds(clock: ManualClock) -> None:
    settled: list[float] = []
    nodes = Settling(clock, lambda _: settled.append(clock.monotonic()))
    for _ in range(25):
        nodes.see("a")
        clock.advance(0.5)
    assert settled == [10.0]


def test_nobody_settles_after_the_end(clock: ManualClock) -> None:
    settled: list[str] = []
    nodes = Settling(clock, settled.append)
    nodes.see("a")
    nodes.stop()
    clock.advance(60)
    assert (settled, "a" in nodes) == ([], False)
