"""The file behind the SQLite store: checked when opened, read whole, written a batch at a time."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from moorage.store.protocol import CannotOpen, Item

APPLICATION = int.from_bytes(b"Moor")
SCHEMA = 1
FIRST_REVISION = 1
"""The revision of an empty database, as in etcd: 0 means any revision to those who ask."""

_TABLES = (
    "CREATE TABLE object (revision INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BLOB)",
    "CREATE INDEX deleted ON object (revision) WHERE value IS NULL",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {SCHEMA}",
)
_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA journal_size_limit = 67108864",
)
_PUT = "INSERT INTO object (revision, key, value) VALUES "
_OVER = " ON CONFLICT (key) DO UPDATE SET revision = excluded.revision, value = excluded.value"
_FORGET_DELETED = "DELETE FROM object WHERE value IS NULL AND revision < (SELECT max(revision) FROM object)"

PAGE = 4096
TIDY_BYTES = 2 * 1024 * 1024
TIDY_DELETIONS = 1000

_SENTENCES = {
    sqlite3.SQLITE_BUSY: "{path} is in use by another process: stop that one, or choose another data directory",
    sqlite3.SQLITE_NOTADB: "{path} is not a Moorage database: move it away, or choose another data directory",
    sqlite3.SQLITE_CORRUPT: "{path} is damaged ({error}): restore it from a copy",
}


class Row(NamedTuple):
    """One change. A deletion is a row without a value, kept until a later change is on disk."""

    revision: int
    key: str
    value: bytes | None


class Database:
    """A database file that only this process has open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._untidy_bytes = self._deletions = 0
        with _explained(path):
            # The file holds secrets; SQLite gives the files beside it the same mode.
            path.touch(mode=0o600)
            self.connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            """For one thread at a time."""
        try:
            with _explained(path):
                self._prepare()
        except CannotOpen:
            self.connection.close()
            raise

    def read(self) -> tuple[dict[str, Item], int]:
        """All objects, and the revision of the latest change."""
        with _explained(self._path):
            rows = self.connection.execute("SELECT key, value, revision FROM object WHERE value IS NOT NULL")
            items = {item.key: item for item in map(Item._make, rows)}
            return items, self._number(f"SELECT coalesce(max(revision), {FIRST_REVISION}) FROM object")

    def commit(self, rows: Sequence[Row]) -> None:
        """Write changes, all or none; when this returns they are on disk."""
        # One statement is one transaction and releases the interpreter lock once; a statement for each row would wait
        # for the event loop's thread each time.
        self._untidy_bytes += sum(PAGE + len(row.value or b"") for row in rows)
        self._deletions += sum(row.value is None for row in rows)
        self.connection.execute(_PUT + ",".join(["(?,?,?)"] * len(rows)) + _OVER, list(chain.from_iterable(rows)))

    def tidy(self, *, now: bool = False) -> None:
        """Remove the rows of deleted objects and checkpoint the write-ahead log, when there is enough of either."""
        # A failure here loses nothing, and is retried after the next batch.
        with contextlib.suppress(sqlite3.Error):
            if self._deletions >= TIDY_DELETIONS:
                self.connection.execute(_FORGET_DELETED)
                self._deletions = 0
            if now or self._untidy_bytes >= TIDY_BYTES:
                self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                self._untidy_bytes = 0

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def _prepare(self) -> None:
        self.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        application, schema = self._number("PRAGMA application_id"), self._number("PRAGMA user_version")
        empty = not (application or schema or self._number("SELECT count(*) FROM sqlite_master"))
        if not empty and application != APPLICATION:
            raise CannotOpen(_SENTENCES[sqlite3.SQLITE_NOTADB].format(path=self._path))
        if schema > SCHEMA:
            raise CannotOpen(
                f"{self._path} was written by a newer Moorage (schema {schema}): use that version or later"
            )
        for setting in _SETTINGS:
            self.connection.execute(setting).fetchall()
        if empty:
            for statement in ("BEGIN IMMEDIATE", *_TABLES, "COMMIT"):
                self.connection.execute(statement)
        (verdict,) = self.connection.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise CannotOpen(_SENTENCES[sqlite3.SQLITE_CORRUPT].format(path=self._path, error=verdict))
        self.connection.execute(_FORGET_DELETED)

    def _number(self, query: str) -> int:
        number: int = self.connection.execute(query).fetchone()[0]
        return number


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of the system into a sentence for the person who starts the server."""
    try:
        yield
    except OSError as error:
        raise CannotOpen(f"{path} cannot be opened: {error.strerror}") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        sentence = _SENTENCES.get(code, "{path} cannot be opened: {error}")
        raise CannotOpen(sentence.format(path=path, error=error)) from error
