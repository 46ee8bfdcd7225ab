"""`moorage ui`: the page of a cluster."""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from pathlib import Path

import click

from moorage.cli.options import cannot_run, feature_gates
from moorage.features import Gates


@click.command()
@click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), envvar="KUBECONFIG", required=True,
              help="The cluster to show, and as whom.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True,
              help="The loopback port to serve the page on; 0 picks a free one.")  # fmt: skip
@click.option("--no-open", is_flag=True, help="Print the address, and do not open a browser.")
@feature_gates
def ui(kubeconfig: Path, port: int, no_open: bool, gates: Gates) -> None:
    """Show a cluster in the browser: where every pod runs, and why it may not run elsewhere.

    It reads with your own rights and changes nothing.

    \b
    Examples:
      moorage ui
      moorage ui --kubeconfig ~/.kube/config --port 8001 --no-open
    """
    import uvloop

    from moorage.client.kubeconfig import KubeconfigError

    try:
        uvloop.run(_serve(kubeconfig, port, gates, opens=not no_open))
    except KubeconfigError as error:
        cannot_run(str(error))
    except OSError as error:
        cannot_run(f"port {port}: {error.strerror}: choose another one with --port")


async def _serve(kubeconfig: Path, port: int, gates: Gates, *, opens: bool) -> None:
    from moorage.client import Client
    from moorage.client.https import HTTPSTransport
    from moorage.client.kubeconfig import load
    from moorage.page.server import Page
    from moorage.scheduler.config import Configuration
    from moorage.scheduler.scheduler import Scheduler

    config = load(kubeconfig)
    client = Client(HTTPSTransport(config, "moorage-ui"))
    page = Page(Scheduler(client, gates, Configuration()), name=config.url, port=port)
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
