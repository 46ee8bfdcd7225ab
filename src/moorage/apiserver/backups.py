"""Copies of data directories: the database, and the keys and tokens by which clients know the cluster."""

from __future__ import annotations

import errno
from pathlib import Path

from moorage.apiserver.access.certificates import write_private
from moorage.store import DATABASE, copies
from moorage.store.copies import Summary
from moorage.store.mark import Mark
from moorage.store.protocol import CannotOpen

_FILES = ("ca.crt", "ca.key", "apiserver.crt", "apiserver.key", "service-account.key", "tokens.csv")
_IN_ETCD = "objects that are in etcd are copied with etcdctl snapshot save and restored with etcdutl snapshot restore"


def check(directory: Path) -> Summary:
    """Read the database of a data directory whole. Raises Damaged, CannotOpen, OSError."""
    return copies.check(_database(directory))


def backup(directory: Path, copy: Path) -> Summary:
    """Copy a data directory into a new one, as of one moment. Raises Damaged, CannotOpen, OSError."""
    database = _database(directory)
    _make_empty(copy)
    with copies.backed_up(database, copy / DATABASE) as summary:
        _copy_files(directory, copy)
    return summary


def restore(copy: Path, directory: Path) -> Summary:
    """Make a data directory of a copy. Raises Damaged, CannotOpen, OSError."""
    database = _database(copy)
    _make_empty(directory)
    with copies.restored(database, directory / DATABASE) as summary:
        _copy_files(copy, directory)
    return summary


def _database(directory: Path) -> Path:
    database = directory / DATABASE
    if not database.exists() and not Mark(database).path.exists():
        raise CannotOpen(f"{directory} holds no {DATABASE}: {_IN_ETCD}")
    return database


def _make_empty(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(entry.name != "lost+found" for entry in directory.iterdir()):
        raise OSError(errno.ENOTEMPTY, "is not empty: name an empty directory, or a new one", str(directory))


def _copy_files(source: Path, target: Path) -> None:
    for name in _FILES:
        if (source / name).exists():
            write_private(target / name, (source / name).read_bytes())
