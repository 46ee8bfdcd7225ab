"""The files of the SQLite store: the database, the mark of its revision, and the space that is kept for deletions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path

from moorage.logs import Log
from moorage.store.database import FIRST_REVISION, PAGE, Database, Row
from moorage.store.mark import Mark
from moorage.store.protocol import Damaged, StoreFull, StoreUnavailable
from moorage.store.reserve import SIZE, SPARE, Reserve

TIDY_BYTES = 2 * 1024 * 1024
TIDY_DELETIONS = 1000
MAX_LOG_BYTES = 1024 * 1024 * 1024
"""How far the write-ahead log may grow while the database is copied."""

_value = itemgetter(2)
_LOG = Log(__name__)
_FULL = f"its disk is full, so that objects can only be deleted: free {(SIZE + SPARE) // 2**20} MiB there"
_NO_SPACE = frozenset((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE))
"""SQLite calls a full disk full, and a quota or a limit that is used up an error of writing."""


def log_of(database: Path) -> Path:
    """The write-ahead log of a database."""
    return database.with_name(f"{database.name}-wal")


class Disk:
    """Writes batches. When the disk is full it gives up its reserve, and then has room only for what frees space."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark, self._reserve = Mark(path), Reserve(path)
        self._untidy_bytes = self._deletions = 0
        self._is_full = False
        expected = self._mark.read()
        check_there(path, expected)
        with _log_kept(path):
            self._database = Database(path)
            try:
                self.items, self.revision = self._database.read()
                """All objects, and the latest revision, when the files were opened."""
                check_reached(path, self.revision, expected)
            except Exception:
                self._database.close()
                raise
        self._mark.open(self.revision)
        if not self._has_room():
            self._full()
        self._deletions = TIDY_DELETIONS
        self.tidy(now=True)

    def commit(self, rows: Sequence[Row]) -> None:
        """Write changes, all or none; when this returns they are on disk. Raises StoreUnavailable."""
        if not self._has_room():
            raise self._full()
        self._write(rows)

    def commit_freeing(self, rows: Sequence[Row]) -> None:
        """Write changes that free space, from the reserve when it must be. Raises StoreUnavailable."""
        while True:
            try:
                return self._write(rows)
            except StoreFull:
                if not self._reserve.shrink():
                    raise

    def tidy(self, *, now: bool = False) -> None:
        """Remove the rows of deleted objects and checkpoint the write-ahead log, when there is enough of either."""
        # A failure here loses nothing, and is retried after the next batch.
        with suppress(sqlite3.Error):
            if self._deletions >= TIDY_DELETIONS:
                self._database.forget_deleted()
                self._deletions = 0
        if now or self._untidy_bytes >= TIDY_BYTES or not self._reserve.is_whole:
            self._checkpoint()

    def close(self) -> None:
        """Close the files."""
        with suppress(sqlite3.Error):
            self._database.close()
        self._mark.close()

    def _write(self, rows: Sequence[Row]) -> None:
        try:
            self._database.commit(rows)
        except (sqlite3.Error, OverflowError, MemoryError) as error:
            self.tidy(now=True)
            if self._is_for_lack_of_space(error):
                raise self._full() from error
            raise StoreUnavailable(f"{self._path} cannot be written: {error}") from error
        self._mark.write(rows[-1][0])
        values = list(map(_value, rows))
        self._deletions += values.count(None)
        self._untidy_bytes += PAGE * len(rows) + sum(map(len, filter(None, values)))

    def _is_for_lack_of_space(self, error: Exception) -> bool:
        code = getattr(error, "sqlite_errorcode", 0)
        if code not in _NO_SPACE:
            return False
        self._reserve.shrink()
        return code == sqlite3.SQLITE_FULL or not self._reserve.take()

    def _has_room(self) -> bool:
        """Whether there is a reserve, or as much space inside the database that was freed."""
        if self._reserve.is_whole:
            return True
        if not self._reserve.take():
            return self._database.free_bytes() >= SIZE
        if self._is_full:
            self._is_full = False
            _LOG.info("Database can be written again", file=self._path)
        return True

    def _full(self) -> StoreFull:
        """The error for what finds no space; the first one is logged."""
        error = StoreFull(f"{self._path} cannot be written: {_FULL}")
        if not self._is_full:
            self._is_full = True
            _LOG.warning("Database cannot be written", file=self._path, err=error)
        return error

    def _checkpoint(self) -> None:
        if not self._mark.lock() and self._untidy_bytes < MAX_LOG_BYTES:
            return
        try:
            while not self._checkpointed():
                pass
        finally:
            self._mark.unlock()

    def _checkpointed(self) -> bool:
        """Try to checkpoint; False to try again with more of the reserve."""
        try:
            self._database.checkpoint()
        except sqlite3.Error as error:
            return error.sqlite_errorcode not in _NO_SPACE or not self._reserve.shrink()
        self._untidy_bytes = 0
        return True


@contextmanager
def _log_kept(path: Path) -> Iterator[None]:
    """Keep the log of a database that is damaged: SQLite reads what it can and removes it."""
    log, kept = log_of(path), path.with_name(f"{path.name}-wal-kept")
    with suppress(OSError):
        kept.unlink(missing_ok=True)
        kept.hardlink_to(log)
    try:
        yield
    except Damaged:
        if kept.exists() and not log.exists():
            kept.rename(log)
        raise
    finally:
        kept.unlink(missing_ok=True)


def check_there(path: Path, expected: int) -> None:
    """Raises Damaged when there is no database where one was."""
    is_there, log, mark = path.exists(), log_of(path), Mark(path).path
    has_log = log.exists() and log.stat().st_size > 0
    if (is_there and path.stat().st_size) or (expected <= FIRST_REVISION and not has_log):
        return
    left = " and ".join(str(file) for file in (log, mark) if file.exists())
    raise Damaged(
        f"{path} is {'empty' if is_there else 'missing'}, but there was a cluster: put it back, restore a copy with "
        f"moorage store restore, or remove {left} to begin a new cluster"
    )


def check_reached(path: Path, revision: int, expected: int) -> None:
    """Raises Damaged when a database is behind the revision that it had reached."""
    if revision >= expected:
        return
    log = log_of(path)
    raise Damaged(
        f"{path} ends at revision {revision}, but revision {expected} was written: {log} is missing or damaged: "
        f"put it back, restore a copy with moorage store restore, or remove {Mark(path).path} to lose those changes"
    )
