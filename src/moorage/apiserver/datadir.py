"""The data directory: Moorage's own from the first start on, never one with other files."""

from __future__ import annotations

import errno
from pathlib import Path

_OURS = ("ca.", "apiserver.", "service-account.", "tokens.csv", "kubeconfig", "moorage.db")
_MARK = "ca.key"
"""The file that exists after every start."""
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
