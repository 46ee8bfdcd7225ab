"""`moorage scheduler` and `moorage controllers`: one component, beside any Kubernetes API server."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moorage.cli.logs import log_options
from moorage.cli.options import cannot_run, feature_gates, rule_namespaces
from moorage.features import Gates

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from moorage.client import Client
    from moorage.client.kubeconfig import Kubeconfig

_FILE = click.Path(dir_okay=False, path_type=Path)
Start = Callable[["Client"], tuple["CollectorRegistry", Callable[[], Awaitable[None]]]]
"""Prepares a component: returns its metrics and what runs it."""


def _component_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((
        click.option("--kubeconfig", type=_FILE, required=True, envvar="KUBECONFIG",
                     help="How to reach the API server, and as whom."),
        feature_gates,
        click.option("--leader-elect/--no-leader-elect", default=True, show_default=True,
                     help="Work only while holding the lease, so that one of several does."),
        click.option("--metrics-port", type=click.IntRange(1, 65535),
                     help="Serve Prometheus metrics on this port of the loopback address."),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command()
@log_options("scheduler")
@_component_options
@click.option("--config", type=_FILE, help="A KubeSchedulerConfiguration: profiles, plugins, weights.")
@rule_namespaces
@click.option("--cover-native", "covers_native", is_flag=True,
              help="Cover native Gt and Lt too: others may have their gate off. Rules are always covered.")  # fmt: skip
def scheduler(
    config: Path | None, gates: Gates, leader_elect: bool, rule_namespaces: str, covers_native: bool, **connection: Any
) -> None:
    """Place pods: the scheduler alone, beside any Kubernetes API server.

    \b
    Examples:
      moorage scheduler --kubeconfig ~/.kube/config --feature-gates AllAlpha=true
      moorage scheduler --kubeconfig admin.conf --config scheduler.yaml --metrics-port 10259
    """
    from moorage.scheduler.config import Configuration, ConfigurationError
    from moorage.scheduler.scheduler import Scheduler

    try:
        written = Configuration.read(config) if config else Configuration()
        configuration = written.attached(rule_namespaces, covers_native=covers_native)
    except ConfigurationError as error:
        cannot_run(str(error))

    def start(client: Client) -> tuple[CollectorRegistry, Callable[[], Awaitable[None]]]:
        component = Scheduler(client, gates, configuration)
        return component.metrics.registry, component.run

    try:
        _serve("scheduler", start, gates, leader_elect and configuration.leader_elect, **connection)
    except ConfigurationError as error:
        cannot_run(f"{config}: {error}")


@click.command()
@log_options("controllers")
@_component_options
@click.option("--hollow-nodes", is_flag=True, help="Play the kubelet of every node that has no real one.")
@click.option("--root-ca-file", type=_FILE,
              help="The certificate by which pods know the API server, given to each namespace as kube-root-ca.crt. "
                   "By default that of the kubeconfig.")  # fmt: skip
def controllers(
    hollow_nodes: bool, root_ca_file: Path | None, gates: Gates, leader_elect: bool, kubeconfig: Path, **connection: Any
) -> None:
    """Evict, replace, collect: the controllers alone, beside any Kubernetes API server.

    \b
    Examples:
      moorage controllers --kubeconfig ~/.kube/config --feature-gates AllAlpha=true
      moorage controllers --kubeconfig .moorage/kubeconfig --hollow-nodes
    """
    from moorage.controllers.cluster.serviceaccounts import root_ca
    from moorage.controllers.hollow import HollowNodes
    from moorage.controllers.run import CONTROLLERS, prepare

    makers = [*CONTROLLERS]
    if certificate := _root_certificate(root_ca_file, kubeconfig):
        makers.append(root_ca(certificate))
    if hollow_nodes:
        makers.append(HollowNodes)

    def start(client: Client) -> tuple[CollectorRegistry, Callable[[], Awaitable[None]]]:
        component = prepare(client, gates, makers)
        return component.context.registry, component.run

    _serve("controllers", start, gates, leader_elect, kubeconfig, **connection)


def _root_certificate(file: Path | None, kubeconfig: Path) -> str:
    """The certificate that pods are to trust; empty when the kubeconfig names none: the system's authorities apply."""
    import ssl

    from moorage.client.kubeconfig import KubeconfigError, load

    try:
        if file is None:
            return load(kubeconfig).trusted
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
        return file.read_text("ascii")
    except KubeconfigError as error:
        cannot_run(str(error))
    except (ssl.SSLError, UnicodeError):
        cannot_run(f"{file}: holds no certificate in PEM form")
    except OSError as error:
        cannot_run(f"{file}: {error.strerror or error}")


_LEASES = {"scheduler": "kube-scheduler", "controllers": "kube-controller-manager"}


def _serve(
    component: str, start: Start, gates: Gates, leader_elect: bool, kubeconfig: Path, metrics_port: int | None
) -> None:
    import uvloop

    from moorage.client.kubeconfig import KubeconfigError, load
    from moorage.garbage import collect_seldom

    try:
        config = load(kubeconfig)
        collect_seldom()
        uvloop.run(_run(component, start, gates if leader_elect else None, config, metrics_port))
    except KubeconfigError as error:
        cannot_run(str(error))


async def _run(component: str, start: Start, gates: Gates | None, config: Kubeconfig, port: int | None) -> None:
    """Run a component; with gates, only while it leads."""
    from prometheus_client import start_http_server

    from moorage.client import Client
    from moorage.client.clock import Clock
    from moorage.client.https import HTTPSTransport
    from moorage.client.leases import LeadershipLost, identity, lead
    from moorage.componentmetrics import expose_process

    client = Client(HTTPSTransport(config, f"moorage-{component}"))
    registry, run = start(client)
    expose_process(registry)
    if port:
        try:
            start_http_server(port, "127.0.0.1", registry)
        except OSError as error:
            cannot_run(f"port {port}: {error.strerror}: choose another one with --metrics-port")
    if gates is not None:
        leading = partial(_lead, component, gates, client, run)
        running = asyncio.ensure_future(lead(client, _LEASES[component], identity(), Clock(), leading))
    else:
        running = asyncio.ensure_future(run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    click.echo(f"Moorage's {component} at work for {config.url}. Ctrl-C stops it.")
    try:
        with suppress(asyncio.CancelledError):
            await running
    except LeadershipLost as error:
        cannot_run(str(error))
    finally:
        await client.close()


async def _lead(component: str, gates: Gates, client: Client, run: Callable[[], Awaitable[None]]) -> None:
    from moorage.tools.gatechanges import log_changes_since_leader

    await log_changes_since_leader(_LEASES[component], component, gates, client)
    await run()
