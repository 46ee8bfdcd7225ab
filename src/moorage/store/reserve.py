"""Space that is kept on the disk of a database, so that objects can be deleted when it is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path

SIZE = 8 * 1024 * 1024
"""More than a checkpoint of the largest batch may add to the database."""
STEP = 1024 * 1024
"""How much of it is given up at once: what the database does not need, somebody else may take."""
SPARE = 2 * STEP
"""What must be free besides: otherwise the disk is as good as full."""
_NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class Reserve:
    """A file that holds nothing but space."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}-reserve")
        self.is_whole = False

    def take(self) -> bool:
        """Hold the whole space; False when there is not enough, or none besides."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            return error.errno not in _NO_SPACE
        try:
            held = os.fstat(file).st_size
            try:
                os.posix_fallocate(file, 0, SIZE + SPARE)
                held = SIZE
            except OSError as error:
                # A file system that cannot hold space for a file is written to without a reserve.
                if error.errno in _NO_SPACE:
                    return False
            finally:
                os.ftruncate(file, held)
        finally:
            os.close(file)
        self.is_whole = True
        return True

    def shrink(self) -> bool:
        """Give up some of the space; False when none is left."""
        self.is_whole = False
        try:
            held = self.path.stat().st_size
            os.truncate(self.path, max(held - STEP, 0))
        except OSError:
            return False
        return held > 0
