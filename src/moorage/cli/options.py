"""What the commands share: the gates option, reading manifests, and how a command fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from moorage import features
from moorage.api import labels, manifests
from moorage.tools.cluster import Cluster, read_cluster

FINDINGS, CANNOT_RUN = 1, 2


class Commands(click.Group):
    """A group of commands in which a wrong option or argument is answered with one sentence."""

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


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
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


def gates_option(flag: str, name: str, what: str, **more: Any) -> Callable[[Any], Any]:
    """An option for feature gates, passed on as text unless a callback parses it."""
    known = ", ".join((*(gate.value for gate in features.Gate), *features.GROUPS))
    text = f"{what}, as A=true,B=false: {known}. All are off by default, as in Kubernetes."
    return click.option(flag, name, default="", metavar="GATES", help=text, **more)


feature_gates = gates_option(
    "--feature-gates", "gates", "Gates to turn on", callback=lambda _, __, text: parse_gates(text)
)


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
    click.echo(f"moorage: {message}", err=True)
    sys.exit(CANNOT_RUN)


def read(paths: tuple[str, ...]) -> Cluster:
    """The objects of some files; ends the command when a file cannot be read at all."""
    try:
        return read_cluster(manifests.read(paths))
    except manifests.ManifestError as error:
        cannot_run(str(error))


def wants_colour() -> bool | None:
    """Colour on a terminal, unless NO_COLOR is set; None leaves it to the terminal."""
    return False if os.environ.get("NO_COLOR") else None
