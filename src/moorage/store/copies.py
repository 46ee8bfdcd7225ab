"""Checking, copying and restoring the database of a data directory, also while a server writes to it."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from moorage.store.database import Database, Row, checksum_of
from moorage.store.disk import check_reached, check_there, log_of
from moorage.store.mark import Mark
from moorage.store.protocol import CannotOpen

BUMP = 1_000_000_000
"""How far the revision of a restored database is ahead of its copy: further than any client has seen."""
_ATTEMPTS = 10
_LOG_HEADER = 32


class Summary(NamedTuple):
    """What a database holds."""

    objects: int
    revision: int


def check(database: Path) -> Summary:
    """Read a database whole, in a copy. Raises Damaged, CannotOpen, OSError."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return _copied(database, Path(folder) / database.name)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            what = f"{folder} has no space for a copy of {database}: set TMPDIR to a directory that has"
            raise CannotOpen(what) from error


@contextmanager
def backed_up(database: Path, target: Path) -> Iterator[Summary]:
    """Copy a database as of one moment, complete when the context ends. Raises Damaged, CannotOpen, OSError."""
    with _scratch(target) as scratch:
        yield _copied(database, scratch)


@contextmanager
def restored(copy: Path, target: Path) -> Iterator[Summary]:
    """Make a database of a copy; it is there when the context ends. Raises Damaged, CannotOpen, OSError.

    Its revisions continue far above those of the copy, so that clients which have seen later ones list again.
    """
    with _scratch(target) as scratch:
        summary = _copied(copy, scratch)
        revision = summary.revision + BUMP
        _put(scratch, target, (revision, "", None, checksum_of(revision, None)))
        # A server that starts before the database is there must not begin a new cluster.
        mark = Mark(target)
        mark.open(revision)
        mark.close()
        yield summary._replace(revision=revision)


def _put(copy: Path, name: Path, row: Row) -> None:
    opened = Database(copy, name)
    try:
        opened.commit([row])
    except sqlite3.Error as error:
        raise CannotOpen(f"{name} cannot be written: {error}") from error
    finally:
        opened.close()


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """A database beside the target that becomes the target when all went well."""
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    full = CannotOpen(f"{target} cannot be written: its disk is full: free some space there")
    try:
        yield scratch
        if log_of(scratch).exists():
            raise full  # SQLite removes the log when all of it is in the database
        _sync(scratch)
        scratch.replace(target)
        _sync(target.parent)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise full from error
    finally:
        for file in (scratch, log_of(scratch)):
            file.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _copied(database: Path, copy: Path) -> Summary:
    """Copy a database and read the copy whole."""
    expected = Mark(database).read()
    check_there(database, expected)
    _copy_files(database, copy)
    opened = Database(copy, database)
    try:
        items, revision = opened.read()
    finally:
        opened.close()
    check_reached(database, revision, expected)
    return Summary(len(items), revision)


def _copy_files(database: Path, copy: Path) -> None:
    """Copy a database with its log.

    A checkpoint writes only what is in the log into the database. So whatever the database was while it was read, with
    a log that was read later it is whole, unless the log began anew in between. The mark keeps a server from that.
    """
    with _held(Mark(database).path):
        for _ in range(_ATTEMPTS):
            begun = _log_header(database)
            for source, target in ((database, copy), (log_of(database), log_of(copy))):
                target.unlink(missing_ok=True)
                target.touch(mode=0o600)
                with suppress(FileNotFoundError):
                    shutil.copyfile(source, target)
            if _log_header(database) == begun == _log_header(copy):
                return
    raise CannotOpen(f"{database} changes too fast to be copied: try again")


def _log_header(database: Path) -> bytes:
    """What changes whenever a log begins anew."""
    try:
        with log_of(database).open("rb") as stream:
            return stream.read(_LOG_HEADER)
    except FileNotFoundError:
        return b""


@contextmanager
def _held(mark: Path) -> Iterator[None]:
    """Keep a server that has the database open from making checkpoints."""
    if not mark.exists():
        yield
        return
    file = os.open(mark, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield
    finally:
        os.close(file)
