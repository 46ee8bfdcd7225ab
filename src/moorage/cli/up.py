"""`moorage up` and `moorage apiserver`: a control plane on this machine."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from moorage.cli.audit import AUDIT_OPTIONS, audit_settings
from moorage.cli.logs import log_options
from moorage.cli.options import cannot_run, gates_option, kubelet_gates, own_gates_option, parse_gates
from moorage.features import Gates

if TYPE_CHECKING:
    from moorage.apiserver.access.credentials import SharedFiles
    from moorage.apiserver.run import APIServer

_DIRECTORY = Path(".moorage")
_FILE = click.Path(dir_okay=False, path_type=Path)


def _address(_: click.Context, __: click.Parameter, text: str) -> str:
    try:
        if not text or not ipaddress.ip_address(text).is_unspecified:
            return text
    except ValueError:
        pass
    raise click.BadParameter(f"{text!r} is no IP address by which clients can reach a server")


def _plugins(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> frozenset[str]:
    names = frozenset(name for text in texts for name in text.split(",") if name)
    if unknown := sorted(names - _PLUGINS):
        known = ", ".join(sorted(_PLUGINS))
        raise click.BadParameter(f"{unknown[0]} is not a plugin that can be enabled here: those are {known}")
    return names


_PLUGINS = frozenset(("PodTolerationRestriction",))
_SHARED_OPTIONS = (
    click.option("--advertise-address", "advertise", default="", metavar="IP", callback=_address,
                 help="The address by which clients reach this server: in its certificate and in the kubeconfig. "
                      "By default the one it listens on."),
    click.option("--tls-cert-file", type=_FILE,
                 help="The certificate of this server, those of its issuers after it. By default one is made."),
    click.option("--tls-private-key-file", type=_FILE, help="The key of that certificate."),
    click.option("--client-ca-file", type=_FILE,
                 help="The authorities that may issue client certificates. By default the server's own."),
    click.option("--service-account-key-file", "service_account_key_files", type=_FILE, multiple=True,
                 help="Keys, public or private, by which tokens of service accounts are verified; may be repeated."),
    click.option("--service-account-signing-key-file", type=_FILE,
                 help="The private key that signs tokens of service accounts. By default one is made."),
    click.option("--token-auth-file", type=_FILE,
                 help="Users and their bearer tokens, as CSV: token, user name, uid, groups. By default one is made."),
)  # fmt: skip


def _server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((
        click.option("--data-dir", "directory", type=click.Path(file_okay=False, path_type=Path), metavar="PATH",
                     default=_DIRECTORY, show_default=True,
                     help="Where certificates, tokens, the kubeconfig and the database are kept."),
        click.option("--bind", default="127.0.0.1", show_default=True, help="The address to listen on."),
        click.option("--port", type=click.IntRange(0, 65535), default=6443, show_default=True,
                     help="The port to listen on; 0 picks a free one."),
        click.option("--store", default="sqlite", show_default=True, metavar="sqlite|etcd://HOST:PORT,…",
                     help="Where objects are kept: in the data directory, or in etcd."),
        click.option("--etcd-cafile", type=_FILE, help="Whom to trust as etcd; with it etcd is spoken to in TLS."),
        click.option("--etcd-certfile", type=_FILE, help="Who this server is to etcd."),
        click.option("--etcd-keyfile", type=_FILE, help="The key of that certificate."),
        *_SHARED_OPTIONS,
        *AUDIT_OPTIONS,
        click.option("--enable-admission-plugins", "plugins", multiple=True, callback=_plugins, metavar="NAME,…",
                     help="Admission plugins beside those that are always on: PodTolerationRestriction."),
        gates_option("--feature-gates", "gates", "Gates of all components"),
        own_gates_option("--apiserver-feature-gates", "apiserver_gates", "the API server"),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command()
@log_options("moorage")
@_server_options
@own_gates_option("--scheduler-feature-gates", "scheduler_gates", "the scheduler")
@own_gates_option("--controllers-feature-gates", "controllers_gates", "the controllers")
@kubelet_gates
@click.option("--nodes", type=click.IntRange(0, 100_000), default=3, show_default=True,
              help="How many hollow nodes there are: they run pods in name only.")  # fmt: skip
def up(
    gates: str,
    apiserver_gates: str,
    scheduler_gates: str,
    controllers_gates: str,
    kubelet_gates: str,
    nodes: int,
    **server: Any,
) -> None:
    """Start a control plane that kubectl and every Kubernetes client can talk to.

    It stops cleanly on Ctrl-C or SIGTERM; what it acknowledged is there when it starts again.

    \b
    Examples:
      moorage up --feature-gates AllAlpha=true
      moorage up --data-dir /var/lib/moorage --port 0
      moorage up --store etcd://127.0.0.1:2379
    """
    from moorage.controlplane import ControlPlane, Settings
    from moorage.page.child import PageProcess

    kubelets = parse_gates(kubelet_gates or controllers_gates or gates)
    settings = Settings(
        **_settings(server),
        apiserver_gates=parse_gates(apiserver_gates or gates),
        scheduler_gates=parse_gates(scheduler_gates or gates),
        controllers_gates=parse_gates(controllers_gates or gates),
        kubelet_gates=kubelets,
        nodes=nodes,
    )

    by_component = {
        "apiserver": settings.apiserver_gates, "scheduler": settings.scheduler_gates,
        "controllers": settings.controllers_gates, "kubelet": kubelets,
    }  # fmt: skip

    async def start() -> Running:
        plane = await ControlPlane.start(settings, partial(_compare_gates, settings.directory, by_component))
        page = PageProcess(
            settings.directory / "page.json",
            (
                "--kubeconfig",
                str(plane.server.kubeconfig),
                "--feature-gates",
                str(settings.scheduler_gates),
                "--stories",
                "--no-read-only",
            ),
        )

        async def stop() -> None:
            await page.stop()
            await plane.stop()

        return Running(plane.server, stop, page.start())

    _serve(start, by_component)


@click.command()
@log_options("apiserver")
@_server_options
def apiserver(gates: str, apiserver_gates: str, **server: Any) -> None:
    """Start the API server alone.

    \b
    Example:
      moorage apiserver --data-dir /var/lib/moorage --feature-gates WildcardTolerationKeys=true
    """
    from moorage.apiserver import run

    settings = _settings(server)
    settings["address"] = settings.pop("store")
    enabled = parse_gates(apiserver_gates or gates)

    async def start() -> Running:
        api_server = await run.start(gates=enabled, **settings)
        await _compare_gates(settings["directory"], {"apiserver": enabled}, api_server)
        return Running(api_server, api_server.stop)

    _serve(start, {"apiserver": enabled})


async def _compare_gates(directory: Path, gates: Mapping[str, Gates], server: APIServer) -> None:
    from moorage.tools.gatechanges import log_changes

    await log_changes(directory, gates, server.client("moorage"))


class Running(NamedTuple):
    """A server that was started, and what stops it and everything beside it."""

    server: APIServer
    stop: Callable[[], Awaitable[None]]
    page: str = ""
    """The address of the page, if there is one."""


def _settings(server: dict[str, Any]) -> dict[str, Any]:
    files = tuple(server.pop(f"etcd_{name}") for name in ("cafile", "certfile", "keyfile"))
    if any(files) and not server["store"].startswith("etcd://"):
        raise click.UsageError("--etcd-cafile, --etcd-certfile and --etcd-keyfile are for --store etcd://HOST:PORT,…")
    _check_etcd_files(*files)
    shared = _shared_files(*(server.pop(name) for name in _SHARED_FILES))
    audit = audit_settings(*(server.pop(f"audit_{name}") for name in _AUDIT))
    return {**server, "etcd_files": files, "shared": shared, "audit": audit}


_AUDIT = ("log_path", "policy_file", "log_maxsize", "log_maxbackup")
_SHARED_FILES = (
    "tls_cert_file", "tls_private_key_file", "client_ca_file", "service_account_signing_key_file",
    "service_account_key_files", "token_auth_file",
)  # fmt: skip


def _shared_files(
    certificate: Path | None,
    key: Path | None,
    client_authorities: Path | None,
    signing_key: Path | None,
    verifying_keys: tuple[Path, ...],
    tokens: Path | None,
) -> SharedFiles:
    from moorage.apiserver.access.credentials import SharedFiles

    if (certificate is None) != (key is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together")
    if (signing_key is None) != (not verifying_keys):
        raise click.UsageError("--service-account-signing-key-file and --service-account-key-file go together")
    return SharedFiles(certificate, key, client_authorities, signing_key, verifying_keys, tokens)


def _check_etcd_files(authority: Path | None, certificate: Path | None, key: Path | None) -> None:
    """End the command when etcd cannot be spoken to with these files: gRPC's own answer is a crash or a log."""
    for file in (authority, certificate, key):
        try:
            _ = file and file.read_bytes()
        except OSError as error:
            cannot_run(f"{file} cannot be read: {error.strerror}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if authority:
            context.load_verify_locations(authority)
    except ssl.SSLError:
        cannot_run(f"{authority}: holds no certificate in PEM form")
    if (certificate is None) != (key is None):
        raise click.UsageError("--etcd-certfile and --etcd-keyfile go together")
    try:
        if certificate:
            context.load_cert_chain(certificate, key)
    except ssl.SSLError:
        cannot_run(f"{certificate} and {key}: hold no certificate and its key in PEM form")


def _serve(start: Callable[[], Awaitable[Running]], gates: Mapping[str, Gates]) -> None:
    import uvloop

    from moorage.apiserver.run import CannotStart
    from moorage.garbage import collect_seldom
    from moorage.match.expressions import load_engine

    load_engine()
    collect_seldom()
    try:
        uvloop.run(_run(start, gates))
    except CannotStart as error:
        cannot_run(str(error))


async def _run(start: Callable[[], Awaitable[Running]], gates: Mapping[str, Gates]) -> None:
    running = await start()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    click.echo(_welcome(running, gates))
    await stopped.wait()
    click.echo("stopping: finishing what was begun", err=True)
    await running.stop()


def _welcome(running: Running, gates: Mapping[str, Gates]) -> str:
    on = {component: ", ".join(sorted(gate.value for gate in each.on)) or "none" for component, each in gates.items()}
    same = next(iter(on.values()))
    if {*on.values()} != {same}:
        same = "".join(f"\n  {component + ':':12} {names}" for component, names in on.items())
    return (
        f"Moorage serves the Kubernetes API at {running.server.url}\n"
        f"{f'and the page at {running.page}' if running.page else ''}\n"
        f"feature gates on: {same}\n\n"
        f"  export KUBECONFIG={running.server.kubeconfig.resolve()}\n"
        f"  kubectl get namespaces\n"
        f"  kubectl apply -f examples/thresholds-1-spot-nodes\n\n"
        "Ctrl-C stops it."
    )
