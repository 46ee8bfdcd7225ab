"""Makes a release: packages, plugin, manifests, chart, bill of materials, notes and checksums, reproducibly."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from string import Template

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from materials import bill

ROOT = Path(__file__).parents[1]
PLUGIN = "kubectl-moorage"
_MANIFESTS = {"attach": (), "attach-no-webhook": ("--no-webhook",)}
"""What is rendered for attach mode, and with which options."""
_URL = "https://example.com/moorage"


def main() -> None:
    """Make the release in the folder that is named, and print its files."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _commit_time())
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    for builder in (SdistBuilder, WheelBuilder):
        next(builder(str(ROOT)).build(directory=str(folder)))
    archive = folder / f"{PLUGIN}-{version}.tar.gz"
    archive.write_bytes(plugin(epoch))
    (folder / f"{name}-chart-{version}.tgz").write_bytes(chart(epoch))
    for kind, options in _MANIFESTS.items():
        (folder / f"{name}-{kind}-{version}.yaml").write_text(manifests(version, *options))
    (folder / "krew.yaml").write_text(krew(version, archive))
    lock = (ROOT / "requirements.lock").read_text()
    materials = bill(name, version, lock, project["dependencies"], epoch)
    (folder / f"{name}-{version}.cdx.json").write_text(json.dumps(materials, indent=2) + "\n")
    (folder / "NOTES.md").write_text(notes((ROOT / "CHANGELOG.md").read_text(), version))
    sums = [f"{_sha256(file)}  {file.name}\n" for file in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(sums))
    print("".join(sums), end="")


def notes(changelog: str, version: str) -> str:
    """The section of a version in the changelog; that of unreleased changes as long as it has none."""
    found = re.findall(r"^## (\S+)[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE)
    sections: dict[str, str] = dict(found)
    return f"# {version}\n\n{(sections.get(version) or sections['Unreleased']).strip()}\n"


def plugin(epoch: int) -> bytes:
    """The archive of the kubectl plugin."""
    return _archive([(ROOT / "packaging" / PLUGIN, PLUGIN, 0o755), (ROOT / "LICENSE", "LICENSE", 0o644)], epoch)


def chart(epoch: int) -> bytes:
    """The archive of the Helm chart."""
    folder = ROOT / "deploy" / "helm"
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return _archive([(file, str(file.relative_to(folder)), 0o644) for file in files], epoch)


def manifests(version: str, *options: str) -> str:
    """What `kubectl apply` installs for attach mode."""
    image = os.environ.get("IMAGE") or f"moorage:{version}"
    line = [sys.executable, "-m", "moorage", "attach", "manifests", "--image", image, *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(line, env=env, check=True, capture_output=True, text=True).stdout


def _archive(files: list[tuple[Path, str, int]], epoch: int) -> bytes:
    """A compressed archive of files, each by a name and with a mode."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file, name, mode in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = file.stat().st_size, mode, epoch
            archive.addfile(entry, io.BytesIO(file.read_bytes()))
    return gzip.compress(content.getvalue(), mtime=epoch)


def krew(version: str, archive: Path) -> str:
    """The manifest by which krew installs the plugin."""
    url = os.environ.get("RELEASE_URL", _URL).rstrip("/")
    template = Template((ROOT / "packaging" / "krew.yaml").read_text())
    return template.substitute(version=version, url=url, archive=archive.name, sha256=_sha256(archive))


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _commit_time() -> str:
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return answer or sys.exit("SOURCE_DATE_EPOCH is not set, and there is no commit to take the time from")


if __name__ == "__main__":
    main()
