"""`moorage up` and `moorage apiserver`: a control plane on this machine."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from moorage.cli.options import cannot_run, gates_option, parse_gates
from moorage.features import Gates

_DIRECTORY = Path(".moorage")
_FILE = click.Path(dir_okay=False, path_type=Path)


def _server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((
        click.option("--data-dir", "directory", type=click.Path(path_type=Path), default=_DIRECTORY, show_default=True,
                     help="Where certificates, tokens, the kubeconfig and the database are kept."),
        click.option("--bind", default="127.0.0.1", show_default=True, help="The address to listen on."),
        click.option("--port", type=click.IntRange(0, 65535), default=6443, show_default=True,
                     help="The port to listen on; 0 picks a free one."),
        click.option("--store", default="sqlite", show_default=True, metavar="sqlite|etcd://HOST:PORT,…",
                     help="Where objects are kept: in the data directory, or in etcd."),
        click.option("--etcd-cafile", type=_FILE, help="Whom to trust as etcd; with it etcd is spoken to in TLS."),
        click.option("--etcd-certfile", type=_FILE, help="Who this server is to etcd."),
        click.option("--etcd-keyfile", type=_FILE, help="The key of that certificate."),
        gates_option("--feature-gates", "gates", "Gates of all components"),
        gates_option("--apiserver-feature-gates", "apiserver_gates", "Gates of the API server, in place of those"),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command()
@_server_options
@gates_option("--scheduler-feature-gates", "scheduler_gates", "Gates of the scheduler, in place of those")
@gates_option("--controllers-feature-gates", "controllers_gates", "Gates of the controllers, in place of those")
def up(gates: str, apiserver_gates: str, scheduler_gates: str, controllers_gates: str, **server: Any) -> None:
    """Start a control plane that kubectl and every Kubernetes client can talk to.

    It stops cleanly on Ctrl-C or SIGTERM; what it acknowledged is there when it starts again. Today the API server is
    all there is to start: gates of the other components are checked and wait for them.

    \b
    Examples:
      moorage up --feature-gates AllAlpha=true
      moorage up --data-dir /var/lib/moorage --port 0
      moorage up --store etcd://127.0.0.1:2379
    """
    for text in (scheduler_gates, controllers_gates):
        parse_gates(text)
    _serve(parse_gates(apiserver_gates or gates), **server)


@click.command()
@_server_options
def apiserver(gates: str, apiserver_gates: str, **server: Any) -> None:
    """Start the API server alone.

    \b
    Example:
      moorage apiserver --data-dir /var/lib/moorage --feature-gates WildcardTolerationKeys=true
    """
    _serve(parse_gates(apiserver_gates or gates), **server)


def _serve(gates: Gates, **server: Any) -> None:
    import uvloop

    from moorage.apiserver.run import CannotStart

    try:
        uvloop.run(_run(gates, **server))
    except CannotStart as error:
        cannot_run(str(error))


async def _run(gates: Gates, directory: Path, bind: str, port: int, store: str, **etcd: Path | None) -> None:
    from moorage.apiserver.run import start

    files = etcd["etcd_cafile"], etcd["etcd_certfile"], etcd["etcd_keyfile"]
    server = await start(directory, store, gates, bind, port, etcd_files=files)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    click.echo(_welcome(server.url, server.kubeconfig, gates))
    await stopped.wait()
    click.echo("stopping: finishing what was begun", err=True)
    await server.stop()


def _welcome(url: str, kubeconfig: Path, gates: Gates) -> str:
    on = ", ".join(sorted(gate.value for gate in gates.on)) or "none"
    return (
        f"Moorage serves the Kubernetes API at {url}\n"
        f"feature gates on: {on}\n\n"
        f"  export KUBECONFIG={kubeconfig.resolve()}\n"
        f"  kubectl get namespaces\n"
        f"  kubectl apply -f examples/thresholds-1-spot-nodes\n\n"
        "Ctrl-C stops it."
    )
