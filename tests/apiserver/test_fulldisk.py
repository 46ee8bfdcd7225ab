"""An API server and a control plane on a full disk: what is refused, what is not, and how they start there."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from moorage.api import kinds
from moorage.apiserver.run import CannotStart, start
from moorage.client import Client, Missing, Unavailable
from moorage.client.clock import FastClock
from moorage.controlplane import ControlPlane, Settings
from moorage.features import ALL_ON
from tests.plane import api_server, create, eventually, pod, read, read_all
from tests.store.smalldisk import fill, small_disk

POD, NAMESPACE, CONFIG_MAP = (kinds.row("v1", name) for name in ("Pod", "Namespace", "ConfigMap"))
LARGE = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "x" * 200_000}}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 24) as folder:
        yield folder


async def forever(step: Callable[[], Awaitable[None]]) -> None:
    while True:
        await step()


async def fill_up(client: Client, disk: Path) -> str:
    """Fill the disk and write until the server refuses it; what it says then."""
    fill(disk)
    numbers = count()

    async def more() -> None:
        await create(client, {**LARGE, "metadata": {"name": f"large-{next(numbers)}"}})

    with pytest.raises(Unavailable) as refused:
        await forever(more)
    assert (refused.value.code, refused.value.reason) == (507, "InsufficientStorage")
    return str(refused.value)


async def gone(client: Client, name: str) -> bool:
    try:
        await read(client, "Pod", name)
    except Missing:
        return True
    return False


async def test_writes_are_answered_with_507_and_deletions_are_done(disk: Path) -> None:
    clock = FastClock()
    plane = await ControlPlane.start(Settings(disk, port=0, clock=clock))
    client = plane.server.client("test")
    try:
        await clock.run_fast(2)
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ours"}}
        await create(client, manifest)
        await create(client, pod("web"))
        await create(client, {**pod("other"), "metadata": {"name": "other", "namespace": "ours"}})
        await eventually(lambda: _runs(client, "web"))
        sentence = await fill_up(client, disk)
        assert sentence.startswith(f"{disk}/moorage.db cannot be written: its disk is full")
        await client.delete(POD, "default", "web")
        await client.delete(NAMESPACE, "", "ours")
        await clock.run_fast(60)
        await eventually(lambda: gone(client, "web"))
        await eventually(lambda: _is_without(client, "ours"))
        (disk / "filler").unlink()
        await create(client, pod("again"))
        await clock.run_fast(60)
        await eventually(lambda: _runs(client, "again"))
    finally:
        await plane.stop()


async def _runs(client: Client, name: str) -> bool:
    return bool((await read(client, "Pod", name)).get("status", {}).get("phase") == "Running")


async def _is_without(client: Client, namespace: str) -> bool:
    return namespace not in [each["metadata"]["name"] for each in await read_all(client, "Namespace")]


async def test_a_server_starts_again_on_a_full_disk(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with api_server(disk) as server:
        await fill_up(server.client("test"), disk)
        maps = await read_all(server.client("test"), "ConfigMap")
    fill(disk)
    caplog.clear()
    async with api_server(disk) as server:
        assert await read_all(server.client("test"), "ConfigMap") == maps
        assert f'it may name another address" file="{disk}/kubeconfig" err="No space left on device"' in caplog.text
        assert f"{disk}/moorage.db cannot be written" in caplog.text
        with pytest.raises(Unavailable):
            await create(server.client("test"), {**LARGE, "metadata": {"name": "more"}})
        for each in maps:
            await server.client("test").delete(CONFIG_MAP, "default", each["metadata"]["name"])


async def test_a_control_plane_starts_again_without_the_nodes_it_has_no_space_for(
    disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plane = await ControlPlane.start(Settings(disk, port=0, nodes=1))
    await plane.stop()
    (disk / "moorage.db-reserve").unlink()
    fill(disk)
    plane = await ControlPlane.start(Settings(disk, port=0, nodes=2))
    try:
        names = [each["metadata"]["name"] for each in await read_all(plane.server.client("test"), "Node")]
        assert names == ["node-1"]
        assert '"Not all hollow nodes are created" err=' in caplog.text
    finally:
        await plane.stop()


async def test_a_first_start_on_a_full_disk_names_the_file(disk: Path) -> None:
    fill(disk)
    with pytest.raises(
        CannotStart, match=rf"{disk}/data/moorage\.db cannot be opened: its disk is full: free some space"
    ):
        await start(disk / "data", "sqlite", ALL_ON, "127.0.0.1", 0)


@pytest.mark.parametrize("name", ["ca.key", "tokens.csv", "kubeconfig"])
async def test_a_file_that_cannot_be_written_is_named_and_not_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sync = os.fsync
    scratches: list[str] = []

    def fail(descriptor: int) -> None:
        scratch = Path(f"/proc/self/fd/{descriptor}").readlink().name
        scratches.append(scratch)
        if scratch.startswith(f".{name}."):
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(CannotStart, match=rf"^{tmp_path}/data/{name}: No space left on device$"):
        await start(tmp_path / "data", "sqlite", ALL_ON, "127.0.0.1", 0)
    assert scratches
