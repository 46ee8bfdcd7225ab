"""Runs `moorage` and samples which room works: python bench/rooms.py FILE COMMAND …

Every two milliseconds of processor time the innermost frame of Moorage's own code is counted, of the thread that runs
the event loop. When the process gets SIGUSR1 it writes the counts into the file, by room, and begins anew.
"""

from __future__ import annotations

import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import msgspec

SECONDS = 0.002
OUTSIDE = "event loop, TLS, sockets"
"""What has no frame of Moorage's above the loop."""
_DEEP = ("apiserver", "scheduler", "controllers")
"""Rooms that are told apart by their inner ones."""
_ENTRY = ("cli", "__main__")


class Sampler:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._rooms: Counter[str] = Counter()
        self._known: dict[str, str] = {}

    def sample(self, _: int, frame: FrameType | None) -> None:
        while frame is not None:
            name = frame.f_code.co_filename
            room = self._known.get(name)
            if room is None:
                room = self._known[name] = _room(name)
            if room:
                self._rooms[room] += 1
                return
            frame = frame.f_back
        self._rooms[OUTSIDE] += 1

    def write(self, *_: object) -> None:
        counts, self._rooms = dict(self._rooms), Counter()
        self._file.write_bytes(msgspec.json.encode(counts))


def _room(file: str) -> str:
    """The room of a file of Moorage's; empty for other files, and for the command that runs the loop."""
    inside = file.rpartition("/moorage/")[2].removesuffix(".py").split("/")
    if "/moorage/" not in file or inside[0] in _ENTRY:
        return ""
    return "/".join(inside[:2]) if inside[0] in _DEEP and len(inside) > 2 else inside[0]


def main() -> None:
    sampler = Sampler(Path(sys.argv[1]))
    signal.signal(signal.SIGPROF, sampler.sample)
    signal.signal(signal.SIGUSR1, sampler.write)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
    sys.argv = ["moorage", *sys.argv[2:]]
    runpy.run_module("moorage", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
