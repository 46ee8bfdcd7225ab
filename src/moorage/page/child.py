"""The page of `moorage up` as a process of its own, which begins when somebody first opens the page."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from moorage.logs import Log
from moorage.page.sessions import Sessions

_LOG = Log(__name__)
_BACKLOG = 64
_STOP_SECONDS = 5.0


def listening(port: int) -> socket.socket:
    """A socket on a loopback port; raises OSError when that is taken."""
    found = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
    found.setblocking(False)
    return found


class PageProcess:
    """Listens for the page, and hands the socket to a process that serves it.

    A process of its own, so that no question that somebody asks on the page keeps the control plane waiting; and none
    until it is wanted, so that a control plane without a page pays nothing.
    """

    def __init__(self, file: Path, arguments: Sequence[str]) -> None:
        """`file` holds who may use the page; `arguments` are those of `moorage ui`, but for the socket."""
        self._sessions = Sessions(file)
        self._arguments = [sys.executable, "-m", "moorage", "ui", *arguments, "--page-file", str(file)]
        self._socket: socket.socket | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> str:
        """Begin to listen, on the port of the last time if it is free. Returns an address that opens the page once.

        It is empty when the file cannot be written, of which the process would learn who may use the page.
        """
        try:
            self._socket = listening(self._sessions.kept.port)
        except OSError:
            self._socket = listening(0)
        self._sessions.begin(self._socket.getsockname()[1])
        token = self._sessions.token()
        if not self._sessions.is_kept:
            _LOG.warning("The page is not served until the next start")
            self._socket.close()
            self._socket = None
            return ""
        self._await_visitor()
        return f"http://127.0.0.1:{self._sessions.kept.port}/#token={token}"

    async def stop(self) -> None:
        """End the process, and stop listening."""
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._listener)
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
        self._listener.close()

    @property
    def _listener(self) -> socket.socket:
        assert self._socket is not None  # it was started
        return self._socket

    def _await_visitor(self) -> None:
        asyncio.get_running_loop().add_reader(self._listener, self._visited)

    def _visited(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._serving = asyncio.create_task(self._serve(), name="page")

    async def _serve(self) -> None:
        """Run the process until it ends; the next visitor starts it again."""
        number = self._listener.fileno()
        command = [*self._arguments, "--socket", str(number)]
        # The process ends when its standard input does, which it also does when this process is killed.
        child = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, pass_fds=(number,)
        )
        try:
            code = await child.wait()
            _LOG.warning("The page has ended and begins again with the next visitor", code=code)
            self._await_visitor()
        finally:
            if child.returncode is None:
                await _end(child)


async def _end(child: asyncio.subprocess.Process) -> None:
    assert child.stdin is not None
    child.stdin.close()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()
