"""`moorage convert`: manifests between the native form and rules in annotations."""

from __future__ import annotations

import click

from moorage.api import manifests
from moorage.api.decode import DecodeError
from moorage.api.meta import Data
from moorage.api.rules import RulesError
from moorage.cli.options import cannot_run


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option(
    "--to",
    "form",
    type=click.Choice(["annotations", "native"]),
    default="annotations",
    show_default=True,
    help="annotations: for a stock API server with Moorage attached; native: for one that has the gates.",
)
@click.option("--scheduler-name", default="moorage", show_default=True,
              help="The scheduler for pods with rules that name none.")  # fmt: skip
def convert(paths: tuple[str, ...], form: str, scheduler_name: str) -> None:
    """Convert manifests: rules from their fields into annotations that every API server takes, or back.

    Nothing is lost either way; objects without rules are written as they are. Comments are not kept.

    \b
    Examples:
      moorage convert manifests/ | kubectl apply -f -
      moorage convert --to native attached.yaml > native.yaml
    """
    from moorage.api.yamlwriting import write
    from moorage.tools.convert import all_to_annotations

    try:
        documents = list(manifests.read(paths))
        if form == "native":
            converted = list(map(_native, documents))
        else:
            converted = all_to_annotations((document.data for document in documents), scheduler_name)
    except (manifests.ManifestError, DecodeError, RulesError) as error:
        cannot_run(str(error))
    click.echo(write(converted), nl=False)


def _native(document: manifests.Document) -> Data:
    from moorage.tools.convert import to_native

    try:
        return to_native(document.data)
    except RulesError as error:
        raise manifests.ManifestError(str(error), document.file, line=document.line) from None
