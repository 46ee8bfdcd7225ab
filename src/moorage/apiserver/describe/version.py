"""The version endpoint: the Kubernetes version for clients, with Moorage's own as its suffix."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version

import msgspec

MAJOR, MINOR = "1", "36"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def git_version() -> str:
    """The Kubernetes version with Moorage's own as its suffix."""
    return f"v{MAJOR}.{MINOR}.0+moorage-{version('moorage')}"


@cache
def document() -> bytes:
    """The response to `/version`."""
    machine = platform.machine()
    return msgspec.json.encode(
        {
            "major": MAJOR,
            "minor": MINOR,
            "gitVersion": git_version(),
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": f"python{platform.python_version()}",
            "compiler": platform.python_implementation().lower(),
            "platform": f"{platform.system().lower()}/{_MACHINES.get(machine, machine)}",
        }
    )
