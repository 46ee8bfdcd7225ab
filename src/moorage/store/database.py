"""The file behind the SQLite store: checked when opened, read whole, written a batch at a time."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from zlib import crc32

from moorage.store.protocol import CannotOpen, Damaged, Item

APPLICATION = int.from_bytes(b"Moor")
SCHEMA = 2
FIRST_REVISION = 1
"""The revision of an empty database, as in etcd: 0 means any revision to those who ask."""

_TABLES = (
    "CREATE TABLE object (revision INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BLOB, checksum INTEGER)",
    "CREATE INDEX deleted ON object (revision) WHERE value IS NULL",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {SCHEMA}",
)
_ADD_CHECKSUMS = (
    "ALTER TABLE object ADD COLUMN checksum INTEGER",
    "UPDATE object SET checksum = checksum_of(revision, value)",
    f"PRAGMA user_version = {SCHEMA}",
)
_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA journal_size_limit = 67108864",
    # A deletion writes no page that it only frees: there may be no space for it.
    "PRAGMA secure_delete = FAST",
)
_READ = "SELECT revision, key, value, checksum FROM object WHERE value IS NOT NULL"
_PUT = "INSERT INTO object (revision, key, value, checksum) VALUES "
_OVER = (
    " ON CONFLICT (key) DO UPDATE"
    " SET revision = excluded.revision, value = excluded.value, checksum = excluded.checksum"
)
_FORGET_DELETED = "DELETE FROM object WHERE value IS NULL AND revision < (SELECT max(revision) FROM object)"

PAGE = 4096

_DAMAGED = "{path} is damaged ({error}): restore a copy of it with moorage store restore"
_SENTENCES = {
    sqlite3.SQLITE_BUSY: "{path} is in use by another process: stop that one, or choose another data directory",
    sqlite3.SQLITE_NOTADB: "{path} is not a Moorage database: move it away, or choose another data directory",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: "{path} cannot be opened: its disk is full: free some space there",
}


Row = tuple[int, str, bytes | None, int]
"""One change: revision, key, value, checksum. A deletion has no value, and is kept until a later change is on disk."""


def checksum_of(revision: int, value: bytes | None) -> int:
    """The checksum that is stored with a value. Keys need none: SQLite compares them with its index."""
    return crc32(value or b"", revision)


class Database:
    """A database file that only this process has open, or a copy of it with the name of the original."""

    def __init__(self, path: Path, name: Path | None = None) -> None:
        self._path = name or path
        with _explained(self._path):
            # The file holds secrets; SQLite gives the files beside it the same mode.
            path.touch(mode=0o600)
            self.connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            """For one thread at a time."""
        try:
            with _explained(self._path):
                self._prepare()
        except CannotOpen:
            self.connection.close()
            raise

    def read(self) -> tuple[dict[str, Item], int]:
        """All objects, and the revision of the latest change. Raises CannotOpen when one is not as it was written."""
        items: dict[str, Item] = {}
        with _explained(self._path):
            # A cursor that is left open would keep the file locked.
            with contextlib.closing(self.connection.execute(_READ)) as rows:
                for revision, key, value, checksum in rows:
                    if type(value) is not bytes or checksum_of(revision, value) != checksum:
                        raise Damaged(_DAMAGED.format(path=self._path, error=f"the checksum of {key} does not match"))
                    items[key] = Item(key, value, revision)
            return items, self._number(f"SELECT coalesce(max(revision), {FIRST_REVISION}) FROM object")

    def commit(self, rows: Sequence[Row]) -> None:
        """Write changes, all or none; when this returns they are on disk."""
        # One statement is one transaction and releases the interpreter lock once; a statement for each row would wait
        # for the event loop's thread each time.
        self.connection.execute(_PUT + ",".join(["(?,?,?,?)"] * len(rows)) + _OVER, list(chain.from_iterable(rows)))

    def forget_deleted(self) -> None:
        """Remove the rows of deleted objects."""
        self.connection.execute(_FORGET_DELETED)

    def checkpoint(self) -> None:
        """Move the changes from the write-ahead log into the database."""
        self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def free_bytes(self) -> int:
        """The space inside the file that deleted objects have left."""
        return PAGE * self._number("PRAGMA freelist_count")

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
            self._transact(_TABLES)
        (verdict,) = self.connection.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise Damaged(_DAMAGED.format(path=self._path, error=" ".join(verdict.split())))
        if not empty and schema < SCHEMA:
            self.connection.create_function("checksum_of", 2, checksum_of, deterministic=True)
            self._transact(_ADD_CHECKSUMS)

    def _transact(self, statements: Iterable[str]) -> None:
        for statement in ("BEGIN IMMEDIATE", *statements, "COMMIT"):
            self.connection.execute(statement)

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
        # Text that is no UTF-8 is an error of Python's, without a code.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        sentence = _SENTENCES.get(code, "{path} cannot be opened: {error}").format(path=path, error=error)
        raise (Damaged if code == sqlite3.SQLITE_CORRUPT else CannotOpen)(sentence) from error
