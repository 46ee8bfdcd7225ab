"""What the commands have in common: the gates option, reading manifests, and how a command fails."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from moorage import features
from moorage.api import manifests
from moorage.tools.cluster import Cluster, read_cluster

FINDINGS, CANNOT_RUN = 1, 2


def _parse_gates(_: click.Context, __: click.Parameter, text: str) -> features.Gates:
    try:
        return features.parse(text)
    except features.GateError as error:
        raise click.BadParameter(str(error)) from None


feature_gates = click.option(
    "--feature-gates",
    "gates",
    callback=_parse_gates,
    default="",
    metavar="GATES",
    help=f"Gates to turn on, as A=true,B=false: {', '.join(gate.value for gate in features.Gate)}, "
    f"or {features.ALL_ALPHA}. All are off by default, as in Kubernetes.",
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
