"""The file of the audit log: written on a thread, rotated by size, and no reason to stop when it cannot be written."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from glob import escape
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from moorage.apiserver.audit.events import AuditedRequest, event
from moorage.logs import Log

MOST_WAITING, MOST_BYTES = 10_000, 64 << 20
"""How many requests may wait to be written, and how many bytes they may hold: more are lost, and counted."""
_LOG = Log(__name__)
_BATCH = 1 << 20
_PATIENCE = 10.0


class AuditWriter:
    """Appends events to a file. It loses what cannot be written, counts that, and says so once."""

    def __init__(self, file: Path, max_bytes: int, max_backups: int) -> None:
        self.written = self.lost = 0
        """How many events were written, and how many not."""
        self._file = file
        self._max_bytes = max_bytes
        self._max_backups = max_backups
        self._waiting: SimpleQueue[AuditedRequest | None] = SimpleQueue()
        self._bytes_in = self._bytes_out = 0
        self._dropped = 0
        self._descriptor = -1
        self._size = 0
        self._failing = False
        self._thread = Thread(target=self._run, name="audit log", daemon=True)
        self._thread.start()

    def put(self, request: AuditedRequest) -> None:
        """Write an event soon."""
        size = request.size
        if self._waiting.qsize() >= MOST_WAITING or self._bytes_in - self._bytes_out + size > MOST_BYTES:
            self._dropped += 1
            return
        self._bytes_in += size
        self._waiting.put(request)

    @property
    def errors(self) -> int:
        """How many events were lost, whether the file could not be written or it was too slow."""
        return self.lost + self._dropped

    def close(self) -> None:
        """Write what waits, unless the disk takes longer than anybody would wait."""
        self._waiting.put(None)
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        most = min(_BATCH, self._max_bytes)
        running = True
        while running:
            requests = [self._waiting.get()]
            with suppress(Empty):
                while len(requests) < MOST_WAITING:
                    requests.append(self._waiting.get_nowait())
            running = None not in requests
            lines, size = list[bytes](), 0
            for request in filter(None, requests):
                line = self._line(request)
                self._bytes_out += request.size
                if size + len(line) > most:
                    self._append(lines)
                    lines, size = [], 0
                lines.append(line)
                size += len(line)
            self._append(lines)
        self._close()

    def _line(self, request: AuditedRequest) -> bytes:
        try:
            return event(request)
        except Exception as error:  # noqa: BLE001 - one request that cannot be described must not end the log
            self._fail(1, error)
            return b""

    def _append(self, lines: list[bytes]) -> None:
        data, count = b"".join(lines), len(list(filter(None, lines)))
        if not data:
            return
        try:
            self._open()
            if self._size and self._size + len(data) > self._max_bytes:
                self._rotate()
            left = data
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            self._undo()
            self._fail(count, error)
            return
        self._size += len(data)
        self.written += count
        if self._failing:
            self._failing = False
            _LOG.info("Audit events are written again", file=self._file, lost=self.errors)

    def _fail(self, count: int, error: Exception) -> None:
        self.lost += count
        if not self._failing:
            self._failing = True
            _LOG.warning("Audit events are lost", file=self._file, err=error)

    def _open(self) -> None:
        if self._descriptor < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self._file, flags, 0o600)
            self._size = os.fstat(self._descriptor).st_size

    def _undo(self) -> None:
        """Remove the part of a line that was written, and open the file again for the next."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _rotate(self) -> None:
        """Move the file away, and remove the oldest of those that were."""
        self._close()
        moment = datetime.now(UTC)
        while (backup := self._backup(moment)).exists():
            moment += timedelta(milliseconds=1)
        self._file.rename(backup)
        backups = sorted(self._file.parent.glob(f"{escape(self._file.stem)}-*{escape(self._file.suffix)}"))
        for old in backups[: -self._max_backups] if self._max_backups else ():
            old.unlink()
        self._open()

    def _backup(self, moment: datetime) -> Path:
        time = moment.strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3]
        return self._file.with_name(f"{self._file.stem}-{time}{self._file.suffix}")
