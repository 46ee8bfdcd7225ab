"""`moorage lint`: what admission refuses, and what is probably wrong."""

from __future__ import annotations

import sys

import click

from moorage.cli.formats import FORMATS
from moorage.cli.options import FINDINGS, cannot_run, feature_gates, read
from moorage.cli.terminal import say
from moorage.features import Gates
from moorage.tools.cluster import Cluster
from moorage.tools.lint import RULES
from moorage.tools.lint import lint as find
from moorage.validation.rules import Severity


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH…")
@click.option("--nodes", "node_paths", multiple=True, metavar="FILE",
              help="Manifests of the nodes to judge by, beside those among PATH. May be repeated.")  # fmt: skip
@click.option("--ignore", "ignored", multiple=True, metavar="RULE", help="Leave out a rule. May be repeated.")
@click.option("-o", "--output", type=click.Choice(list(FORMATS)), default="text", show_default=True)
@click.option("--rules", is_flag=True, help="List the rules and stop.")
@feature_gates
def lint(
    paths: tuple[str, ...],
    node_paths: tuple[str, ...],
    ignored: tuple[str, ...],
    output: str,
    rules: bool,
    gates: Gates,
) -> None:
    """Say what admission refuses in manifests, and what is legal and probably wrong.

    An object is exempt from rules by the annotation `lint.moorage.dev/ignore: RULE,RULE`.
    Exit code: 0 nothing found (notes do not count), 1 findings, 2 cannot run.

    \b
    Examples:
      moorage lint manifests/ --feature-gates AllAlpha=true
      kubectl get nodes -o yaml | moorage lint deployment.yaml --nodes -
      moorage lint manifests/ -o sarif > lint.sarif
    """
    if rules:
        click.echo("\n".join(f"{rule.id:<22} {rule.severity.word:<8} {rule.reason}" for rule in RULES.values()))
        return
    if not paths:
        raise click.UsageError("name at least one file or folder of manifests, or - for standard input")
    if unknown := sorted(set(ignored) - set(RULES)):
        raise click.UsageError(f"unknown rule {unknown[0]}: the rules are {', '.join(RULES)}")
    cluster = read(paths)
    if not cluster.items and not cluster.problems:
        cannot_run(f"no objects of known kinds in {', '.join(paths)}")
    nodes = _nodes(cluster, node_paths)
    for note in cluster.notes():
        say(f"note: {note}", err=True)
    findings = [finding for finding in find(cluster, nodes, gates) if finding.rule.id not in ignored]
    say(FORMATS[output](findings, len(cluster.items) + len(cluster.problems)))
    sys.exit(FINDINGS if any(finding.severity < Severity.NOTE for finding in findings) else 0)


def _nodes(cluster: Cluster, paths: tuple[str, ...]) -> Cluster:
    if not paths:
        return cluster
    nodes = read(paths)
    if nodes.problems:
        cannot_run("\n".join(str(problem) for problem in nodes.problems))
    return Cluster(cluster.items + nodes.items)
