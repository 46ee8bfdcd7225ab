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
from moorage.cli.terminal import say_line

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from moorage.client import Client

T = TypeVar("T")
_OUTCOME, _INDENT = 6, 4
"""How far lines are indented that go on: behind the outcome of a fact, and others."""
_scheduler_name = click.option("--scheduler-name", default="moorage", show_default=True,
                               help="The schedulerName of the pods that Moorage places.")  # fmt: skip

_namespace = click.option("--namespace", default="moorage-system", show_default=True,
                          help="Where everything is installed.")  # fmt: skip


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
        gates_option("--feature-gates", "gates", "Gates to turn off",
                     "All are on by default: who writes a rule means it.",
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

    \b
    Examples:
      moorage attach run --context staging
      moorage attach run --rule-namespaces team=platform --metrics-port 9090
    """
    from moorage.tools.attach.run import AttachSettings, run_attached

    settings = AttachSettings(**told)

    def say(text: str) -> None:
        click.echo(f"Moorage's {text}. Ctrl-C stops it.")

    async def work(client: Client) -> None:
        async with _watched(metrics_port, bind) as metrics:
            await _until_stopped(run_attached(client, settings, leads=leader_elect, metrics=metrics, say=say))

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

    \b
    Example:
      moorage attach check --context staging
    """
    from moorage.tools.attach.check import Outcome
    from moorage.tools.attach.check import check as facts_of

    facts = _ask(kubeconfig, lambda client: facts_of(client, scheduler_name))
    for fact in facts:
        say_line(str(fact), _OUTCOME)
    sys.exit(FINDINGS if any(fact.outcome is Outcome.FAILS for fact in facts) else 0)


@attach.command()
@kubeconfig_options
@_scheduler_name
@_namespace
def status(kubeconfig: ChosenContext, scheduler_name: str, namespace: str) -> None:
    """Say who places and evicts, whether the webhook answers, which pods are under rules, and the last evictions.

    Whether the webhook answers is tried out with a pod that is not created (dryRun).

    \b
    Example:
      moorage attach status --context staging
    """
    from moorage.tools.attach.standing import standing

    async def ask(client: Client) -> None:
        async for line in standing(client, scheduler_name, namespace):
            say_line(line, _INDENT)

    _ask(kubeconfig, ask)


@attach.command()
@kubeconfig_options
@_scheduler_name
@_namespace
@click.option("--expire-cover", "seconds", type=click.IntRange(0), metavar="SECONDS",
              help="Let the native cover of each pod end after so many seconds; by default it stays.")  # fmt: skip
def remove(kubeconfig: ChosenContext, scheduler_name: str, namespace: str, seconds: int | None) -> None:
    """Leave a cluster: list the pods that have a native cover, then delete all that was installed. Pods keep running.

    Workloads whose templates name our scheduler are listed too: nobody places their next pods.

    With --expire-cover, kube-controller-manager evicts by native tolerations after that time. What runs elsewhere with
    `moorage attach run` is to be stopped before, and what Helm installed is to be uninstalled with it.

    \b
    Examples:
      moorage attach remove --context staging
      moorage attach remove --expire-cover=300
    """
    from moorage.tools.attach.removal import Removal, RemovalError

    async def leave(client: Client) -> None:
        is_known = False
        try:
            async for line in Removal(client, namespace, scheduler_name=scheduler_name).lines(seconds):
                say_line(line, _INDENT)
                is_known = True
        except RemovalError as error:
            cannot_run(str(error))
        if not is_known:
            click.echo(f"nothing of Moorage is installed in {namespace}, and no pod has a cover")

    _ask(kubeconfig, leave)


@attach.command()
@log_options("webhook")
@kubeconfig_options
@_scheduler_name
@click.option("--cover-native/--no-cover-native", "covers_native", default=True, show_default=True,
              help="Cover native Gt and Lt too; not needed when every component has their gate on.")  # fmt: skip
@rule_namespaces
@click.option("--templates", is_flag=True, help="Move rules into annotations in pod templates too, not only in pods.")
@_namespace
@click.option("--bind", default="127.0.0.1", show_default=True, help="The address to listen on: 0.0.0.0 in a pod.")
@click.option("--port", type=click.IntRange(0, 65535), default=9443, show_default=True, help="0 picks a free one.")
def webhook(kubeconfig: ChosenContext, namespace: str, bind: str, port: int, rule_namespaces: str, **told: Any) -> None:
    """Serve the admission webhook: validate rules, and give pods with rules their scheduler and their cover.

    It keeps its certificate in the Secret moorage-webhook-tls, renews it, and writes whom to trust into the webhook
    configurations named moorage; several may run at the same time.

    \b
    Example:
      moorage attach webhook --bind 0.0.0.0 --templates
    """
    from moorage.api.labels import parse
    from moorage.tools.attach.webhook.rewriting import WebhookSettings
    from moorage.tools.attach.webhook.server import serve_webhook

    settings = WebhookSettings(rule_namespaces=parse(rule_namespaces) if rule_namespaces else None, **told)

    def started(at: int) -> None:
        click.echo(f"Moorage's webhook answers at https://{bind}:{at}. Ctrl-C stops it.")

    async def work(client: Client) -> None:
        serving = serve_webhook(client, settings, namespace, bind, port, started)
        await _until_stopped(serving)

    _ask(kubeconfig, work)


@attach.command()
@_namespace
@click.option("--image", metavar="REFERENCE",
              help="The image, best pinned by digest: registry.example.com/moorage@sha256:…")  # fmt: skip
@rule_namespaces
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

    installation = Installation(**{name: value for name, value in told.items() if value is not None})
    if told["image"] is None:
        click.echo(f"note: the image is {installation.image}: name the one in your registry with --image", err=True)
    click.echo(write(all_objects(installation)), nl=False)


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
    from moorage.client.rights import RightsMissing

    async def asking() -> T:
        client = Client(HTTPSTransport(kubeconfig.load(), "moorage-attach"))
        try:
            return await work(client)
        finally:
            await client.close()

    try:
        return uvloop.run(asking())
    except BrokenPipeError:  # whoever reads has seen enough
        raise
    except (ApiError, KubeconfigError, LeadershipLost, RightsMissing, OSError) as error:
        cannot_run(str(error))
