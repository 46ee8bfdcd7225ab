"""The commands in the documentation, run as they stand there, print what stands below them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SESSIONS = [
    (page.name, command, output)
    for page in PAGES
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
    for command, output in re.findall(r"^\$ (moorage [^\n]*)\n(.*?)(?=^\$ |\Z)", block, re.DOTALL | re.MULTILINE)
]


@pytest.mark.parametrize(
    ("page", "command", "output"), SESSIONS, ids=[f"{page}: {command}" for page, command, _ in SESSIONS]
)
def test_the_output_in_the_docs_is_what_the_command_prints(page: str, command: str, output: str) -> None:
    args = shlex.split(command)[1:]
    run = subprocess.run(
        [sys.executable, "-m", "moorage", *args], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode in (0, 1), run.stderr
    assert run.stdout.rstrip() == output.rstrip()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "lint").glob("*.md"))])
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_command_is_documented() -> None:
    from moorage.cli import main

    text = "\n".join(page.read_text() for page in PAGES)
    for name in main.commands:
        assert f"moorage {name}" in text
