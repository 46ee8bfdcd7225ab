"""What the commands share: the gates option, reading manifests, and how a command fails."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from moorage import features
from moorage.api import labels, manifests
from moorage.cli.terminal import say
from moorage.tools.cluster import Cluster, read_cluster

if TYPE_CHECKING:
    from moorage.client.kubeconfig import Kubeconfig

FINDINGS, CANNOT_RUN, INTERRUPTED = 1, 2, 130
_GZIP = b"\x1f\x8b"
_SENTENCE = 1000
"""More characters than the first sentence of a help page has."""


class Commands(click.Group):
    """A group whose help says what each command does, and in which a wrong argument is answered with one sentence."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments of the group."""
        with _one_sentence():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse the arguments of a command and run it."""
        with _one_sentence():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, each with its first sentence, whole."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(_SENTENCE)) for name, each in commands if each])


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.echo("moorage: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except click.UsageError as error:
        if error.ctx is None or type(error).show is not click.UsageError.show:
            raise  # a group without a command shows its help
        message = " ".join(error.format_message().split()).rstrip(".")
        cannot_run(f"{message} (see '{error.ctx.command_path} --help')")


def parse_gates(text: str) -> features.Gates:
    """Parse gates, or end the command with a sentence that names the known ones."""
    try:
        return features.parse(text)
    except features.GateError as error:
        raise click.BadParameter(str(error)) from None


def gates_option(
    flag: str, name: str, what: str, unless: str = "All are off by default, as in Kubernetes.", **more: Any
) -> Callable[[Any], Any]:
    """An option for feature gates, passed on as text unless a callback parses it; `unless` says what else holds."""
    known = ", ".join((*(gate.value for gate in features.Gate), *features.GROUPS))
    text = f"{what}, as A=true,B=false: {known}. {unless}"
    parse: Callable[..., Any] = more.pop("callback", lambda _, __, given: given)

    def together(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> Any:
        # As for the components of Kubernetes: given again, the option adds to what was given before.
        return parse(context, option, ",".join(texts))

    return click.option(flag, name, multiple=True, metavar="GATES", help=text, callback=together, **more)


def own_gates_option(flag: str, name: str, whose: str, instead_of: str = "--feature-gates") -> Callable[[Any], Any]:
    """An option for the feature gates of one component, in place of those of another option."""
    return click.option(flag, name, default="", metavar="GATES", help=f"Gates of {whose}, in place of {instead_of}.")


kubelet_gates = own_gates_option(
    "--kubelet-feature-gates", "kubelet_gates", "hollow kubelets", "those of the controllers"
)
feature_gates = gates_option(
    "--feature-gates", "gates", "Gates to turn on", callback=lambda _, __, text: parse_gates(text)
)


@dataclass(frozen=True, slots=True)
class ChosenContext:
    """A running cluster as the options `--kubeconfig` and `--context` name it."""

    file: Path | None = None
    context: str = ""

    @property
    def is_named(self) -> bool:
        """Whether one was named, and not only the default is meant."""
        return bool(self.file or self.context)

    def load(self) -> Kubeconfig:
        """The way to the cluster; ends the command when there is none."""
        from moorage.client.kubeconfig import KubeconfigError, load

        try:
            return load(self.file, self.context)
        except KubeconfigError as error:
            cannot_run(str(error))


def kubeconfig_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a running cluster, as kubectl has them; it is called with `kubeconfig`."""

    @wraps(command)
    def choosing(kubeconfig: Path | None, context: str, **rest: Any) -> Any:
        return command(kubeconfig=ChosenContext(kubeconfig, context), **rest)

    named = click.option("--context", default="", metavar="NAME", help="Another context than the current one.")(
        choosing
    )
    return click.option(
        "--kubeconfig", type=click.Path(dir_okay=False, path_type=Path),
        help="How to reach the API server, and as whom. By default as kubectl: the files of KUBECONFIG, "
             "~/.kube/config, or a pod's service account.",
    )(named)  # fmt: skip


def _selector(_: object, __: object, text: str) -> str:
    try:
        labels.parse(text)
    except labels.SelectorError as error:
        raise click.BadParameter(str(error)) from None
    return text


rule_namespaces = click.option(
    "--rule-namespaces", default="", metavar="SELECTOR", callback=_selector,
    help="Only pods in namespaces with these labels may have rules in annotations: team=a. By default all.",
)  # fmt: skip


def cannot_run(message: str) -> NoReturn:
    """End the command with one sentence and exit code 2."""
    say(f"moorage: {message}", err=True)
    sys.exit(CANNOT_RUN)


def read(paths: tuple[str, ...]) -> Cluster:
    """The objects of some manifests and snapshots; ends the command when a file cannot be read at all."""
    cluster = Cluster()
    for zipped, group in groupby(paths, _is_gzip):
        if zipped:
            for path in group:
                cluster.add(_snapshot(path))
            continue
        try:
            cluster.add(read_cluster(manifests.read(group)))
        except manifests.ManifestError as error:
            cannot_run(str(error))
    return cluster


def _snapshot(path: str) -> Cluster:
    from moorage.tools.snapshot import SnapshotError, load_snapshot

    try:
        if path == "-":
            return load_snapshot(sys.stdin.buffer, manifests.STDIN)
        with Path(path).open("rb") as stream:
            return load_snapshot(stream, path)
    except SnapshotError as error:
        cannot_run(str(error))


def _is_gzip(path: str) -> bool:
    """Whether a file is compressed, as snapshots are."""
    try:
        if path == "-":
            peek = getattr(sys.stdin.buffer, "peek", None)
            return peek is not None and peek(2).startswith(_GZIP)
        if not Path(path).is_file():
            return False  # what is read from a named pipe here would be missing later
        with Path(path).open("rb") as stream:
            return stream.read(2) == _GZIP
    except (OSError, ValueError):
        return False  # reading it as a manifest says what is wrong


@contextmanager
def silent() -> Iterator[None]:
    """Keep the components of a cluster in this process from logging to the terminal."""
    logger, nobody = logging.getLogger("moorage"), logging.NullHandler()
    before, logger.propagate = logger.propagate, False
    logger.addHandler(nobody)
    try:
        yield
    finally:
        logger.removeHandler(nobody)
        logger.propagate = before
