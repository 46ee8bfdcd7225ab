"""`moorage why`: which nodes a pod may run on, and why not the others."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import click
import msgspec

from moorage.api.node import Node
from moorage.cli.options import FINDINGS, cannot_run, wants_colour
from moorage.cli.sources import Asked, about_a_cluster
from moorage.tools.why import Explainer, Explanation, Fit, NodeSet, RefusedNodes

_SHOWN = 3
_SMALL = 20
"""Up to this number of nodes every refusal is shown; beyond it, refusals of the same kind are merged."""


@click.command()
@about_a_cluster
@click.option("-o", "--output", type=click.Choice(["text", "wide", "json", "yaml"]), default="text", show_default=True,
              help="wide names every node; json and yaml are for programs.")  # fmt: skip
def why(asked: Asked, output: str) -> None:
    """Say for each pod which nodes it may run on, and for each other node what refuses it and why.

    Pods, pod templates of workloads, nodes, and the volumes and claims that pods use are read from the given files, or
    from a running cluster.
    Exit code: 0 all pods have a node, 1 some pod fits nowhere, is refused by admission or has to leave, 2 cannot run.

    \b
    Examples:
      moorage why -f pods.yaml -f nodes.yaml --feature-gates AllAlpha=true
      kubectl get nodes,pods -A -o yaml | moorage why -f -
      moorage why -f examples/ -o json | jq '.pods[] | select(.fits | not)'
    """
    cluster = asked.cluster
    if cluster.problems:
        cannot_run("\n".join(str(problem) for problem in cluster.problems))
    exact = output != "text" or len(cluster.of(Node)) <= _SMALL
    explainer = Explainer(cluster, asked.gates, exact=exact)
    if not explainer.pod_count:
        cannot_run(f"no pods and no pod templates in {asked.source}")
    if not len(explainer.nodes):
        cannot_run(f"no nodes in {asked.source}: add them with -f, for example from `kubectl get nodes -o yaml`")
    for note in (*asked.assumptions, *cluster.notes()):
        click.echo(f"note: {note}", err=True)
    explanations = explainer.explain_all()
    findings = (_write_data if output in ("json", "yaml") else _write_text)(explanations, explainer, output)
    sys.exit(FINDINGS if findings else 0)


def _write_text(explanations: Iterable[Explanation], explainer: Explainer, output: str) -> int:
    findings = fitting = refused = 0
    limit = None if output == "wide" else _SHOWN
    for explanation in explanations:
        findings += explanation.is_finding
        fitting += explanation.fits
        refused += bool(explanation.admission)
        click.echo("\n".join(_text(explanation, len(explainer.nodes), limit)), color=wants_colour())
    pods = explainer.pod_count
    summary = (
        f"{_count(pods, 'pod')}, {_count(len(explainer.nodes), 'node')}: {fitting} fit, "
        f"{pods - fitting - refused} fit nowhere" + (f", {refused} refused by admission" if refused else "")
    )
    click.echo(click.style(summary, bold=True), color=wants_colour())
    return findings


def _text(explanation: Explanation, node_count: int, limit: int | None) -> Iterator[str]:
    answer, item = explanation.answer, explanation.item
    yield f"{click.style(item.name, bold=True)}  ({item.place()})"
    for error in explanation.admission:
        yield f"  {click.style('refused by admission', fg='red')}: {error}"
    if explanation.placed_on:
        yield f"  {_stay(explanation)}"
    colour = "green" if answer.fits else "red"
    verdict = f"may run on {answer.node_count} of {_count(node_count, 'node')}"
    yield f"  {click.style(verdict, fg=colour)}"
    for fit in answer.fits:
        yield f"    {_names(fit.nodes, limit)}  score {fit.score}{_eviction(fit)}"
    for refused in answer.refused:
        yield f"  {click.style('refused by', fg='red')} {_names(refused.nodes, limit)}"
        for refusal in refused.refusals:
            yield f"    {refusal}"
        if refused.variants > 1:
            yield f"    (for example; {refused.variants} combinations of values, all with -o wide)"
    if answer.remedy:
        yield f"  {click.style('smallest change', fg='yellow')}: {answer.remedy}"
    for note in answer.notes:
        yield f"  note: {note}"
    yield ""


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


def _names(nodes: NodeSet, limit: int | None) -> str:
    if limit is None or len(nodes) <= limit:
        return ", ".join(nodes)
    return f"{', '.join(islice(nodes, limit))} and {len(nodes) - limit} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _write_data(explanations: Iterable[Explanation], explainer: Explainer, output: str) -> int:
    """Write pod by pod: the text for a large cluster must not have to fit into memory."""
    findings = 0
    if output == "json":
        write = sys.stdout.write
        write(f'{{"nodes": {len(explainer.nodes)}, "pods": [')
        for index, explanation in enumerate(explanations):
            findings += explanation.is_finding
            write(("," if index else "") + "\n  " + msgspec.json.encode(_data(explanation)).decode())
        write("\n]}\n")
        return findings
    import yaml

    click.echo(f"nodes: {len(explainer.nodes)}\npods:")
    for explanation in explanations:
        findings += explanation.is_finding
        click.echo(yaml.safe_dump([_data(explanation)], sort_keys=False, allow_unicode=True), nl=False)
    return findings


def _data(explanation: Explanation) -> dict[str, Any]:
    answer, item = explanation.answer, explanation.item
    data: dict[str, Any] = {
        "pod": item.name,
        "file": item.file,
        "line": item.line(),
        "fits": explanation.fits,
        "nodes": [_fit_data(fit) for fit in answer.fits],
        "refused": [_refused_data(refused) for refused in answer.refused],
    }
    if explanation.admission:
        data["admissionErrors"] = explanation.admission
    if explanation.placed_on:
        data["placedOn"] = explanation.placed_on
        if explanation.leaves:
            data["evictedAfterSeconds"] = explanation.leaves_after
            data["evictedFor"] = explanation.leaves
    if answer.remedy:
        data["smallestChange"] = {"edits": answer.remedy.edits, "admits": answer.remedy.nodes}
    if answer.notes:
        data["notes"] = answer.notes
    return msgspec.to_builtins(data)  # type: ignore[no-any-return]


def _fit_data(fit: Fit) -> dict[str, Any]:
    data: dict[str, Any] = {"names": list(fit.nodes), "score": fit.score}
    if fit.grace_seconds is not None:
        data["evictedAfterSeconds"] = fit.grace_seconds
    return data


def _refused_data(refused: RefusedNodes) -> dict[str, Any]:
    reasons = [{"subject": refusal.subject, "reason": refusal.reason} for refusal in refused.refusals]
    return {"names": list(refused.nodes), "reasons": reasons}
