"""`moorage ui`: the page of a cluster."""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from pathlib import Path

import click

from moorage.cli.options import cannot_run, feature_gates
from moorage.features import Gates

_FILE = "page.json"


def _own_file() -> Path:
    """Where `moorage ui` keeps what a restart must know; `moorage up` keeps that in its data directory."""
    return Path(click.get_app_dir("moorage")) / _FILE


@click.command()
@click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), envvar="KUBECONFIG",
              help="The cluster to show, and as whom.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=0,
              help="The loopback port to serve the page on; by default the last one, or a free one.")  # fmt: skip
@click.option("--no-open", is_flag=True, help="Print the address, and do not open a browser.")
@click.option("--url", "again", is_flag=True, help="Print a new address of the page that is served already, and end.")
@click.option("--data-dir", "directory", type=click.Path(file_okay=False, path_type=Path), default=Path(".moorage"),
              show_default=True, help="With --url: the data directory of the `moorage up` that serves it.")  # fmt: skip
@feature_gates
def ui(kubeconfig: Path | None, port: int, no_open: bool, again: bool, directory: Path, gates: Gates) -> None:
    """Show a cluster in the browser: where every pod runs, and why it may not run elsewhere.

    It reads with your own rights and changes nothing. An address opens one page; --url prints another one.

    \b
    Examples:
      moorage ui --kubeconfig ~/.kube/config
      moorage ui --kubeconfig ~/.kube/config --port 8001 --no-open
      moorage ui --url
    """
    if again:
        click.echo(new_address(directory))
        return
    if kubeconfig is None:
        cannot_run("which cluster? give --kubeconfig FILE; the page of `moorage up` is at `moorage ui --url`")
    import uvloop

    from moorage.client.kubeconfig import KubeconfigError

    try:
        uvloop.run(_serve(kubeconfig, port, gates, opens=not no_open))
    except KubeconfigError as error:
        cannot_run(str(error))
    except OSError as error:
        cannot_run(f"port {port}: {error.strerror}: choose another one with --port")


def new_address(directory: Path) -> str:
    """A new address from a server that runs."""
    from http.client import HTTPConnection, HTTPException

    import msgspec

    from moorage.page.sessions import read

    for file in (directory / _FILE, _own_file()):
        kept = read(file)
        if not kept.port:
            continue
        connection = HTTPConnection("127.0.0.1", kept.port, timeout=10)
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


async def _serve(kubeconfig: Path, port: int, gates: Gates, *, opens: bool) -> None:
    from moorage.client import Client
    from moorage.client.https import HTTPSTransport
    from moorage.client.kubeconfig import load
    from moorage.page.server import Page
    from moorage.scheduler.config import Configuration
    from moorage.scheduler.scheduler import Scheduler

    config = load(kubeconfig)
    client = Client(HTTPSTransport(config, "moorage-ui"))
    file = _own_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    page = Page(Scheduler(client, gates, Configuration()), name=config.url, port=port, file=file)
    await page.start()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    url = page.url()
    click.echo(f"{url}\nThe page shows {config.url}. Ctrl-C stops it.")
    if opens:
        await asyncio.to_thread(webbrowser.open, url)
    try:
        await stopped.wait()
    finally:
        await page.stop()
        await client.close()
