"""Components in processes of their own, which can be killed and started again at the same address."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.live.conftest import ROOT, Live


def free_port() -> int:
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


class Component:
    """A process that says when it is ready."""

    def __init__(self, name: str, *args: str) -> None:
        self.name = name
        self._command = [sys.executable, "-m", "moorage", name, *args]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
        )
        assert process.stdout is not None
        assert any("Ctrl-C" in line for line in process.stdout), f"{self.name} ended with {process.wait()}"
        self._process = process

    def kill(self) -> None:
        """End it without a chance to finish anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None:
            self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(timeout=30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None


def apart(directory: Path, gates: str = "AllAlpha=true") -> tuple[Live, dict[str, Component]]:
    """The three components of a control plane, each a process; not started yet. Nodes are hollow."""
    port = free_port()
    kubeconfig = directory / "kubeconfig"
    alone = ("--kubeconfig", str(kubeconfig), "--feature-gates", gates, "--no-leader-elect")
    parts = (
        Component("apiserver", "--data-dir", str(directory), "--port", str(port), "--feature-gates", gates),
        Component("scheduler", *alone),
        Component("controllers", *alone, "--hollow-nodes"),
    )
    return Live(directory, url=f"https://127.0.0.1:{port}"), {part.name: part for part in parts}
