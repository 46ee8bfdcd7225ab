"""`moorage store`: check, backup and restore, of a server that runs and of one that is stopped."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.api import kinds
from tests.cli.commands import Ended, moorage
from tests.plane import api_server, create, pod, read, read_all

ROOT = Path(__file__).parents[2]
POD = kinds.row("v1", "Pod")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def in_a_process(*words: str) -> Ended:
    """Run a command beside the server of the test, whose locks this process would lose."""
    line = [sys.executable, "-m", "moorage", *words]
    run = await asyncio.to_thread(subprocess.run, line, capture_output=True, text=True, check=False)
    return Ended(run.returncode, run.stdout, run.stderr)


async def test_a_cluster_that_runs_is_checked_copied_and_restored(tmp_path: Path) -> None:
    async with api_server(tmp_path / ".moorage") as server:
        kept = await create(server.client("test"), pod("kept"))
        for command in ("check", "backup copy"):
            ended = await in_a_process("store", *command.split())
            assert ended.returncode == 0, ended.stderr
            assert re.fullmatch(r"\.moorage is .*: \d+ objects, revision \d+\n", ended.stdout)
        await server.client("test").delete(POD, "default", "kept")
        token = server.token
    ended = moorage("store", "restore", "copy", "--data-dir", "restored")
    assert ended.stdout.startswith("copy is restored to restored: "), ended.stderr
    assert moorage("store", "check", "--data-dir", "restored").returncode == 0
    async with api_server(tmp_path / "restored") as server:
        assert await read(server.client("test"), "Pod", "kept") == kept
        assert server.token == token
    for name in ("copy", "restored"):
        modes = {file.stat().st_mode & 0o777 for file in (tmp_path / name).iterdir()}
        assert modes == {0o600}
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700


async def test_nothing_is_overwritten(tmp_path: Path) -> None:
    async with api_server(tmp_path / ".moorage"):
        pass
    Path("copy").mkdir()
    Path("copy/notes.txt").write_text("mine")
    for line in ("backup copy", "restore .moorage --data-dir copy", "restore .moorage"):
        ended = moorage("store", *line.split())
        assert ended.returncode == 2
        assert "is not empty: name an empty directory, or a new one" in ended.stderr
    assert [file.name for file in Path("copy").iterdir()] == ["notes.txt"]
    Path("disk/lost+found").mkdir(parents=True)
    assert moorage("store", "backup", "disk").returncode == 0


async def test_a_check_says_what_is_wrong(tmp_path: Path) -> None:
    async with api_server(tmp_path / ".moorage"):
        pass
    Path(".moorage").chmod(0o755)
    ended = moorage("store", "check")
    assert ended.returncode == 1
    assert "permissions are too open: type chmod 700 .moorage\n" in ended.stdout
    Path(".moorage").chmod(0o700)
    Path(".moorage/tokens.csv").write_text("abc\n")
    ended = moorage("store", "check")
    assert ended.returncode == 1
    assert ".moorage/tokens.csv, line 1: the user name is missing" in ended.stdout
    database = Path(".moorage/moorage.db")
    whole = database.read_bytes()
    database.write_bytes(whole.replace(b"kube-public", b"kube-pubxic"))
    ended = moorage("store", "check")
    assert ended.returncode == 1
    assert ended.stdout.startswith(".moorage/moorage.db is damaged (")
    ended = moorage("store", "backup", "copy")
    assert ended.returncode == 2
    assert ended.stderr.startswith("moorage: .moorage/moorage.db is damaged (")
    database.unlink()
    assert ".moorage/moorage.db is missing, but there was a cluster" in moorage("store", "check").stdout
    database.write_bytes(whole)
    assert moorage("store", "backup", "copy").returncode == 0


async def test_the_commands_of_the_docs_bring_a_cluster_back(tmp_path: Path) -> None:
    """Backup while it runs, loss of the data directory, restore."""
    data = tmp_path / "moorage"
    (block,) = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "store.md").read_text(), re.DOTALL)
    commands = [shlex.split(line.replace("/var/lib/", f"{tmp_path}/")) for line in block.splitlines()]
    assert [words[:3] for words in commands] == [["moorage", "store", verb] for verb in ("backup", "check", "restore")]
    *beside, back = [words[1:] for words in commands]
    async with api_server(data) as server:
        await create(server.client("test"), pod("kept"))
        for words in beside:
            ended = await in_a_process(*words)
            assert ended.returncode == 0, ended.stderr
    data.rename(tmp_path / "lost")
    assert moorage(*back).returncode == 0
    async with api_server(data) as server:
        assert [each["metadata"]["name"] for each in await read_all(server.client("test"), "Pod")] == ["kept"]
