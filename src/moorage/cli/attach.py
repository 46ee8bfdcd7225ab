"""`moorage attach`: Moorage beside a cluster that somebody else runs."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from moorage.cli.logs import log_options
from moorage.cli.options import (
    FINDINGS,
    ChosenContext,
    Commands,
    cannot_run,
    gates_option,
    kubeconfig_options,
    parse_gates,
    rule_namespaces,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from moorage.client import Client

T = TypeVar("T")
_scheduler_name = click.option("--scheduler-name", default="moorage", show_default=True,
                               help="The schedulerName of the pods that Moorage places.")  # fmt: skip


@click.group(cls=Commands)
def attach() -> None:
    """Apply rules in annotations on a cluster that you already have, beside its own components.

    \b
    Examples:
      moorage attach check --kubeconfig ~/.kube/config
      moorage attach run --kubeconfig ~/.kube/config
      moorage convert manifests/ | kubectl apply -f -
    """


def _run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((
        gates_option("--feature-gates", "gates", "Gates to turn off: here all are on by default",
                     callback=lambda _, __, text: parse_gates(f"AllAlpha=true,{text}")),
        rule_namespaces,
        click.option("--cover-native/--no-cover-native", "covers_native", default=True, show_default=True,
                     help="Cover native Gt and Lt too; not needed when every component has their gate on."),
        click.option("--leader-elect/--no-leader-elect", default=True, show_default=True,
                     help="Work only while holding the leases moorage-scheduler and moorage-controllers."),
        click.option("--metrics-port", type=click.IntRange(1, 65535), help="Serve /healthz and /metrics on it."),
        click.option("--bind", default="127.0.0.1", show_default=True, help="Where the metrics are: 0.0.0.0 in a pod."),
    )):  # fmt: skip
        command = option(command)
    return command


@attach.command()
@log_options("attach")
@kubeconfig_options
@_scheduler_name
@_run_options
def run(kubeconfig: ChosenContext, leader_elect: bool, metrics_port: int | None, bind: str, **told: Any) -> None:
    """Run the scheduler and the evictors in one process with your kubeconfig, to try attach mode out.

    It places pods whose schedulerName is its own and evicts pods with rules; it touches no others.
    """
    from moorage.tools.attach.run import AttachSettings, run_attached

    settings = AttachSettings(**told)

    async def work(client: Client) -> None:
        click.echo(
            f"Moorage is attached: it places pods with schedulerName {settings.scheduler_name}. Ctrl-C stops it."
        )
        async with _watched(metrics_port, bind) as metrics:
            await _until_stopped(run_attached(client, settings, leads=leader_elect, metrics=metrics))

    _ask(kubeconfig, work)


@asynccontextmanager
async def _watched(port: int | None, bind: str) -> AsyncIterator[list[CollectorRegistry]]:
    """Serve the metrics of the process, if there is a port for them."""
    from prometheus_client import CollectorRegistry

    from moorage.componentmetrics import expose_process
    from moorage.tools.attach.health import health_server

    registries = [CollectorRegistry()]
    expose_process(registries[0])
    server = health_server(registries, bind, port or 0)
    if port:
        await server.start()
    try:
        yield registries
    finally:
        await server.stop(1)


@attach.command()
@kubeconfig_options
@_scheduler_name
def check(kubeconfig: ChosenContext, scheduler_name: str) -> None:
    """Say what a cluster has that attach mode needs or meets, and what will not work there. Changes nothing.

    Exit code: 0 all works, 1 something fails, 2 cannot run.
    """
    from moorage.tools.attach.check import Outcome
    from moorage.tools.attach.check import check as facts_of

    facts = _ask(kubeconfig, lambda client: facts_of(client, scheduler_name))
    click.echo("\n".join(map(str, facts)))
    sys.exit(FINDINGS if any(fact.outcome is Outcome.FAILS for fact in facts) else 0)


@attach.command()
@kubeconfig_options
@_scheduler_name
def status(kubeconfig: ChosenContext, scheduler_name: str) -> None:
    """Say who places and evicts, and how many pods are under rules."""
    from moorage.tools.attach.covers import leaders, ruled_pods, states

    async def ask(client: Client) -> list[str]:
        pods = await ruled_pods(client)
        lines = [f"{name}: {holder or 'held by nobody'}" for name, holder in (await leaders(client)).items()]
        lines.append(f"pods under rules: {len(pods)}")
        return [*lines, *(f"  {count} {state}" for state, count in sorted(states(pods, scheduler_name).items()))]

    click.echo("\n".join(_ask(kubeconfig, ask)))


@attach.command()
@kubeconfig_options
@click.option("--expire-cover", "seconds", type=click.IntRange(0), metavar="SECONDS",
              help="Let the native cover of each pod end after so many seconds; by default it stays.")  # fmt: skip
def remove(kubeconfig: ChosenContext, seconds: int | None) -> None:
    """Leave a cluster: list the pods whose native cover stays, or let it expire; pods keep running.

    Stop Moorage first. With --expire-cover, kube-controller-manager evicts by native tolerations after that time.
    """
    from moorage.tools.attach.covers import expire_covers, forget_leases, leaders, ruled_pods

    async def leave(client: Client) -> list[str]:
        if held := [name for name, holder in (await leaders(client)).items() if holder]:
            cannot_run(f"Moorage is still at work: it holds {' and '.join(held)}: stop it first")
        covered = [each for each in await ruled_pods(client) if each.cover]
        if seconds is None:
            lines = [f"{each.name}: keeps {len(each.cover)} native tolerations of its cover" for each in covered]
        else:
            expired = [each async for each in expire_covers(client, covered, seconds)]
            lines = [f"{each.name}: its cover ends after {seconds} s" for each in expired]
        await forget_leases(client)
        return lines or ["no pod has a cover"]

    click.echo("\n".join(_ask(kubeconfig, leave)))


@attach.command()
@log_options("webhook")
@kubeconfig_options
@_scheduler_name
@click.option("--cover-native/--no-cover-native", "covers_native", default=True, show_default=True,
              help="Cover native Gt and Lt too; not needed when every component has their gate on.")  # fmt: skip
@click.option("--templates", is_flag=True, help="Move rules into annotations in pod templates too, not only in pods.")
@click.option("--namespace", default="moorage-system", show_default=True,
              help="Where its Secret and its Service are.")  # fmt: skip
@click.option("--bind", default="127.0.0.1", show_default=True, help="The address to listen on: 0.0.0.0 in a pod.")
@click.option("--port", type=click.IntRange(0, 65535), default=9443, show_default=True, help="0 picks a free one.")
def webhook(kubeconfig: ChosenContext, namespace: str, bind: str, port: int, **told: Any) -> None:
    """Serve the admission webhook: validate rules, and give pods with rules their scheduler and their cover.

    It keeps its certificate in the Secret moorage-webhook-tls, renews it, and writes whom to trust into the webhook
    configurations named moorage; several may run at the same time.
    """
    from moorage.tools.attach.webhook.rewriting import WebhookSettings
    from moorage.tools.attach.webhook.server import serve_webhook

    def started(at: int) -> None:
        click.echo(f"Moorage's webhook answers at https://{bind}:{at}. Ctrl-C stops it.")

    async def work(client: Client) -> None:
        serving = serve_webhook(client, WebhookSettings(**told), namespace, bind, port, started)
        await _until_stopped(serving)

    _ask(kubeconfig, work)


@attach.command()
@click.option("--namespace", default="moorage-system", show_default=True, help="Where everything is installed.")
@click.option("--image", metavar="REFERENCE",
              help="The image, best pinned by digest: registry.example.com/moorage@sha256:…")  # fmt: skip
@click.option("--webhook/--no-webhook", default=True, show_default=True, help="Install the admission webhook.")
@click.option("--templates", is_flag=True, help="Let the webhook move rules into annotations in pod templates too.")
@click.option("--monitoring", is_flag=True, help="Add a PodMonitor for the Prometheus operator.")
def manifests(**told: Any) -> None:
    """Print everything that attach mode needs in a cluster.

    \b
    Examples:
      moorage attach manifests --image registry.example.com/moorage:1.0 | kubectl apply -f -
    """
    from moorage.api.yamlwriting import write
    from moorage.tools.attach.manifests import Installation, all_objects

    told = {name: value for name, value in told.items() if value is not None}
    click.echo(write(all_objects(Installation(**told))), nl=False)


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Do something until a signal ends it."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


def _ask(kubeconfig: ChosenContext, work: Callable[[Client], Awaitable[T]]) -> T:
    """Do something with a client of the cluster that a kubeconfig names; ends the command when that fails."""
    import uvloop

    from moorage.client import ApiError, Client
    from moorage.client.https import HTTPSTransport
    from moorage.client.kubeconfig import KubeconfigError
    from moorage.client.leases import LeadershipLost

    async def asking() -> T:
        client = Client(HTTPSTransport(kubeconfig.load(), "moorage-attach"))
        try:
            return await work(client)
        finally:
            await client.close()

    try:
        return uvloop.run(asking())
    except (ApiError, KubeconfigError, LeadershipLost, OSError) as error:
        cannot_run(str(error))
