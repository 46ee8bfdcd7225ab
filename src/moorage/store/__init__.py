"""Where objects are kept: one protocol, SQLite in one process or etcd for several servers."""

from __future__ import annotations

from pathlib import Path

from moorage.store.protocol import CannotOpen, Store

SQLITE = "sqlite"
DATABASE = "moorage.db"

EtcdFiles = tuple[Path | None, Path | None, Path | None]
"""The authority to trust as etcd, and the certificate and key to show it."""


async def open_store(address: str, directory: Path, files: EtcdFiles = (None, None, None)) -> Store:
    """The store at an address: `sqlite` in a directory, or `etcd://HOST:PORT,…`. Raises CannotOpen."""
    if address == SQLITE:
        from moorage.store.sqlite import SqliteStore

        return await SqliteStore.open(directory / DATABASE)
    if address.startswith("etcd://"):
        from moorage.store.etcd import EtcdStore
        from moorage.store.members import Tls

        endpoints = address.removeprefix("etcd://").rstrip("/").split(",")
        if not all(endpoint.rpartition(":")[0] and endpoint.rpartition(":")[2].isdigit() for endpoint in endpoints):
            raise CannotOpen(f"{address!r} is not a store: say etcd://HOST:PORT,…")
        return await EtcdStore.open(endpoints, tls=Tls(*files) if any(files) else None)
    raise CannotOpen(f"{address!r} is not a store: say sqlite or etcd://HOST:PORT,…")
