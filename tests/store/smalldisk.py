"""A real file system of a few megabytes, which a test can fill."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of this size, mounted on a folder; skips the test for those who may not mount one."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small file system here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Take all the space that is left, as a log that grows does."""
    with (folder / "filler").open("ab", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(4096))
