"""The commands in the documentation, run as they stand there, print what stands below them."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from moorage.api import kinds
from moorage.client import Client
from moorage.client.clock import FastClock
from moorage.controlplane import ControlPlane, Settings
from moorage.features import ALL_ON
from moorage.scheduler.config import Configuration
from tests.cli.commands import moorage
from tests.live.conftest import Live
from tests.plane import PATIENCE, create, eventually, node, pod, read

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


class Typed(NamedTuple):
    """A command, and what stands below it."""

    page: str
    command: str
    output: str


SESSIONS = [
    Typed(page.name, command, output)
    for page in PAGES
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
    for command, output in re.findall(
        r"^\$ ((?:moorage|kubectl) [^\n]*)\n(.*?)(?=^\$ |\Z)", block, re.DOTALL | re.MULTILINE
    )
]
MOORAGE = [each for each in SESSIONS if each.command.startswith("moorage ")]
KUBECTL = [each for each in SESSIONS if each.command.startswith("kubectl ")]


@pytest.mark.parametrize(
    ("page", "command", "output"), MOORAGE, ids=[f"{page}: {command}" for page, command, _ in MOORAGE]
)
def test_the_output_in_the_docs_is_what_the_command_prints(
    page: str, command: str, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    ended = moorage(*shlex.split(command)[1:])
    assert ended.returncode in (0, 1), ended.stderr
    assert ended.stdout.rstrip() == output.rstrip()


@pytest.mark.parametrize("page", dict.fromkeys(each.page for each in KUBECTL))
async def test_the_kubectl_sessions_of_a_page_go_as_it_says(page: str, tmp_path: Path) -> None:
    clock, kubectl = FastClock(), Live(tmp_path).kubectl
    settings = Settings(
        tmp_path, port=0, clock=clock, apiserver_gates=ALL_ON, scheduler_gates=ALL_ON, controllers_gates=ALL_ON
    )
    plane = await ControlPlane.start(settings)
    try:
        for _, command, output in (each for each in KUBECTL if each.page == page):
            refused = bool(re.search(r"is invalid|[Ee]rror", output))
            patient = command.replace("--timeout=30s", f"--timeout={PATIENCE:.0f}s")
            run = await asyncio.to_thread(kubectl, *shlex.split(patient)[1:], check=False)
            assert bool(run.returncode) is refused, f"{command}\n{run.stderr}"
            shown = run.stderr if refused else run.stdout
            assert not output.strip() or re.fullmatch(_pattern(output), _plain(shown)), f"{command}\n{shown}"
            if command.startswith("kubectl apply"):
                await clock.run_fast(2)  # until new nodes come to life
    finally:
        await plane.stop()


def _plain(text: str) -> str:
    """Text without what is different each time: ages, and the width of columns that hold them."""
    lines = (" ".join(line.split()) for line in text.strip().splitlines())
    return re.sub(r"(?<= )(\d+[smh])+(?= |$)", "AGE", "".join(f"{line}\n" for line in lines), flags=re.MULTILINE)


def _pattern(output: str) -> str:
    """What an output must look like; … stands for anything in a line, and alone for any lines."""
    lines = (re.escape(line).replace("…", ".*") + "\n" for line in _plain(output).splitlines())
    return "".join("(?:.*\n)*" if line == ".*\n" else line for line in lines)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "lint").glob("*.md"))])
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_command_is_documented() -> None:
    from moorage.cli import MODULES

    text = "\n".join(page.read_text() for page in PAGES)
    for name in MODULES:
        assert f"moorage {name}" in text


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


async def test_the_plugin_of_the_docs_is_found_by_its_entry_point_and_places_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plugin,), (registration,) = _blocks("scheduler.md", "python"), _blocks("scheduler.md", "toml")
    group, points = next(iter(tomllib.loads(registration)["project"]["entry-points"].items()))
    package = tmp_path / "package"
    installed = package / "carbon-1.0.dist-info"
    installed.mkdir(parents=True)
    (package / "carbon.py").write_text(plugin)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: carbon\nVersion: 1.0\n")
    entries = [f"{name} = {place}\n" for name, place in points.items()]
    (installed / "entry_points.txt").write_text(f"[{group}]\n{''.join(entries)}")
    monkeypatch.syspath_prepend(str(package))
    *_, profile = (yaml.safe_load(block) for block in _blocks("scheduler.md", "yaml"))
    clock = FastClock()
    settings = Settings(tmp_path / "data", port=0, nodes=0, scheduling=Configuration.of(profile), clock=clock)
    plane = await ControlPlane.start(settings)
    try:
        client = plane.server.client("test")
        for name, carbon in (("coal", "900"), ("gas", "250"), ("wind", "10")):
            await create(client, node(name, {"example.com/carbon": carbon}))
        await clock.run_fast(2)  # until new nodes come to life
        await create(client, pod("job"))
        await eventually(lambda: _placed(client, "job", "wind"))
        for name in ("gas", "wind"):
            await client.patch(kinds.row("v1", "Node"), "", name, {"spec": {"unschedulable": True}})
        await create(client, pod("late"))
        await eventually(lambda: _waits(client, "late", "1 node(s) had power that is not clean enough"))
    finally:
        await plane.stop()


async def _placed(client: Client, name: str, where: str) -> bool:
    found: str = (await read(client, "Pod", name))["spec"].get("nodeName", "")
    assert found in ("", where)
    return bool(found)


async def _waits(client: Client, name: str, why: str) -> bool:
    conditions = (await read(client, "Pod", name))["status"].get("conditions", ())
    return any(why in each.get("message", "") for each in conditions)


def test_the_plots_are_drawn_from_the_figures() -> None:
    line = [sys.executable, str(ROOT / "scripts" / "perf_plots.py"), "--check"]
    checked = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
