"""`moorage why`: which nodes a pod may run on, and why not the others."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from moorage.api.node import Node
from moorage.cli.options import FINDINGS, cannot_run
from moorage.cli.sources import Asked, about_a_cluster
from moorage.cli.terminal import say
from moorage.tools.cluster import ClusterObject

if TYPE_CHECKING:
    from moorage.scheduler.config import Configuration
    from moorage.tools.remedy import Remedy
    from moorage.tools.why import Explainer, Explanation, Fit, Preemption

_SHOWN = 3
_SMALL = 20
"""Up to this number of nodes every refusal is shown; beyond it, refusals of the same kind are merged."""


@click.command()
@click.argument("names", nargs=-1, metavar="[POD | KIND/NAME]...")
@about_a_cluster
@click.option("-n", "--namespace", default="", help="The namespace of the pods; all of them by default.")
@click.option("--pending", "only_pending", is_flag=True, help="Only the pods that wait for a node.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The KubeSchedulerConfiguration whose profiles answer, instead of the default one.",
)
@click.option("-o", "--output", type=click.Choice(["text", "wide", "json", "yaml"]), default="text", show_default=True,
              help="wide names every node and the score of every plugin; json and yaml are for programs.")  # fmt: skip
def why(
    asked: Asked, names: tuple[str, ...], namespace: str, only_pending: bool, config: Path | None, output: str
) -> None:
    """Say for each pod which nodes it may run on, and for each other node what refuses it and why.

    The scheduler answers, each pod alone, on the cluster as the given files describe it or as it runs. Without names,
    all pods and pod templates of the files are asked about; of a running cluster, the pods that wait for a node.
    Exit code: 0 all pods have a node, 1 some pod fits nowhere, is refused by admission or has to leave, 2 cannot run.

    \b
    Examples:
      moorage why -f pods.yaml -f nodes.yaml --feature-gates AllAlpha=true
      kubectl get nodes,pods -A -o yaml | moorage why -f -
      moorage why deploy/web -n shop --kubeconfig ~/.kube/config
      moorage why --pending -f cluster.yaml -o json | jq '.pods[] | select(.fits | not)'
    """
    from moorage.tools.why import Explainer

    cluster = asked.cluster
    if cluster.problems:
        cannot_run("\n".join(str(problem) for problem in cluster.problems))
    items = _items(asked, names, namespace, only_pending=only_pending)
    if not cluster.of(Node):
        cannot_run(f"no nodes in {asked.source}: add them with -f, for example from `kubectl get nodes -o yaml`")
    exact = output != "text" or len(cluster.of(Node)) <= _SMALL
    explainer = Explainer(cluster, asked.gates, configuration(config), items, exact=exact)
    for note in (*asked.assumptions, *cluster.notes(), *explainer.notes):
        say(f"note: {note}", err=True)
    explanations = explainer.explain_all()
    findings = (_write_data if output in ("json", "yaml") else _write_text)(explanations, explainer, output)
    sys.exit(FINDINGS if findings else 0)


def configuration(file: Path | None) -> Configuration | None:
    """The scheduler configuration of a file; ends the command when it cannot be used."""
    from moorage.scheduler.config import Configuration, ConfigurationError

    if file is None:
        return None
    try:
        return Configuration.read(file)
    except ConfigurationError as error:
        cannot_run(str(error))


def _items(asked: Asked, names: tuple[str, ...], namespace: str, *, only_pending: bool) -> Sequence[ClusterObject]:
    """What is asked about."""
    from moorage.tools.named import UnknownName, askable, is_by_hand, named, pending, within

    cluster = asked.cluster
    try:
        if names:
            return named(cluster, names, namespace)
    except UnknownName as error:
        cannot_run(f"{error} ({asked.source})")
    if not askable(cluster):
        cannot_run(f"no pods and no pod templates in {asked.source}")
    if not only_pending and not cluster.is_complete:
        return within(askable(cluster), namespace)
    items = pending(cluster, namespace)
    if not only_pending:
        known = set(map(id, items))
        by_hand = (item for item in within(askable(cluster), namespace) if is_by_hand(item))
        items += [item for item in by_hand if id(item) not in known]
    if not items:
        where = f" in namespace {namespace}" if namespace else ""
        click.echo(f"no pod waits for a node{where} in {asked.source}: name a pod to ask about it", err=True)
    return items


def _write_text(explanations: Iterable[Explanation], explainer: Explainer, output: str) -> int:
    findings = fitting = refused = 0
    limit = None if output == "wide" else _SHOWN
    for explanation in explanations:
        findings += explanation.is_finding
        fitting += explanation.fits
        refused += bool(explanation.admission)
        lines = _text(explanation, explainer.node_count, limit, wide=output == "wide")
        say("\n".join(lines))
    pods = explainer.pod_count
    alone = ", each asked about alone" if pods > 1 else ""
    whole = f"{_count(pods, 'pod')}{alone}, {_count(explainer.node_count, 'node')}"
    summary = f"{whole}: {fitting} fit, {pods - fitting - refused} fit nowhere"
    summary += f", {refused} refused by admission" if refused else ""
    say(click.style(summary, bold=True))
    return findings


def _text(explanation: Explanation, node_count: int, limit: int | None, *, wide: bool) -> Iterator[str]:
    answer, item = explanation.answer, explanation.item
    place = f"  ({item.place()})" if item.place() else ""
    yield f"{click.style(item.name, bold=True)}{place}"
    for error in explanation.admission:
        yield f"  {click.style('refused by admission', fg='red')}: {error}"
    if explanation.placed_on:
        yield f"  {_stay(explanation)}"
    colour = "green" if answer.fits else "red"
    verdict = f"may run on {answer.node_count} of {_count(node_count, 'node')}"
    yield f"  {click.style(verdict, fg=colour)}"
    yield from _fit_lines(answer.fits, limit if node_count > _SMALL else None, limit, wide=wide)
    for rejection in answer.rejected:
        yield f"  {click.style('refused by every node', fg='red')}: {rejection.reason}"
    for refused in answer.refused:
        yield f"  {click.style('refused by', fg='red')} {_names(refused.nodes, limit)}"
        for refusal in refused.refusals:
            yield f"    {refusal}"
        if refused.variants > 1:
            yield f"    (for example; {refused.variants} combinations of values, all with -o wide)"
    if answer.preemption:
        yield f"  {click.style('preemption', fg='yellow')}: {_preemption(answer.preemption)}"
    yield from _remedy_lines(answer.remedies)
    for note in answer.notes:
        yield f"  note: {note}"
    yield ""


def _fit_lines(fits: Sequence[Fit], groups: int | None, limit: int | None, *, wide: bool) -> Iterator[str]:
    for fit in fits[:groups]:
        yield f"    {_names(fit.nodes, limit)}  score {fit.score}{_eviction(fit)}"
        if wide:
            yield f"      {', '.join(f'{plugin} {score}' for plugin, score in fit.scores.items())}"
    left = fits[groups:] if groups is not None else ()
    if left:
        worst, others = left[-1].score, sum(len(fit.nodes) for fit in left)
        yield f"    and {_count(others, 'node')} with scores down to {worst}, all with -o wide"


def _remedy_lines(remedies: Iterable[Remedy]) -> Iterator[str]:
    for number, remedy in enumerate(remedies):
        words = "smallest change" if number == 0 else "or of the cluster"
        yield f"  {click.style(words, fg='yellow')}: {remedy}"
        for command in remedy.commands:
            yield f"    {command}"


def _preemption(preemption: Preemption) -> str:
    breaks = f", which breaks {_count(preemption.violations, 'disruption budget')}" if preemption.violations else ""
    return f"{', '.join(preemption.victims)} would be removed from {preemption.node}{breaks}"


def _stay(explanation: Explanation) -> str:
    if not explanation.leaves:
        return f"is on {explanation.placed_on} and may stay"
    when = f"after {explanation.leaves_after} s" if explanation.leaves_after else "at once"
    return click.style(f"is on {explanation.placed_on} and is evicted {when}", fg="red") + f": {explanation.leaves}"


def _eviction(fit: Fit) -> str:
    if fit.grace_seconds is None:
        return ""
    when = f"after {fit.grace_seconds} s" if fit.grace_seconds else "at once"
    return "  " + click.style(f"but evicted {when}", fg="yellow")


def _names(nodes: Sequence[str], limit: int | None) -> str:
    if limit is None or len(nodes) <= limit:
        return ", ".join(nodes)
    return f"{', '.join(nodes[:limit])} and {len(nodes) - limit} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _write_data(explanations: Iterable[Explanation], explainer: Explainer, output: str) -> int:
    """Write pod by pod: the text for a large cluster must not have to fit into memory."""
    from moorage.tools.answers import why_data

    findings = 0
    if output == "json":
        write = sys.stdout.write
        write(f'{{"nodes": {explainer.node_count}, "pods": [')
        for index, explanation in enumerate(explanations):
            findings += explanation.is_finding
            write(("," if index else "") + "\n  " + msgspec.json.encode(why_data(explanation)).decode())
        write("\n]}\n")
        return findings
    import yaml

    click.echo(f"nodes: {explainer.node_count}\npods:{'' if explainer.pod_count else ' []'}")
    for explanation in explanations:
        findings += explanation.is_finding
        click.echo(yaml.safe_dump([why_data(explanation)], sort_keys=False, allow_unicode=True), nl=False)
    return findings
