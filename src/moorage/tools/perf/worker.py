"""One workload in a process of its own, so that its memory is its own; what it says are lines of JSON."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvloop

from moorage.apiserver.run import CannotStart
from moorage.garbage import collect_seldom
from moorage.tools.perf.cluster import Failed
from moorage.tools.perf.measure import Measurement
from moorage.tools.perf.objects import ObjectsError
from moorage.tools.perf.run import Progress, run
from moorage.tools.perf.workloads import File


class Done(msgspec.Struct, tag="done"):
    """A workload came to its end."""

    measurements: list[Measurement]


class Broken(msgspec.Struct, tag="broken"):
    """A workload did not."""

    sentence: str


_read = msgspec.json.Decoder(Progress | Done | Broken).decode


def measure(file: Path, name: str, tell: Callable[[Progress], None]) -> list[Measurement]:
    """Run a workload of a file in a new process. Raises Failed."""
    command = [sys.executable, "-m", __name__, str(file), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said = _read(line)
            if isinstance(said, Progress):
                tell(said)
            elif isinstance(said, Done):
                return said.measurements
            else:
                raise Failed(said.sentence)
    raise Failed(f"{name}: the process ended with code {process.returncode} before the workload did")


def _say(what: Progress | Done | Broken) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


def _main(file: str, name: str) -> None:
    collect_seldom()
    try:
        _say(Done(uvloop.run(run(File(Path(file)).plan(name), _say))))
    except (Failed, CannotStart, ObjectsError) as error:
        _say(Broken(str(error)))
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(1)


if __name__ == "__main__":
    _main(*sys.argv[1:])
