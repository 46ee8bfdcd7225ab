"""Components as separate processes, which can be killed and started again at the same address."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.live.conftest import ROOT, Live
from tests.plane import PATIENCE


def free_port() -> int:
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


class Component:
    """A process that prints when it is ready."""

    def __init__(self, name: str, *args: str) -> None:
        self.name = name
        self._command = [sys.executable, "-m", "moorage", name, *args]
        self._process: subprocess.Popen[str] | None = None

    def begin(self) -> None:
        """Start the process without waiting until it is ready."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
        )

    def wait(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        assert any("Ctrl-C" in line for line in process.stdout), f"{self.name} ended with {process.wait()}"

    def start(self) -> None:
        self.begin()
        self.wait()

    def kill(self) -> None:
        """End it without a chance to finish anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None:
            self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None


def apart(directory: Path, gates: str = "AllAlpha=true") -> tuple[Live, dict[str, Component]]:
    """The three components of a control plane with hollow nodes, each a process that is not started yet."""
    port = free_port()
    kubeconfig = directory / "kubeconfig"
    options = ("--kubeconfig", str(kubeconfig), "--feature-gates", gates, "--no-leader-elect")
    parts = (
        Component("apiserver", "--data-dir", str(directory), "--port", str(port), "--feature-gates", gates),
        Component("scheduler", *options),
        Component("controllers", *options, "--hollow-nodes"),
    )
    return Live(directory, url=f"https://127.0.0.1:{port}"), {part.name: part for part in parts}


def start_all(parts: dict[str, Component]) -> None:
    """Start the API server, then the others, which need its kubeconfig, at once."""
    parts["apiserver"].start()
    others = [parts["scheduler"], parts["controllers"]]
    for part in others:
        part.begin()
    for part in others:
        part.wait()
