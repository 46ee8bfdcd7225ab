"""A controller warns of what somebody has to see to, and not of races that its next attempt wins."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from moorage.client import ApiError, Conflict, Exists, Missing, Unavailable
from moorage.controllers.cluster.namespaces import Namespaces
from moorage.controllers.run import prepare
from moorage.features import ALL_ON
from tests.plane import api_server


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (Conflict(409, "Conflict", "the object has been modified"), logging.INFO - 4),
        (Missing(404, "NotFound", "no such pod"), logging.INFO - 4),
        (Exists(409, "AlreadyExists", "there is one"), logging.INFO - 4),
        (Unavailable(503, "ServiceUnavailable", "no store"), logging.WARNING),
    ],
)
async def test_a_race_is_logged_at_a_higher_verbosity_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: ApiError, level: int
) -> None:
    caplog.set_level(logging.DEBUG, "moorage.controllers")
    async with api_server(tmp_path) as server:
        (controller,) = prepare(server.client("test"), ALL_ON, [Namespaces]).controllers
        controller.failed(("default", "web"), error)
    (record,) = caplog.records
    assert record.levelno == level
    assert record.getMessage() == (
        f'"Reconciling failed" controller="{controller.name}" object="default/web" err="{error}"'
    )
