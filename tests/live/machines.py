"""The page on high availability, run on loopback: a machine is an address and a folder, a long command is a process."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path

from tests.plane import PATIENCE
from tests.store.cluster import READY, binary

PAGE = Path(__file__).parents[2] / "docs" / "high-availability.md"
BALANCER = "10"
"""The last part of its address."""
_NETWORK = f"127.{os.getpid() >> 8 & 127 | 128}.{os.getpid() & 255}."
"""In the place of 10.0.0.: another one for each process, so that the ports of the page are free."""
_PROGRAMS = {"etcd": ([str(binary())], READY), "moorage": ([sys.executable, "-m", "moorage"], "Ctrl-C")}
"""How the commands of the page are called here, and what each says when it is ready."""


class Process:
    """A long command of the page."""

    def __init__(self, folder: Path, command: str) -> None:
        name, *arguments = shlex.split(command.replace("\\\n", " "))
        program, self._ready_line = _PROGRAMS[name]
        self.name = f"{name} {arguments[0]}" if name == "moorage" else name
        self._command = [*program, *arguments]
        self._folder = folder
        self._ready = threading.Event()
        self._log: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Start it; `wait` says when it is ready."""
        self._process = subprocess.Popen(
            self._command, cwd=self._folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader.start()

    def wait(self) -> None:
        """Wait until it is ready."""
        assert self._ready.wait(PATIENCE), f"{self.name}: {''.join(self._log[-20:])}"

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it without warning; nothing happens when it has ended."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._reader.join()

    def _read(self) -> None:
        assert self._process
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                self._log.append(line)
                if self._ready_line in line:
                    self._ready.set()


class Machines:
    """What the page runs: scripts, and processes by what they are, in the order of their machines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        text = PAGE.read_text().replace("10.0.0.", _NETWORK)
        self.balanced = [(host, int(port)) for host, port in re.findall(r"  server \S+ (\S+):(\d+)", text)]
        self.scripts: list[str] = []
        self.processes: dict[str, list[Process]] = {}
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            found = re.fullmatch(r"# (\S+)\n(.*)", block, re.DOTALL)
            if found is None:
                self.scripts.append(block)
                continue
            process = Process(self._machine(found[1]), found[2])
            self.processes.setdefault(process.name, []).append(process)

    @property
    def balancer(self) -> str:
        """The address that the page gives to the balancer."""
        return f"{_NETWORK}{BALANCER}"

    def run(self, script: str) -> str:
        """Run a script of the page; what it prints."""
        command = ["bash", "-euo", "pipefail", "-c", script]
        run = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert run.returncode == 0, run.stderr
        return run.stdout

    def start(self, name: str) -> None:
        """Start all processes of a name, and wait until they are ready."""
        for process in self.processes[name]:
            process.start()
        for process in self.processes[name]:
            process.wait()

    def _machine(self, address: str) -> Path:
        folder = self._folder / address
        if not folder.exists():
            folder.mkdir()
            (folder / "pki").symlink_to("../pki")
        return folder


@contextmanager
def machines(folder: Path) -> Iterator[Machines]:
    """The machines of the page; whatever runs on them ends with the test."""
    all_machines = Machines(folder)
    try:
        yield all_machines
    finally:
        for processes in all_machines.processes.values():
            for process in processes:
                process.kill()


class Balancer:
    """Passes TCP on, in turn to each server that can be connected to."""

    def __init__(self, servers: list[tuple[str, int]]) -> None:
        self._servers = servers
        self._turn = count()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._pass, host, port)

    async def stop(self) -> None:
        """Stop listening, and cut all connections."""
        assert self._server
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            async with _closing(writer):
                await self._exchange(reader, writer)
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            self._connections.discard(task)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected = await self._connect()
        if connected is None:
            return
        async with _closing(connected[1]):
            to_client, to_server = _copy(connected[0], writer), _copy(reader, connected[1])
            copying = {asyncio.create_task(to_client), asyncio.create_task(to_server)}
            try:
                await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in copying:
                    each.cancel()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        first = next(self._turn)
        for index in range(len(self._servers)):
            with suppress(OSError):
                return await asyncio.open_connection(*self._servers[(first + index) % len(self._servers)])
        return None


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
