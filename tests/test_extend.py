"""The examples of docs/extend.md, applied to a copy of the source, add what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extend.md").read_text()
FENCE = re.compile(r"^(`{3,})(python|diff|markdown)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`((?:src|docs)/[\w./-]+)`")
CHECKS = "tests/extended.py"


def apply(place: Path, language: str, text: str) -> None:
    """Create a file, append to it, or change what a diff shows."""
    if language == "diff":
        content = place.read_text()
        for hunk in text.split("@@\n"):
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] in " -")
            assert content.count(old) == 1, f"{place.name} must have these lines once:\n{old}"
            content = content.replace(old, "".join(line[1:] for line in lines if line[0] in " +"))
        place.write_text(content)
    elif place.exists():
        place.write_text(f"{place.read_text()}\n\n{text}")
    else:
        place.write_text(text)


def test_what_the_page_adds_is_served_run_matched_and_found(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    shutil.copytree(ROOT / "docs" / "lint", tmp_path / "docs" / "lint")
    for block in FENCE.finditer(PAGE):
        *_, file = FILE.findall(PAGE[: block.start()])
        apply(tmp_path / file, block[2], block[3])
    command = [sys.executable, "-m", "pytest", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider", CHECKS]
    paths = os.pathsep.join((str(tmp_path / "src"), str(ROOT)))
    more = {"PYTHONPATH": paths, "EXTENDED": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(command, cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
