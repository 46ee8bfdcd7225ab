"""The file of the audit log is rotated, bounded, and never a reason for the server to stop."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from moorage.apiserver.audit import writer
from moorage.apiserver.audit.log import AuditLog, AuditSettings
from moorage.apiserver.base.users import User
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.request.routes import find
from tests.plane import eventually

SOMEBODY = User("somebody")


def note(log: AuditLog, count: int, path: str = "/version", body: bytes = b"") -> None:
    request = Request.of("POST", path, body=body)
    for _ in range(count):
        log.note(find(request), request, Response(), SOMEBODY, None, 0.0)


def counted(log: AuditLog) -> tuple[float, float]:
    registry = CollectorRegistry()
    registry.register(log)
    lost = registry.get_sample_value("apiserver_audit_error_total", {"plugin": "log"})
    written = registry.get_sample_value("apiserver_audit_event_total")
    assert written is not None
    assert lost is not None
    return written, lost


def test_a_file_that_is_large_is_moved_away_and_the_oldest_are_removed(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    log = AuditLog(AuditSettings(file, max_bytes=10_000, max_backups=2))
    note(log, 500)
    log.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert file in files
    assert all(0 < each.stat().st_size <= 10_000 for each in files)
    assert all(line.endswith("}") for each in files for line in each.read_text().splitlines())
    assert counted(log) == (500, 0)


def test_without_a_bound_all_are_kept(tmp_path: Path) -> None:
    log = AuditLog(AuditSettings(tmp_path / "audit.log", max_bytes=10_000))
    note(log, 200)
    log.close()
    assert sum(each.read_text().count("\n") for each in tmp_path.iterdir()) == 200


def test_it_goes_on_with_the_file_of_an_earlier_start_which_others_cannot_read(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    for _ in range(2):
        log = AuditLog(AuditSettings(file))
        note(log, 1)
        log.close()
    assert file.read_text().count("\n") == 2
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_events_that_a_full_disk_does_not_take_are_counted_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = AuditLog(AuditSettings(Path("/dev/full")))
    for _ in range(3):
        note(log, 2)
    log.close()
    assert counted(log) == (0, 6)
    (said,) = (each.getMessage() for each in caplog.records)
    assert said == '"Audit events are lost" file="/dev/full" err="[Errno 28] No space left on device"'


async def test_it_writes_again_once_it_can(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "moorage.apiserver.audit")
    log = AuditLog(AuditSettings(tmp_path / "missing" / "audit.log"))
    note(log, 1)

    async def failed() -> bool:
        return counted(log) == (0, 1)

    await eventually(failed)
    (tmp_path / "missing").mkdir()
    note(log, 1)
    log.close()
    assert counted(log) == (1, 1)
    assert '"Audit events are written again"' in caplog.text


def test_what_waits_to_be_written_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def stuck(_: object) -> bytes:
        gate.wait()
        return b"{}\n"

    monkeypatch.setattr(writer, "event", stuck)
    log = AuditLog(AuditSettings(tmp_path / "audit.log"))
    note(log, 200, body=b"x" * (1 << 20))
    gate.set()
    log.close()
    written, lost = counted(log)
    assert written + lost == 200
    assert 64 <= written <= 65


def test_a_request_that_cannot_be_described_is_lost_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "event", lambda each: 1 / 0 if each.request.path == "/bad" else b"{}\n")
    log = AuditLog(AuditSettings(tmp_path / "audit.log"))
    for path in ("/version", "/bad", "/version"):
        note(log, 1, path)
    log.close()
    assert counted(log) == (2, 1)
