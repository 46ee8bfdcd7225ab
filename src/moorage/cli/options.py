"""What the commands have in common: the gates option, reading manifests, and how a command fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from moorage import features
from moorage.api import manifests
from moorage.tools.cluster import Cluster, read_cluster

FINDINGS, CANNOT_RUN = 1, 2


def parse_gates(text: str) -> features.Gates:
    """Read gates, or end the command with the known ones."""
    try:
        return features.parse(text)
    except features.GateError as error:
        raise click.BadParameter(str(error)) from None


def gates_option(flag: str, name: str, what: str, **more: Any) -> Callable[[Any], Any]:
    """An option for feature gates, as text unless it is told otherwise: an empty one says nothing."""
    known = ", ".join(gate.value for gate in features.Gate)
    text = f"{what}, as A=true,B=false: {known}, or {features.ALL_ALPHA}. All are off by default, as in Kubernetes."
    return click.option(flag, name, default="", metavar="GATES", help=text, **more)


feature_gates = gates_option(
    "--feature-gates", "gates", "Gates to turn on", callback=lambda _, __, text: parse_gates(text)
)


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
