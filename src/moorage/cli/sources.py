"""Which cluster a command is about: manifests, or a running cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from moorage.cli.options import cannot_run, gates_option, parse_gates, read
from moorage.features import NONE_ON, Gates
from moorage.tools.cluster import Cluster


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
    def asking(paths: tuple[str, ...], kubeconfig: Path | None, gates: Gates | None, **rest: Any) -> Any:
        return command(asked=_asked(paths, kubeconfig, gates), **rest)

    for option in reversed((
        click.option("-f", "--filename", "paths", multiple=True, metavar="PATH",
                     help="A file or folder of manifests, or - for standard input. May be repeated."),
        click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), envvar="KUBECONFIG",
                     help="Ask the cluster that this file names."),
        gates_option("--feature-gates", "gates", "Gates to answer with",
                     callback=lambda _, __, text: parse_gates(text) if text else None),
    )):  # fmt: skip
        asking = option(asking)
    return asking


def _asked(paths: tuple[str, ...], kubeconfig: Path | None, gates: Gates | None) -> Asked:
    if paths:
        cluster, source = read(paths), ", ".join(paths)
    elif kubeconfig:
        cluster, source = live(kubeconfig), str(kubeconfig)
    else:
        cannot_run("which cluster? give --kubeconfig FILE, or manifests with -f")
    return Asked(cluster, gates or cluster.gates or NONE_ON, source)


def live(file: Path) -> Cluster:
    """What placement depends on in the cluster that a kubeconfig names; ends the command when it cannot be read."""
    from moorage.client import ApiError, Client
    from moorage.client.https import HTTPSTransport
    from moorage.client.kubeconfig import KubeconfigError, load
    from moorage.tools.live import read_live

    async def ask() -> Cluster:
        client = Client(HTTPSTransport(load(file), "moorage"))
        try:
            return await read_live(client)
        finally:
            await client.close()

    try:
        return asyncio.run(ask())
    except (ApiError, KubeconfigError) as error:
        cannot_run(str(error))
