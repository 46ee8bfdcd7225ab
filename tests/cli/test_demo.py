"""`moorage demo` as it is run from an installed package, and what it says when a story does not come true."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.demo import player, stories
from moorage.demo.stories import STORIES, Expectation, Runs, Story
from tests.cli.commands import moorage

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The package as a wheel brings it, with nothing of the repository beside it."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    folder = tmp_path / "installed"
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder


def test_all_stories_come_true_from_an_installed_package_and_nothing_is_left(installed: Path, tmp_path: Path) -> None:
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    env = {**os.environ, "PYTHONPATH": str(installed), "TMPDIR": str(rooms), "COLUMNS": "100"}
    run = subprocess.run(
        [sys.executable, "-m", "moorage", "demo"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    assert "✗" not in run.stdout
    played, _, summary = run.stdout.partition("\nSTORY ")
    for story in STORIES:
        assert f"{story.document} story {story.number}: {story.title}\n" in played
        assert f"$ kubectl apply -f examples/{story.folder}\n" in played
        assert f"\n{story.folder} " in summary
    outcomes = sum(isinstance(step, Expectation) for story in STORIES for step in story.steps)
    assert f"16 stories, {outcomes} outcomes: all as expected" in summary
    passing = re.search(r"30 s pass, in (\S+) s: the control plane's clock runs fast", played)
    assert passing is not None
    assert float(passing[1]) < 30
    assert list(rooms.iterdir()) == []


def test_every_story_of_the_four_documents_has_its_folder() -> None:
    assert sorted(path.name for path in (ROOT / "examples").iterdir()) == sorted(story.folder for story in STORIES)
    numbers = {document: [s.number for s in STORIES if s.document == document] for document in _DOCUMENTS}
    assert numbers == {document: list(range(1, count + 1)) for document, count in _DOCUMENTS.items()}


_DOCUMENTS = {"KEP-5471": 5, "KEP-5721": 4, "KEP-5500": 5, "KEP-5869": 2}


@pytest.fixture
def _loud() -> Iterator[None]:
    yield
    logging.getLogger("moorage").setLevel(logging.NOTSET)


@pytest.mark.usefixtures("_loud")
def test_what_does_not_come_true_is_shown_and_the_exit_code_is_1(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Runs("workload-of-dreams", ("node-of-dreams",), "it is told so")
    story = Story("versions-2-old-cni", "KEP-5721", 2, "Dreams", (wrong,))
    monkeypatch.setattr(stories, "STORIES", (story,))
    monkeypatch.setattr(player, "PATIENCE", 0.0)
    ended = moorage("demo")
    assert ended.returncode == 1
    seen = "  ✗ workload-of-dreams: there is no pod\n    expected: workload-of-dreams runs on node-of-dreams\n"
    assert seen in ended.stdout
    assert "1 stories, 1 outcomes: 1 not as expected" in ended.stdout
