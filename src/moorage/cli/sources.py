"""Which cluster a command is about: manifests, snapshots, or a running cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from moorage.cli.options import ChosenContext, cannot_run, gates_option, kubeconfig_options, parse_gates, read
from moorage.cli.progress import ReadingProgress
from moorage.features import NONE_ON, Gates
from moorage.tools.cluster import Cluster

if TYPE_CHECKING:
    from moorage.client.kubeconfig import Kubeconfig
    from moorage.tools.live import LiveReader

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Asked:
    """The cluster that a command is about, and the gates to answer with."""

    cluster: Cluster
    gates: Gates
    source: str
    """What the cluster was read from, for sentences: `pods.yaml, nodes.yaml`."""
    assumptions: tuple[str, ...] = ()
    """What is taken for granted because it could not be read, in whole sentences."""
    namespace: str = "default"
    """The namespace that is meant when none is named: that of the context."""


def about_a_cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which cluster it is about; it is called with `asked`."""

    @wraps(command)
    def asking(paths: tuple[str, ...], kubeconfig: ChosenContext, gates: Gates | None, **rest: Any) -> Any:
        return command(asked=_asked(paths, kubeconfig, gates), **rest)

    for option in reversed((
        click.option("-f", "--filename", "paths", multiple=True, metavar="PATH",
                     help="A file or folder of manifests, a snapshot, or - for standard input. May be repeated; beside "
                          "--kubeconfig or --context it adds to that cluster."),
        kubeconfig_options,
        gates_option("--feature-gates", "gates", "Gates to answer with instead of those of the cluster",
                     callback=lambda _, __, text: parse_gates(text) if text else None),
    )):  # fmt: skip
        asking = option(asking)
    return asking


def _asked(paths: tuple[str, ...], kubeconfig: ChosenContext, gates: Gates | None) -> Asked:
    """Files, or a running cluster; both together when a cluster is named beside files."""
    written = read(paths) if paths else Cluster()
    if not paths or kubeconfig.is_named:
        config = kubeconfig.load()
        cluster, source, namespace = live(config), ", ".join((config.source, *paths)), config.namespace
        cluster.items += written.items
        cluster.problems += written.problems
        cluster.skipped += written.skipped
    else:
        cluster, source, namespace = written, ", ".join(paths), "default"
    assumptions = tuple(_assumptions(cluster, gates))
    return Asked(cluster, gates or cluster.gates or NONE_ON, source, assumptions, namespace)


def _assumptions(cluster: Cluster, gates: Gates | None) -> list[str]:
    said = [f"{resource} could not be read, and are taken to be none" for resource in cluster.unread]
    if cluster.is_complete and cluster.gates is None and gates is None:
        said.append("the cluster does not say which gates are on: all are taken to be off (see --feature-gates)")
    if cluster.is_attached and gates is None:
        why = "the API server does not know the gates, so only attach mode applies rules"
        said.append(f"{why}: all gates are taken to be on (see --feature-gates)")
    return said


def live(config: Kubeconfig) -> Cluster:
    """What placement depends on in a running cluster; ends the command when it cannot be read."""

    async def ask(reader: LiveReader) -> Cluster:
        cluster = await reader.cluster()
        cluster.gates, cluster.is_attached = await reader.placing_gates()
        return cluster

    return reading(config, ask)


def reading(config: Kubeconfig, ask: Callable[[LiveReader], Awaitable[_T]]) -> _T:
    """The result of asking a running cluster, with progress on a terminal; ends the command when it fails."""
    from moorage.client import ApiError, Client
    from moorage.client.https import HTTPSTransport
    from moorage.tools.live import LiveReader

    async def answer() -> _T:
        client = Client(HTTPSTransport(config, "moorage"))
        try:
            with ReadingProgress() as progress:
                return await ask(LiveReader(client, progress))
        finally:
            await client.close()

    try:
        return asyncio.run(answer())
    except ApiError as error:
        said = f"it does not know who asks, so check the kubeconfig: {error}" if error.code == 401 else str(error)
        cannot_run(said if config.url in said else f"{config.url}: {said}")
