"""Both backends for every test that asks for one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.backends import Backend, Etcd, Sqlite, folder_in_memory
from tests.store.cluster import WHY_SKIPPED, Cluster, binary


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory: most of these tests would only wait for the disk."""
    with folder_in_memory() as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One etcd member that lives as long as the tests."""
    if binary() is None:
        pytest.skip(WHY_SKIPPED)
    with Cluster(tmp_path_factory.mktemp("etcd"), 1) as cluster:
        yield cluster


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    """Three etcd members, to be killed."""
    if binary() is None:
        pytest.skip(WHY_SKIPPED)
    with Cluster(tmp_path, 3) as cluster:
        yield cluster


@pytest.fixture(params=["sqlite", "etcd"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Each backend in turn."""
    if request.param == "sqlite":
        return Sqlite(tmp_path / "moorage.db")
    cluster: Cluster = request.getfixturevalue("etcd")
    return Etcd(cluster.endpoints)


@pytest.fixture
def root() -> str:
    """A prefix that no other test uses: etcd is shared."""
    return f"/{uuid.uuid4()}/"
