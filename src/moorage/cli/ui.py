"""`moorage ui`: the page of a cluster."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import webbrowser
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moorage.cli.options import ChosenContext, cannot_run, gates_option, kubeconfig_options, parse_gates
from moorage.features import NONE_ON, Gates

if TYPE_CHECKING:
    from moorage.client.kubeconfig import Kubeconfig

_FILE = "page.json"


def _own_file(cluster: str) -> Path:
    """Where `moorage ui` keeps what a restart must know; `moorage up` keeps that in its data directory.

    A file for each cluster: a page that is open must never go on with another one.
    """
    return _own_folder() / f"page-{sha256(cluster.encode()).hexdigest()[:16]}.json"


def _own_folder() -> Path:
    return Path(click.get_app_dir("moorage"))


@click.command()
@kubeconfig_options
@click.option("--port", type=click.IntRange(0, 65535), default=0,
              help="The loopback port to serve the page on; by default the last one, or a free one.")  # fmt: skip
@click.option("--read-only/--no-read-only", default=True, show_default=True,
              help="Whether rules can be tried out only, or saved too.")  # fmt: skip
@click.option("--no-open", is_flag=True, help="Print the address, and do not open a browser.")
@click.option("--url", "again", is_flag=True, help="Print a new address of the page that is served already, and end.")
@click.option("--data-dir", "directory", type=click.Path(file_okay=False, path_type=Path), default=Path(".moorage"),
              show_default=True, help="With --url: the data directory of the `moorage up` that serves it.")  # fmt: skip
@click.option("--page-file", type=click.Path(dir_okay=False, path_type=Path), hidden=True)
@click.option("--socket", "descriptor", type=int, hidden=True)
@click.option("--stories", is_flag=True, hidden=True)
@gates_option("--feature-gates", "gates", "Gates to answer with instead of those of the cluster",
              callback=lambda _, __, text: parse_gates(text) if text else None)  # fmt: skip
def ui(
    kubeconfig: ChosenContext, port: int, read_only: bool, no_open: bool, again: bool, directory: Path,
    page_file: Path | None, descriptor: int | None, stories: bool, gates: Gates | None,
) -> None:  # fmt: skip
    """Show a cluster in the browser: where every pod runs, and why it may not run elsewhere.

    It reads with your own rights and changes nothing, unless --no-read-only lets rules be saved from it. An address
    opens one page; --url prints another one.

    \b
    Examples:
      moorage ui
      moorage ui --context staging --port 8001 --no-open
      moorage ui --url
    """
    if again:
        is_named = kubeconfig.file or kubeconfig.context
        click.echo(new_address(directory, _own_file(kubeconfig.load().url) if is_named else None))
        return
    import uvloop

    config = kubeconfig.load()
    file, context = kubeconfig.file, kubeconfig.context
    connection = (*(("--kubeconfig", str(file)) if file else ()), *(("--context", context) if context else ()))
    if page_file is not None and descriptor is not None:
        handed = socket.socket(fileno=descriptor)
        served = _serve(config, connection, handed, page_file, gates, stories=stories, child=True, read_only=read_only)
        uvloop.run(served)
        return
    own = _own_file(config.url)
    own.parent.mkdir(parents=True, exist_ok=True)
    listening = _listening(own, port)
    uvloop.run(_serve(config, connection, listening, own, gates, opens=not no_open, read_only=read_only))


def _listening(file: Path, port: int) -> socket.socket:
    """A socket on the port that was asked for, or that of the last time if it is free."""
    from moorage.page.child import listening
    from moorage.page.sessions import read

    if not port:
        with suppress(OSError):
            return listening(read(file).port)
    try:
        return listening(port)
    except OSError as error:
        cannot_run(f"port {port}: {error.strerror}: choose another one with --port")


def new_address(directory: Path, own: Path | None = None) -> str:
    """A new address from a server that runs: that of a data directory, or `moorage ui`, of the cluster of `own`."""
    from http.client import HTTPConnection, HTTPException

    import msgspec

    from moorage.page.sessions import read

    latest = sorted(_own_folder().glob("page-*.json"), key=lambda file: -file.stat().st_mtime)
    for file in (own,) if own else (directory / _FILE, *latest):
        kept = read(file)
        if not kept.port:
            continue
        connection = HTTPConnection("127.0.0.1", kept.port, timeout=60)
        try:
            connection.request("POST", "/ui/v1/token", msgspec.json.encode({"key": kept.key}))
            answer = connection.getresponse()
            if answer.status == 200:
                return str(msgspec.json.decode(answer.read())["url"])
        except (OSError, HTTPException):
            continue
        finally:
            connection.close()
    return cannot_run(f"no page is served: neither by `moorage up --data-dir {directory}` nor by `moorage ui`")


async def _serve(
    config: Kubeconfig, connection: tuple[str, ...], listening: socket.socket, file: Path, gates: Gates | None, *,
    stories: bool = False, child: bool = False, opens: bool = False, read_only: bool = True,
) -> None:  # fmt: skip
    from moorage.client import Client
    from moorage.client.https import HTTPSTransport
    from moorage.page.server import PageServer
    from moorage.page.stage import StoryStage
    from moorage.scheduler.config import Configuration
    from moorage.scheduler.scheduler import Scheduler
    from moorage.tools.live import LiveReader

    client = Client(HTTPSTransport(config, "moorage-ui"))
    gates = gates or (await LiveReader(client).placing_gates())[0] or NONE_ON
    stage = StoryStage(client, file.with_suffix(".story")) if stories else None
    watcher = Scheduler(client, gates, Configuration(), quiet=True)
    page = PageServer(watcher, name=config.url, file=file, stage=stage, connection=connection, read_only=read_only)
    if not child:
        page.sessions.begin(listening.getsockname()[1])
    await page.start(listening)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    if child:
        # The end of the standard input is the end of who started this.
        loop.add_reader(sys.stdin, stopped.set)
    else:
        url = page.url()
        click.echo(f"{url}\nThe page shows {config.url}. Ctrl-C stops it.")
        if opens:
            await asyncio.to_thread(webbrowser.open, url)
    try:
        await stopped.wait()
    finally:
        await page.stop()
        await client.close()
