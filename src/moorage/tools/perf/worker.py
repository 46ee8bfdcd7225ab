"""Runs one workload in a new process, so that its memory can be measured; the two speak in lines of JSON."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvloop

from moorage.apiserver.run import CannotStart
from moorage.garbage import collect_seldom
from moorage.match.expressions import load_engine
from moorage.tools.perf.cluster import Failed
from moorage.tools.perf.measure import Measurement
from moorage.tools.perf.objects import ObjectsError
from moorage.tools.perf.run import Progress, run
from moorage.tools.perf.workloads import File


class Done(msgspec.Struct, tag="done"):
    """A workload was completed."""

    measurements: list[Measurement]


class Broken(msgspec.Struct, tag="broken"):
    """A workload failed."""

    sentence: str


_read = msgspec.json.Decoder(Progress | Done | Broken).decode


def measure(file: Path, name: str, report: Callable[[Progress], None]) -> list[Measurement]:
    """Run a workload of a file in a new process. Raises Failed."""
    command = [sys.executable, "-m", __name__, str(file), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            message = _read(line)
            if isinstance(message, Progress):
                report(message)
            elif isinstance(message, Done):
                return message.measurements
            else:
                raise Failed(message.sentence)
    raise Failed(f"{name}: the process ended with code {process.returncode} before the workload did")


def _send(message: Progress | Done | Broken) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def _main(file: str, name: str) -> None:
    load_engine()
    collect_seldom()
    try:
        _send(Done(uvloop.run(run(File(Path(file)).plan(name), _send))))
    except (Failed, CannotStart, ObjectsError) as error:
        _send(Broken(str(error)))
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(1)


if __name__ == "__main__":
    _main(*sys.argv[1:])
