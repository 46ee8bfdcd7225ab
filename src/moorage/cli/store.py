"""`moorage store`: check, copy and restore what a server keeps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from moorage.cli.options import FINDINGS, Commands, cannot_run

_FOLDER = click.Path(file_okay=False, path_type=Path)


def _data_dir(command: Callable[..., Any]) -> Callable[..., Any]:
    option = click.option("--data-dir", "directory", type=_FOLDER, metavar="PATH", default=Path(".moorage"),
                          show_default=True, help="The data directory of a server.")  # fmt: skip
    return option(command)


@click.group(cls=Commands)
def store() -> None:
    """Check, copy and restore what a server keeps in its data directory.

    \b
    Examples:
      moorage store check --data-dir /var/lib/moorage
      moorage store backup monday --data-dir /var/lib/moorage
      moorage store restore monday --data-dir /var/lib/moorage-2
    """


@store.command()
@_data_dir
def check(directory: Path) -> None:
    """Read everything that is stored and say whether it is whole, also while the server runs.

    \b
    Example:
      moorage store check --data-dir /var/lib/moorage
    """
    from moorage.apiserver import backups, datadir
    from moorage.apiserver.access import tokens
    from moorage.apiserver.access.tokens import TokenError
    from moorage.store.protocol import Damaged

    with _explained():
        try:
            summary = backups.check(directory)
            file = directory / tokens.FILE
            _ = file.exists() and tokens.load(file)
        except (Damaged, TokenError) as error:
            click.echo(str(error))
            sys.exit(FINDINGS)
        remedy = datadir.exposed(directory)
    click.echo(f"{directory} is whole: {summary.objects} objects, revision {summary.revision}")
    if remedy:
        click.echo(f"permissions are too open: type {remedy}")
        sys.exit(FINDINGS)


@store.command()
@click.argument("copy", type=_FOLDER)
@_data_dir
def backup(copy: Path, directory: Path) -> None:
    """Copy a data directory to COPY, as of one moment, also while the server runs.

    \b
    Example:
      moorage store backup --data-dir /var/lib/moorage /backup/monday
    """
    from moorage.apiserver import backups

    with _explained():
        summary = backups.backup(directory, copy)
    click.echo(f"{directory} is copied to {copy}: {summary.objects} objects, revision {summary.revision}")


@store.command()
@click.argument("copy", type=_FOLDER)
@_data_dir
def restore(copy: Path, directory: Path) -> None:
    """Make a data directory of COPY, in a new or an empty folder.

    \b
    Example:
      moorage store restore --data-dir /var/lib/moorage /backup/monday
    """
    from moorage.apiserver import backups

    with _explained():
        summary = backups.restore(copy, directory)
    click.echo(f"{copy} is restored to {directory}: {summary.objects} objects, revision {summary.revision}")


@contextmanager
def _explained() -> Iterator[None]:
    """End the command with a sentence when it cannot do its work."""
    from moorage.store.protocol import CannotOpen

    try:
        yield
    except CannotOpen as error:
        cannot_run(str(error))
    except OSError as error:
        cannot_run(f"{error.filename2 or error.filename}: {error.strerror}")
