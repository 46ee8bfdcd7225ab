"""Whose a data directory is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from moorage.apiserver.access import certificates, tokens
from moorage.apiserver.datadir import claim, exposed
from tests.plane import api_server


def test_a_new_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    claim(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("lost+found",),
        ("moorage.db", "moorage.db-wal"),
        (".ca.key.0123456789abcdef",),
        ("tokens.csv", "page.json", "page.story", "ca.crt"),
    ],
)
def test_an_empty_or_half_made_directory_is_ours(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).write_text("")
    claim(tmp_path)


def test_a_directory_that_was_used_may_hold_more(tmp_path: Path) -> None:
    certificates.prepare(tmp_path)
    tokens.prepare(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    claim(tmp_path)


@pytest.mark.parametrize("name", ["notes.txt", ".git", "etcd"])
def test_a_directory_of_others_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("theirs")
    with pytest.raises(OSError, match=f"holds other files .{name}. and none of Moorage's"):
        claim(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        claim(tmp_path / "file")


def test_permissions_that_are_too_open_are_named_with_the_command_that_closes_them(tmp_path: Path) -> None:
    folder = tmp_path / "my data"
    claim(folder)
    certificates.prepare(folder)
    tokens.prepare(folder)
    assert exposed(folder) == ""
    (folder / "ca.crt").chmod(0o644)
    assert exposed(folder) == ""
    (folder / "page.json").touch()
    for name in ("ca.key", "page.json", "tokens.csv"):
        (folder / name).chmod(0o640)
    folder.chmod(0o755)
    remedy = exposed(folder)
    files = " ".join(f"'{folder}/{name}'" for name in ("ca.key", "page.json", "tokens.csv"))
    assert remedy == f"chmod 700 '{folder}' && chmod 600 {files}"
    subprocess.run(["sh", "-c", remedy], check=True)
    assert exposed(folder) == ""


async def test_permissions_that_are_too_open_are_named_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with api_server(tmp_path / "data"):
        assert not caplog.records
    (tmp_path / "data" / "moorage.db").chmod(0o644)
    async with api_server(tmp_path / "data"):
        assert f'"Permissions are too open" remedy="chmod 600 {tmp_path}/data/moorage.db' in caplog.text
