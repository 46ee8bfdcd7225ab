"""Where objects are kept: one protocol, SQLite in one process or etcd for several servers."""

from __future__ import annotations

from pathlib import Path

from moorage.store.protocol import CannotOpen, Store

DATABASE = "moorage.db"


async def open_store(address: str, directory: Path) -> Store:
    """The store at an address: `sqlite` in a directory, or `etcd://HOST:PORT,…`. Raises CannotOpen."""
    if address == "sqlite":
        from moorage.store.sqlite import SqliteStore

        return await SqliteStore.open(directory / DATABASE)
    if address.startswith("etcd://"):
        from moorage.store.etcd import EtcdStore

        return await EtcdStore.open(address.removeprefix("etcd://").split(","))
    raise CannotOpen(f"{address!r} is not a store: say sqlite or etcd://HOST:PORT,…")
