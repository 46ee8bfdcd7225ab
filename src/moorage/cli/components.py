"""`moorage scheduler` and `moorage controllers`: one component, beside any Kubernetes API server."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from moorage.cli.logs import log_options
from moorage.cli.options import (
    ChosenContext,
    cannot_run,
    gates_option,
    kubeconfig_options,
    kubelet_gates,
    parse_gates,
    rule_namespaces,
)
from moorage.features import Gates
from moorage.logs import Log

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from moorage.client import Client, Informer, Informers
    from moorage.client.kubeconfig import Kubeconfig
    from moorage.client.leases import LeaseTerms
    from moorage.client.rights import Right
    from moorage.scheduler.config import Configuration

_LOG = Log(__name__)
_FILE = click.Path(dir_okay=False, path_type=Path)
_RETRY_SECONDS = 2.0
_Answer = TypeVar("_Answer")


class Prepared(NamedTuple):
    """A component before it begins."""

    registry: CollectorRegistry
    informers: Informers
    run: Callable[[], Awaitable[None]]
    rights: Sequence[Right]
    """What it must be allowed to do beside following its informers."""


class Component(NamedTuple):
    """What is to be run, and how."""

    name: str
    lease: str
    """The lease of the component of Kubernetes that does the same."""
    prepare: Callable[[Client, str], Prepared]
    """Makes it, given why that other component is to be expected; empty when it is not."""
    gates: Gates
    terms: LeaseTerms | None
    """The lease that must be held."""


class GivenGates(NamedTuple):
    """The gates that were asked for: as a component of this control plane, and beside another one."""

    here: Gates
    attached: Gates
    """All that were not turned off: who writes a rule in an annotation means it."""

    def beside(self, other: str) -> Gates:
        """The gates that count when another component is to be expected, or not."""
        return self.attached if other else self.here


def _two_ways(_: click.Context, __: click.Parameter, text: str) -> GivenGates:
    return GivenGates(parse_gates(text), parse_gates(f"AllAlpha=true,{text}"))


def _duration(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    from moorage.gotext import seconds

    parsed = None if text is None else seconds(text)
    if text is not None and parsed is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 15s")
    return parsed


def _component_options(lease: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed((
            kubeconfig_options,
            gates_option("--feature-gates", "gates", "Gates to turn on, or beside another control plane to turn off",
                         "All are off by default, as in Kubernetes, and beside another control plane on.",
                         callback=_two_ways),
            click.option("--leader-elect/--no-leader-elect", default=True, show_default=True,
                         help="Work only while holding a lease, so that one of several does."),
            click.option("--leader-elect-resource-name", "name", metavar="NAME",
                         help=f"The name of the lease. By default {lease}."),
            click.option("--leader-elect-resource-namespace", "namespace", metavar="NAMESPACE",
                         help="The namespace of the lease. By default kube-system."),
            click.option("--leader-elect-lease-duration", "lease_duration", metavar="DURATION", callback=_duration,
                         help="How long others wait for a renewal before they take over. By default 15s."),
            click.option("--leader-elect-renew-deadline", "renew_deadline", metavar="DURATION", callback=_duration,
                         help="How long a leader works without a renewal. By default 10s."),
            click.option("--leader-elect-retry-period", "retry_period", metavar="DURATION", callback=_duration,
                         help="How often the lease is renewed, or asked for. By default 2s."),
            click.option("--metrics-port", type=click.IntRange(1, 65535),
                         help="Serve Prometheus metrics on this port of the loopback address."),
        )):  # fmt: skip
            command = option(command)
        return command

    return decorated


_LEASE_OPTIONS = ("name", "namespace", "lease_duration", "renew_deadline", "retry_period")


def _terms(options: dict[str, Any], default: LeaseTerms) -> LeaseTerms:
    """The lease that the options name, which are taken out; ends the command when its times do not go together."""
    given = {name: options.pop(name) for name in _LEASE_OPTIONS}
    terms = replace(default, **{name: value for name, value in given.items() if value is not None})
    if problem := terms.problem():
        cannot_run(f"the lease cannot be kept: {problem}")
    return terms


@click.command()
@log_options("scheduler")
@_component_options("moorage-scheduler")
@click.option("--config", type=_FILE, help="A KubeSchedulerConfiguration: profiles, plugins, weights, the lease.")
@rule_namespaces
@click.option("--cover-native", "covers_native", is_flag=True,
              help="Cover native Gt and Lt too: others may have their gate off. Rules are always covered.")  # fmt: skip
def scheduler(
    config: Path | None,
    gates: GivenGates,
    leader_elect: bool,
    rule_namespaces: str,
    covers_native: bool,
    **options: Any,
) -> None:
    """Place pods: the scheduler alone, beside any Kubernetes API server.

    Without a configuration it places pods whose schedulerName is default-scheduler, and beside another control plane
    those whose schedulerName is moorage.

    \b
    Examples:
      moorage scheduler --kubeconfig ~/.kube/config --feature-gates AllAlpha=true
      moorage scheduler --kubeconfig admin.conf --config scheduler.yaml --metrics-port 10259
    """
    from moorage.scheduler.config import Configuration, ConfigurationError

    try:
        written = Configuration.read(config) if config else Configuration()
        configuration = written.attached(rule_namespaces, covers_native=covers_native)
    except ConfigurationError as error:
        cannot_run(str(error))
    terms = _terms(options, configuration.lease)
    lease = terms if leader_elect and configuration.leader_elect else None
    prepare = partial(_scheduler, gates, configuration, bool(config))
    try:
        _serve(Component("scheduler", "kube-scheduler", prepare, gates.here, lease), **options)
    except ConfigurationError as error:
        cannot_run(f"{config}: {error}")


def _scheduler(
    gates: GivenGates, configuration: Configuration, is_chosen: bool, client: Client, other: str
) -> Prepared:
    import msgspec

    from moorage.scheduler.profile import ATTACHED_NAME, DEFAULT_NAME
    from moorage.scheduler.scheduler import BINDING_RIGHTS, Scheduler

    if other and not is_chosen:
        named = tuple(msgspec.structs.replace(each, scheduler_name=ATTACHED_NAME) for each in configuration.specs)
        configuration = replace(configuration, specs=named)
    names = [spec.scheduler_name for spec in configuration.specs]
    if other and DEFAULT_NAME in names:
        _LOG.warning("Two schedulers may place the same pods", schedulerName=DEFAULT_NAME, because=other)
    _LOG.info("Placing pods", schedulerNames=names, because=other or None)
    component = Scheduler(client, gates.beside(other), configuration)
    return Prepared(component.metrics.registry, component.handle.informers, component.run, BINDING_RIGHTS)


def _controller_names(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> frozenset[str] | None:
    from moorage.controllers.run import UnknownController, selected

    try:
        return selected([name for name in ",".join(texts).split(",") if name]) if texts else None
    except UnknownController as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@log_options("controllers")
@_component_options("moorage-controllers")
@kubelet_gates
@click.option(
    "--controllers",
    "names",
    multiple=True,
    metavar="NAME,…",
    callback=_controller_names,
    help="Which controllers run, as kube-controller-manager takes it: * for all, foo, -foo for all but foo. "
    "By default all, and beside another control plane taint-eviction,device-taint-eviction.",
)
@rule_namespaces
@click.option("--hollow-nodes", is_flag=True, help="Play the kubelet of every node that has no real one.")
@click.option("--root-ca-file", type=_FILE,
              help="The certificate by which pods know the API server, given to each namespace as kube-root-ca.crt. "
                   "By default that of the kubeconfig.")  # fmt: skip
def controllers(
    names: frozenset[str] | None,
    rule_namespaces: str,
    hollow_nodes: bool,
    kubelet_gates: str,
    root_ca_file: Path | None,
    gates: GivenGates,
    leader_elect: bool,
    kubeconfig: ChosenContext,
    **options: Any,
) -> None:
    """Evict, replace, collect: the controllers alone, beside any Kubernetes API server.

    \b
    Examples:
      moorage controllers --kubeconfig ~/.kube/config --feature-gates AllAlpha=true
      moorage controllers --kubeconfig .moorage/kubeconfig --hollow-nodes
      moorage controllers --kubeconfig .moorage/kubeconfig --controllers '*,-job,-cronjob'
    """
    from moorage.client.leases import CONTROLLERS_LEASE, LeaseTerms

    terms = _terms(options, LeaseTerms(CONTROLLERS_LEASE))
    certificate = _root_certificate(root_ca_file, kubeconfig)
    kubelets = (parse_gates(kubelet_gates) if kubelet_gates else gates.here) if hollow_nodes else None
    prepare = partial(_controllers, gates, names, rule_namespaces, certificate, kubelets)
    component = Component(
        "controllers", "kube-controller-manager", prepare, gates.here, terms if leader_elect else None
    )  # fmt: skip
    _serve(component, kubeconfig=kubeconfig, **options)


def _controllers(
    gates: GivenGates,
    chosen: frozenset[str] | None,
    rule_namespaces: str,
    certificate: str,
    hollow: Gates | None,
    client: Client,
    other: str,
) -> Prepared:
    """Makes controllers; with gates for them, hollow kubelets too."""
    from moorage.api.labels import parse
    from moorage.controllers.cluster.serviceaccounts import root_ca
    from moorage.controllers.hollow import HollowNodes
    from moorage.controllers.run import BY_NAME, EVICTION, EVICTION_RIGHTS, ROOT_CA, prepare

    makes = {**BY_NAME, **({ROOT_CA: (root_ca(certificate),)} if certificate else {})}
    on = chosen if chosen is not None else frozenset(EVICTION if other else makes)
    running, left = [name for name in makes if name in on], [name for name in makes if name not in on]
    _LOG.info("Controllers", running=running, notRunning=left, because=other if chosen is None and other else None)
    constructors = [make for name in running for make in makes[name]]
    if hollow is not None:
        constructors.append(partial(HollowNodes, gates=hollow))
    component = prepare(
        client,
        gates.beside(other),
        constructors,
        kubelet_gates=hollow,
        # Who names controllers says that no other manager runs them: then all pods are theirs.
        attached=bool(other) and chosen is None,
        rule_namespaces=parse(rule_namespaces) if rule_namespaces else None,
    )
    rights = EVICTION_RIGHTS if on & {*EVICTION} else ()
    return Prepared(component.context.registry, component.context.informers, component.run, rights)


def _root_certificate(file: Path | None, kubeconfig: ChosenContext) -> str:
    """The certificate that pods are to trust; empty when the kubeconfig names none: the system's authorities apply."""
    import ssl

    if file is None:
        return kubeconfig.load().trusted
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
        return file.read_text("ascii")
    except (ssl.SSLError, UnicodeError):
        cannot_run(f"{file}: holds no certificate in PEM form")
    except OSError as error:
        cannot_run(f"{file}: {error.strerror or error}")


def _serve(component: Component, kubeconfig: ChosenContext, metrics_port: int | None) -> None:
    import uvloop

    from moorage.client import ApiError
    from moorage.client.kubeconfig import KubeconfigError
    from moorage.client.leases import LeadershipLost
    from moorage.client.rights import RightsMissing
    from moorage.garbage import collect_seldom
    from moorage.match.expressions import load_engine

    config = kubeconfig.load()
    load_engine()
    collect_seldom()
    try:
        uvloop.run(_run(component, config, metrics_port))
    except (KubeconfigError, LeadershipLost, RightsMissing, ApiError) as error:
        cannot_run(str(error))


async def _run(component: Component, config: Kubeconfig, port: int | None) -> None:
    """Run a component until a signal comes."""
    from moorage.client import Client
    from moorage.client.https import HTTPSTransport

    client = Client(HTTPSTransport(config, f"moorage-{component.name}"))
    running = asyncio.ensure_future(_work(component, client, config.url, port))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await running
    finally:
        await client.close()


async def _work(component: Component, client: Client, url: str, port: int | None) -> None:
    from moorage.client.clock import Clock
    from moorage.client.leases import identity, lead
    from moorage.client.neighbours import other_control_plane
    from moorage.client.rights import check_rights, to_follow

    metrics = _exposed(port)
    other = await _answered(lambda: other_control_plane(client, component.lease))
    prepared = component.prepare(client, other)
    metrics.register(prepared.registry)
    rights = (*to_follow(prepared.informers), *prepared.rights)
    await _answered(lambda: check_rights(client, rights))
    working = partial(_begin, component, prepared, client, url)
    if component.terms is None:
        return await working()

    def waiting(holder: str) -> None:
        click.echo(f"Moorage's {component.name}: waiting for the lease held by {holder}. Ctrl-C stops it.")

    return await lead(client, component.terms, identity(), Clock(), working, waiting)


def _exposed(port: int | None) -> CollectorRegistry:
    """The metrics that are served, beginning with those of the process."""
    from prometheus_client import CollectorRegistry, start_http_server

    from moorage.componentmetrics import expose_process

    registry = CollectorRegistry()
    expose_process(registry)
    if port:
        try:
            start_http_server(port, "127.0.0.1", registry)
        except OSError as error:
            cannot_run(f"port {port}: {error.strerror}: choose another one with --metrics-port")
    return registry


async def _answered(ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """Ask until the API server is there to answer."""
    from moorage.client import TooManyRequests, Unavailable

    while True:
        try:
            return await ask()
        except (TooManyRequests, Unavailable) as error:
            _LOG.warning("API server not reached", err=error)
            await asyncio.sleep(max(_RETRY_SECONDS, error.retry_after))


async def _begin(component: Component, prepared: Prepared, client: Client, url: str) -> None:
    from moorage.tools.gatechanges import log_changes_since_leader

    if component.terms is not None:
        await log_changes_since_leader(component.terms.key, component.name, component.gates, client)
    saying = asyncio.create_task(_say_when_at_work(prepared.informers, f"Moorage's {component.name} at work for {url}"))
    try:
        await prepared.run()
    finally:
        saying.cancel()


async def _say_when_at_work(informers: Iterable[Informer[Any]], sentence: str) -> None:
    for each in informers:
        await each.synced.wait()
    click.echo(f"{sentence}. Ctrl-C stops it.")
