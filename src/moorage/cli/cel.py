"""`moorage cel`: check and try expressions before they go into a manifest."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from moorage.api.decode import DecodeError, convert
from moorage.api.node import Node, Taint
from moorage.cli.options import FINDINGS, Commands, cannot_run, read
from moorage.cli.terminal import wants_colour
from moorage.match.expressions import MAX_BYTES, MAX_COST, NodeExpression, TaintExpression
from moorage.match.verdict import Verdict

_TAINT_FIELDS = ("key", "value", "effect", "timeAdded")

_env = click.option(
    "--env", "env", type=click.Choice(["taint", "node"]), required=True,
    help="taint: the `expression` of a toleration; node: one of a term's `matchCELExpressions`.",
)  # fmt: skip


@click.group(cls=Commands)
def cel() -> None:
    """Check and try CEL expressions of tolerations and node selectors.

    \b
    Examples:
      moorage cel check --env node "node.labels['rack'].startsWith('us-west-2')"
      moorage cel eval --env taint "int(taint.value) > 950" --set key=sla --set value=980
    """


@cel.command()
@click.argument("expression")
@_env
def check(expression: str, env: str) -> None:
    """Say whether an expression is admitted: its errors, its type, its cost and the labels that it reads.

    Exit code: 0 admitted, 1 refused.

    \b
    Examples:
      moorage cel check --env taint "taint.key.startsWith('node.example/')"
      moorage cel check --env node "'storage-optimized' in node.labels"
    """
    compiled = _compiled(expression, env)
    click.echo(f"type   {compiled.type}")
    click.echo(f"cost   {compiled.cost} of {MAX_COST} ({compiled.cost / MAX_COST:.2%})")
    if isinstance(compiled, NodeExpression):
        keys = compiled.keys
        click.echo(f"reads  {'all labels' if keys is None else ', '.join(sorted(keys)) or 'no label'}")
    if compiled.cost > MAX_COST:
        click.echo("moorage: too complex, exceeds cost limit", err=True)
        sys.exit(FINDINGS)


@cel.command(name="eval")
@click.argument("expression")
@_env
@click.option("-f", "--filename", "paths", multiple=True, metavar="PATH",
              help="Manifests of nodes, whose labels or taints the expression is asked about.")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
              help="A label, or key, value, effect or timeAdded of a taint. May be repeated.")  # fmt: skip
def evaluate(expression: str, env: str, paths: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Evaluate an expression for the nodes of a file, for their taints, or for what --set says.

    Exit code: 0 evaluated, 1 refused or failed for some input, 2 cannot run.

    \b
    Examples:
      moorage cel eval --env node "semver.compare(node.labels['kernel'], '>=5.10')" -f nodes.yaml
      moorage cel eval --env node "'gpu' in node.labels" --set gpu=a100
      moorage cel eval --env taint "int(taint.value) > 950" --set key=sla --set value=980 --set effect=NoSchedule
    """
    if bool(paths) == bool(settings):
        raise click.UsageError("give either manifests of nodes with -f, or an input with --set")
    failed = False
    for name, verdict, why in _verdicts(_compiled(expression, env), paths, settings):
        failed |= bool(verdict.error)
        word, colour = ("error", "yellow") if verdict.error else ("true", "green") if verdict else ("false", "red")
        click.echo(
            f"{click.style(f'{word:<5}', fg=colour)}  {name}" + (f"  {why}" if why else ""), color=wants_colour()
        )
    sys.exit(FINDINGS if failed else 0)


def _compiled(expression: str, env: str) -> TaintExpression | NodeExpression:
    """The compiled expression; ends the command when admission would refuse it."""
    if len(expression.encode("utf-8", "surrogateescape")) > MAX_BYTES:
        click.echo(f"moorage: too long: may not be more than {MAX_BYTES} bytes", err=True)
        sys.exit(FINDINGS)
    compiled = TaintExpression(expression) if env == "taint" else NodeExpression(expression)
    if compiled.problem:
        click.echo(compiled.problem, err=True)
        sys.exit(FINDINGS)
    return compiled


def _verdicts(
    compiled: TaintExpression | NodeExpression, paths: tuple[str, ...], settings: tuple[str, ...]
) -> Iterator[tuple[str, Verdict, str]]:
    values = dict(_setting(setting) for setting in settings)
    nodes = _nodes(paths) if paths else []
    if isinstance(compiled, TaintExpression):
        taints = [(node.metadata.name, taint) for node in nodes for taint in node.spec.taints]
        for name, taint in taints if paths else [("", _taint(values))]:
            verdict = compiled.verdict(taint)
            yield f"{name} {taint}".strip(), verdict, "" if verdict else compiled.why(taint)
        return
    labelled = [(node.metadata.name, node.metadata.labels) for node in nodes]
    for name, labels in labelled if paths else [(", ".join(settings), values)]:
        verdict = compiled.verdict(labels)
        yield name, verdict, "" if verdict else compiled.why(labels)


def _nodes(paths: tuple[str, ...]) -> list[Node]:
    cluster = read(paths)
    if cluster.problems:
        cannot_run("\n".join(map(str, cluster.problems)))
    nodes = [node for _, node in cluster.of(Node)]
    return nodes or cannot_run(f"no nodes in {', '.join(paths)}")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set takes NAME=VALUE, not {text!r}")
    return name, value


def _taint(values: dict[str, str]) -> Taint:
    if unknown := sorted(set(values).difference(_TAINT_FIELDS)):
        raise click.UsageError(f"a taint has no {unknown[0]}: it has {', '.join(_TAINT_FIELDS)}")
    try:
        return convert(values, Taint)
    except DecodeError as error:
        raise click.UsageError(f"--set {error}") from None
