"""A release is the same bytes each time, says what is in it, and installs as its image, hook, action and plugin do."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.tools.attach.manifests import Installation, all_objects

Data = dict[str, Any]
ROOT = Path(__file__).parents[1]
PROJECT: Data = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION: str = PROJECT["version"]
URL = "https://downloads.example.com/moorage"
_TREE = ("deploy", "src", "docs", "examples", "packaging", "scripts")


def built(tree: Path, folder: Path, **env: str) -> Path:
    """The release of a source tree."""
    variables = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "RELEASE_URL": URL, **env}
    subprocess.run([sys.executable, "scripts/dist.py", str(folder)], cwd=tree, env=variables, check=True)
    return folder


def copy(folder: Path) -> Path:
    """The files of a checkout, written anew."""
    folder.mkdir()
    for name in _TREE:
        shutil.copytree(ROOT / name, folder / name, copy_function=shutil.copyfile, ignore=lambda _, names: [
            each for each in names if each == "__pycache__"
        ])  # fmt: skip
    for file in [*ROOT.glob("*.*"), ROOT / "LICENSE", ROOT / ".gitignore"]:
        if file.is_file():
            shutil.copyfile(file, folder / file.name)
    return folder


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy(tmp_path_factory.mktemp("source") / "moorage")


@pytest.fixture(scope="module")
def release(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tree, tmp_path_factory.mktemp("release"))


def contents(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_two_builds_of_the_same_source_give_the_same_bytes(release: Path, tmp_path: Path) -> None:
    other = copy(tmp_path / "elsewhere")
    for file in other.rglob("*"):
        os.utime(file, (1, 1))
    (other / "src" / "moorage" / "__init__.py").chmod(0o600)
    again = built(other, tmp_path / "again", TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
    assert contents(again) == contents(release)


def test_the_checksums_are_of_all_files(release: Path) -> None:
    lines = (release / "SHA256SUMS").read_text().splitlines()
    named = {name: digest for digest, name in (line.split("  ") for line in lines)}
    there = contents(release)
    del there["SHA256SUMS"]
    assert named == there
    assert {f"moorage-{VERSION}.tar.gz", f"moorage-{VERSION}-py3-none-any.whl", "NOTES.md"} <= named.keys()


def test_the_notes_are_the_section_of_the_changelog(release: Path) -> None:
    first, *lines = (release / "NOTES.md").read_text().splitlines()
    assert first == f"# {VERSION}"
    assert any(line.startswith("- ") for line in lines)
    assert "\n".join(lines).strip() in (ROOT / "CHANGELOG.md").read_text()


def test_the_version_is_written_in_one_place() -> None:
    files = (file for name in ("src", "packaging", "scripts") for file in (ROOT / name).rglob("*") if file.is_file())
    others = [ROOT / name for name in ("Dockerfile", "Makefile", "action.yml", ".pre-commit-hooks.yaml")]
    texts = (file for file in [*files, *others] if file.suffix not in (".pyc", ".json"))
    written = re.compile(rf"(?i)moorage[^\n]{{0,20}}{re.escape(VERSION)}|^version[^\n]{{0,5}}{re.escape(VERSION)}")
    assert [file for file in texts if written.search(file.read_text())] == []


def test_the_bill_of_materials_names_every_pinned_package_and_what_needs_it(release: Path) -> None:
    bill = json.loads((release / f"moorage-{VERSION}.cdx.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["timestamp"]) == ("CycloneDX", "2023-11-14T22:13:20+00:00")
    pinned = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert [(each["name"], each["version"]) for each in bill["components"]] == pinned
    graph = {each["ref"]: set(each["dependsOn"]) for each in bill["dependencies"]}
    own = graph[f"pkg:pypi/moorage@{VERSION}"]
    assert {ref.removeprefix("pkg:pypi/").split("@")[0] for ref in own} == {
        re.split(r"[<>=]", each)[0] for each in PROJECT["dependencies"]
    }
    assert {each["purl"] for each in bill["components"]} == set().union(*graph.values())
    assert all(each["licenses"][0]["license"]["name"] for each in bill["components"] if "properties" not in each)


def test_the_release_has_what_installs_attach_mode(release: Path, tree: Path, tmp_path: Path) -> None:
    image = "registry.example.com/moorage@sha256:0123"
    pinned = built(tree, tmp_path / "pinned", IMAGE=image)
    told = {"attach": Installation(image=image), "attach-no-webhook": Installation(image=image, webhook=False)}
    for kind, installation in told.items():
        text = (pinned / f"moorage-{kind}-{VERSION}.yaml").read_text()
        assert list(yaml.safe_load_all(text)) == all_objects(installation)
    with tarfile.open(release / f"moorage-chart-{VERSION}.tgz") as files:
        files.extractall(tmp_path / "chart", filter="data")
    there = {file.name for file in (tmp_path / "chart" / "moorage").iterdir()}
    assert there == {"Chart.yaml", "templates", "values.yaml"}


def test_the_kubectl_plugin_of_the_release_calls_moorage(release: Path, tmp_path: Path) -> None:
    manifest = yaml.safe_load((release / "krew.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    archive = release / platform["uri"].removeprefix(f"{URL}/")
    assert manifest["spec"]["version"] == f"v{VERSION}"
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == platform["sha256"]
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
    assert {file.name for file in tmp_path.iterdir()} == {each["from"] for each in platform["files"]}
    command = [str(tmp_path / platform["bin"]), "lint", "--rules"]
    without = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert (without.returncode, "there is no moorage on the PATH" in without.stderr) == (2, True)
    program(tmp_path / "moorage", sys.executable, "-m", "moorage")
    path = f"{tmp_path}:{os.environ['PATH']}"
    called = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    assert (called.returncode, "eviction-trap" in called.stdout) == (0, True)


def program(file: Path, *command: str) -> None:
    """A program that calls another one."""
    file.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    file.chmod(0o755)


def instructions() -> Iterator[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, " ".join(rest.split())


def test_the_image_is_made_of_pinned_packages_and_the_wheel_and_runs_as_nobody(release: Path, tmp_path: Path) -> None:
    steps = list(instructions())
    make, install, wheel = (rest for name, rest in steps if name == "RUN")
    assert "--require-hashes" in install
    assert "--only-binary :all:" in install
    assert dict(steps)["USER"] == "65532:65532"
    here = _here(make, tmp_path, release).replace("python ", f"{sys.executable} ")
    subprocess.run(f"{here} --without-pip", shell=True, check=True)
    program(tmp_path / "moorage/bin/pip", sys.executable, "-m", "pip", "--python", f"{tmp_path}/moorage/bin/python")
    # In the place of the pinned packages: those of this environment, which were installed from the same lock.
    (site,) = (tmp_path / "moorage" / "lib").glob("python*/site-packages")
    (site / "pinned.pth").write_text(sysconfig.get_path("purelib"))
    mount, _, command = wheel.partition(" ")
    assert mount == "--mount=type=bind,source=dist,target=/dist"
    subprocess.run(_here(command, tmp_path, release), shell=True, check=True, cwd=tmp_path)
    (entry,) = json.loads(_here(dict(steps)["ENTRYPOINT"], tmp_path, release))
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    shown = subprocess.run([entry, "--version"], env=clean, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert VERSION in shown.stdout
    assert (site / "moorage" / "__pycache__").is_dir()  # the file system of a container may be read-only


def _here(text: str, folder: Path, release: Path) -> str:
    return text.replace("/opt/moorage", str(folder / "moorage")).replace("/dist/", f"{release}/")


def test_the_wheel_holds_the_package_and_its_examples_only(release: Path) -> None:
    with zipfile.ZipFile(release / f"moorage-{VERSION}-py3-none-any.whl") as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
        assert any(name.startswith("moorage/examples/") for name in wheel.namelist())
    assert tops == {"moorage", f"moorage-{VERSION}.dist-info"}


def test_the_hook_of_pre_commit_lints_the_files_that_it_is_given() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *args = shlex.split(hook["entry"])
    assert program in PROJECT["scripts"]
    assert linted([sys.executable, "-m", program, *args]) == 1


def test_the_action_lints_the_paths_that_it_is_given(tmp_path: Path) -> None:
    install, lint = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    assert "--require-hashes" in install["run"]
    folder = tmp_path / "moorage" / "bin"
    folder.mkdir(parents=True)
    program(folder / "python", sys.executable)
    variables = {"RUNNER_TEMP": str(tmp_path), "ARGS": "--ignore autoscaler", "PYTHONPATH": str(ROOT / "src")}
    assert lint["env"].keys() == {"PATHS", "ARGS", "PYTHONPATH"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lint["run"]]
    paths = "examples/thresholds-2-inference-slo examples/versions-2-old-cni"
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables, "PATHS": paths}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1, ended.stderr
    assert "::warning file=examples/thresholds-2-inference-slo" in ended.stdout


def linted(command: list[str]) -> int:
    files = sorted(map(str, (ROOT / "examples" / "thresholds-2-inference-slo").glob("*.yaml")))
    return subprocess.run([*command, *files], capture_output=True, check=False).returncode
