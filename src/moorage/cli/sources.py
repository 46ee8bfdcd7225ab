"""Which cluster a command is about: manifests, or a running cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from moorage.cli.options import ChosenContext, cannot_run, gates_option, kubeconfig_options, parse_gates, read
from moorage.features import NONE_ON, Gates
from moorage.tools.cluster import Cluster

if TYPE_CHECKING:
    from moorage.client.kubeconfig import Kubeconfig


@dataclass(frozen=True, slots=True)
class Asked:
    """The cluster that a command is about, and the gates to answer with."""

    cluster: Cluster
    gates: Gates
    source: str
    """What the cluster was read from, for sentences: `pods.yaml, nodes.yaml`."""
    assumptions: tuple[str, ...] = ()
    """What is taken for granted because it could not be read, in whole sentences."""


def about_a_cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which cluster it is about; it is called with `asked`."""

    @wraps(command)
    def asking(paths: tuple[str, ...], kubeconfig: ChosenContext, gates: Gates | None, **rest: Any) -> Any:
        return command(asked=_asked(paths, kubeconfig, gates), **rest)

    for option in reversed((
        click.option("-f", "--filename", "paths", multiple=True, metavar="PATH",
                     help="A file or folder of manifests, or - for standard input. May be repeated."),
        kubeconfig_options,
        gates_option("--feature-gates", "gates", "Gates to answer with",
                     callback=lambda _, __, text: parse_gates(text) if text else None),
    )):  # fmt: skip
        asking = option(asking)
    return asking


def _asked(paths: tuple[str, ...], kubeconfig: ChosenContext, gates: Gates | None) -> Asked:
    if paths:
        cluster, source = read(paths), ", ".join(paths)
    else:
        config = kubeconfig.load()
        cluster, source = live(config), config.source
    return Asked(cluster, gates or cluster.gates or NONE_ON, source)


def live(config: Kubeconfig) -> Cluster:
    """What placement depends on in a running cluster; ends the command when it cannot be read."""
    from moorage.client import ApiError, Client
    from moorage.client.https import HTTPSTransport
    from moorage.tools.live import read_live

    async def ask() -> Cluster:
        client = Client(HTTPSTransport(config, "moorage"))
        try:
            return await read_live(client)
        finally:
            await client.close()

    try:
        return asyncio.run(ask())
    except ApiError as error:
        cannot_run(str(error))
