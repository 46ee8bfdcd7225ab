"""`moorage snapshot`: what placement depends on in a running cluster, in a file."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from moorage.cli.options import ChosenContext, cannot_run, kubeconfig_options
from moorage.cli.sources import reading

if TYPE_CHECKING:
    from moorage.tools.live import LiveReader


@click.command()
@click.option("-o", "--output", required=True, metavar="FILE", help="The file to write, or - for standard output.")
@kubeconfig_options
def snapshot(output: str, kubeconfig: ChosenContext) -> None:
    """Write what placement depends on in a running cluster to a file, for `why`, `simulate` and the others with -f.

    Nodes, pods, workloads, volumes, claims, devices, budgets, quotas and classes are read, and of them only the fields
    that placement depends on: no environment, no arguments, no configuration, no secrets.
    Exit code: 0 written (what may not be read is named), 2 cannot run.

    \b
    Examples:
      moorage snapshot -o cluster.gz
      moorage snapshot --context production -o - | moorage why -f -
    """
    config = kubeconfig.load()

    async def write(reader: LiveReader) -> dict[str, int]:
        from moorage.tools.snapshot import SnapshotWriter

        gates, attached = await reader.placing_gates()
        with _replaced(output) as stream:
            writer = SnapshotWriter(stream, datetime.now(UTC), gates, attached=attached)
            await reader.write(writer)
        for resource, reason in reader.unread.items():
            click.echo(f"note: {resource} are not in it: {reason}", err=True)
        for problem in writer.problems:
            click.echo(f"note: left out: {problem}", err=True)
        if gates is None:
            click.echo("note: the cluster does not say which gates are on: name them with --feature-gates", err=True)
        return writer.counts

    counts = reading(config, write)
    if output != "-":
        nodes, pods, objects = counts["nodes"], counts["pods"], sum(counts.values())
        click.echo(f"{output}: nodes {nodes:,}, pods {pods:,}, objects in all {objects:,}")


@contextmanager
def _replaced(output: str) -> Iterator[BinaryIO]:
    """A stream whose content becomes the file once it is whole; readable by its owner only."""
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as stream:
            try:
                yield cast(BinaryIO, stream)
                stream.flush()
                Path(stream.name).replace(path)
            except BaseException:
                Path(stream.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        cannot_run(f"{output}: {error.strerror or error}")
