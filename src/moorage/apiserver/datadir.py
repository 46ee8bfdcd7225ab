"""The data directory: Moorage's own from the first start on, never one with other files."""

from __future__ import annotations

import errno
import shlex
from pathlib import Path

_OURS = (
    "ca.", "apiserver.", "service-account.", "tokens.csv", "kubeconfig", "moorage.db", "feature-gates.json", "page.",
)  # fmt: skip
_MARK = "ca.key"
"""The file that exists after every start."""
_PRIVATE = ("*.key", "tokens.csv", "kubeconfig", "moorage.db*", "page.json")
_OTHERS = 0o077
_IGNORED = frozenset(("lost+found",))


def claim(directory: Path) -> None:
    """Create a directory, or check that it is Moorage's or empty. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (directory / _MARK).exists():
        return
    # A first start that was killed has left some of our files, perhaps only a hidden half of one.
    foreign = sorted(
        entry.name
        for entry in directory.iterdir()
        if entry.name not in _IGNORED and not entry.name.removeprefix(".").startswith(_OURS)
    )
    if foreign:
        what = f"holds other files ({foreign[0]}) and none of Moorage's: name an empty directory, or a new one"
        raise OSError(errno.ENOTEMPTY, what, str(directory))


def exposed(directory: Path) -> str:
    """The command that takes the permissions of others away; empty when they have none."""
    files = sorted(file for pattern in _PRIVATE for file in directory.glob(pattern) if _is_open(file))
    commands = [f"chmod 700 {shlex.quote(str(directory))}"] if _is_open(directory) else []
    if files:
        commands.append(f"chmod 600 {shlex.join(map(str, files))}")
    return " && ".join(commands)


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & _OTHERS)
