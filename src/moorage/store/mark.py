"""The mark beside a database: the revision that it must have reached, which tells when a file or its log was lost."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class Mark:
    """A file with the latest revision that is in the database.

    It is written after each commit and left to the system to bring to disk: it may be behind, but never ahead.
    """

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}-revision")
        self._file = -1

    def read(self) -> int:
        """The revision that the database must have reached; 0 when that is not known."""
        try:
            return int(self.path.read_bytes())
        except (FileNotFoundError, ValueError):
            return 0

    def open(self, revision: int) -> None:
        """Begin to note revisions. On a full disk there may be no mark."""
        with suppress(OSError):
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self.write(revision)
            os.fsync(self._file)

    def write(self, revision: int) -> None:
        """Note a revision that is on disk."""
        with suppress(OSError):
            os.pwrite(self._file, b"%020d\n" % revision, 0)

    def lock(self) -> bool:
        """Keep others from copying the database; False while somebody copies it, who has locked the mark."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def unlock(self) -> None:
        """Let others copy the database."""
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Stop noting."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
