"""Controllers under test need not wait for whoever makes nodes."""

from __future__ import annotations

import pytest

from moorage.controllers.frame import settling


@pytest.fixture(autouse=True)
def _nodes_settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "QUIET", 0.0)
