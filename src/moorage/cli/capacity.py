"""`moorage capacity`: how many more pods fit, where, and what runs out first."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from moorage.api.node import Node
from moorage.cli.options import FINDINGS, cannot_run
from moorage.cli.sources import Asked, about_a_cluster
from moorage.cli.terminal import say
from moorage.cli.why import configuration

if TYPE_CHECKING:
    from moorage.tools.capacity import CapacityAnswer, WantedPods

_SHOWN = 10


@click.command()
@about_a_cluster
@click.option(
    "--like",
    "likes",
    multiple=True,
    metavar="KIND/NAME[=SHARE]",
    help="Pods like this pod or the pods of this workload, so many of them in each set. May be repeated.",
)
@click.option("-n", "--namespace", default="", help="The namespace of the names; all of them by default.")
@click.option("--growth", type=click.IntRange(min=1), metavar="N", help="How many nodes are needed for N of them.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The KubeSchedulerConfiguration whose profiles answer, instead of the default one.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True,
              help="json and yaml are for programs.")  # fmt: skip
def capacity(
    asked: Asked, likes: tuple[str, ...], namespace: str, growth: int | None, config: Path | None, output: str
) -> None:
    """Say how many more pods fit, on which nodes, and what runs out first.

    They are placed one after the other as the scheduler would, until one does not fit; nothing is changed. Without
    --like, the pods and templates are meant that were written by hand, beside those of a cluster in the same files.
    Exit code: 0 some fit, with --growth all of them, 1 not so, 2 cannot run.

    \b
    Examples:
      moorage capacity --context staging -f pod.yaml
      moorage capacity -f cluster.yaml -f pod.yaml
      moorage capacity --like deploy/web --growth 200
      moorage capacity -f cluster.yaml --like deploy/web=3 --like deploy/db=1
    """
    from moorage.tools.capacity import Capacity

    cluster = asked.cluster
    if cluster.problems:
        cannot_run("\n".join(str(problem) for problem in cluster.problems))
    if not cluster.of(Node):
        cannot_run(f"no nodes in {asked.source}: add them with -f, for example from `kubectl get nodes -o yaml`")
    wanted = _wanted(asked, likes, namespace)
    filling = Capacity(cluster, asked.gates, wanted, configuration(config))
    for note in (*cluster.notes(), *asked.assumptions, *filling.notes):
        say(f"note: {note}", err=True)
    if refusals := filling.refusals():
        cannot_run(f"refused by admission: {'; '.join(refusals)}")
    answer = filling.fill(growth or 0)
    if output == "text":
        say("\n".join(_text(answer, wanted, filling.node_count, growth)))
    else:
        _write(_data(answer, wanted, filling.node_count, growth), output)
    sys.exit(0 if answer.sets >= (growth or 1) else FINDINGS)


def _wanted(asked: Asked, likes: Sequence[str], namespace: str) -> list[WantedPods]:
    """The pods to place, with their shares."""
    from moorage.tools.capacity import WantedPods
    from moorage.tools.named import UnknownName, askable, is_by_hand, named

    if not likes:
        by_hand = (item for item in askable(asked.cluster) if is_by_hand(item))
        found = [WantedPods(item) for item in by_hand if not _is_placed(item.object)]
        return found or cannot_run(f"which pod? no pod was written by hand in {asked.source}: name one with --like")
    wanted = []
    for text in likes:
        name, sign, share = text.partition("=")
        if sign and not (share.isdecimal() and int(share)):
            cannot_run(f"--like {text}: a share is a whole number above 0")
        try:
            wanted += [WantedPods(item, int(share or 1)) for item in named(asked.cluster, [name], namespace)]
        except UnknownName as error:
            cannot_run(f"{error} ({asked.source})")
    return wanted


def _is_placed(item: Any) -> bool:
    return bool(getattr(item.spec, "node_name", ""))


def _text(answer: CapacityAnswer, wanted: Sequence[WantedPods], nodes: int, growth: int | None) -> Iterator[str]:
    names = ", ".join(item.name if share == 1 else f"{share} × {item.name}" for item, share in wanted)
    several = len(wanted) > 1 or wanted[0].share > 1
    number = f"{'' if answer.is_bounded else 'at least '}{answer.sets} more {'sets fit' if several else 'fit'}"
    yield f"{names}: {number} on {len(answer.where)} of {_nodes(nodes)}"
    ranked = sorted(answer.where.items(), key=lambda each: -each[1].total())
    for node, pods in ranked[:_SHOWN]:
        counts = ", ".join(f"{count} × {name}" for name, count in pods.items()) if several else str(pods.total())
        yield f"  {node}  {counts}"
    if len(ranked) > _SHOWN:
        left = sum(pods.total() for _, pods in ranked[_SHOWN:])
        yield f"  and {left} on {_nodes(len(ranked) - _SHOWN)} more"
    yield from _end(answer, several=several)
    if growth:
        yield from _growth(answer, growth)


def _end(answer: CapacityAnswer, *, several: bool) -> Iterator[str]:
    what = f"{answer.stops_at} does not fit any more" if several else "what runs out"
    if answer.rejected:
        yield f"{what}: {answer.rejected}"
    elif not answer.open_nodes and answer.stops_at:
        yield f"{what}: no node takes such a pod even now, and `moorage why` says why"
    for shortage in answer.shortages:
        where = f"on {shortage.nodes} of the {_nodes(answer.open_nodes)} that took it"
        yield f"{what}: {shortage.subject} {where}, for example: {shortage.example}"


def _growth(answer: CapacityAnswer, growth: int) -> Iterator[str]:
    if answer.sets >= growth:
        yield f"growth by {growth}: no more nodes are needed"
    elif not answer.growth:
        yield f"growth by {growth}: no number of nodes like those that there are is enough"
    by_number: dict[int, list[str]] = {}
    for way in answer.growth:
        by_number.setdefault(way.nodes, []).append(way.like)
    for number, names in by_number.items():
        *others, last = names if len(names) <= _SHOWN else [*names[:_SHOWN], f"{len(names) - _SHOWN} others"]
        like = f"{', '.join(others)} or {last}" if others else last
        nodes = f"{number} more node{'' if number == 1 else 's'}"
        yield f"growth by {growth}: {nodes} like {like}"


def _nodes(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


def _data(answer: CapacityAnswer, wanted: Sequence[WantedPods], nodes: int, growth: int | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "nodes": nodes,
        "pods": [{"pod": item.name, "share": share, "fit": answer.sets * share} for item, share in wanted],
        "sets": answer.sets,
        "bounded": answer.is_bounded,
        "where": [{"name": node, "pods": dict(pods)} for node, pods in answer.where.items()],
        "stopsAt": answer.stops_at,
        "openNodes": answer.open_nodes,
        "runsOut": [
            {"subject": each.subject, "example": each.example, "nodes": each.nodes} for each in answer.shortages
        ],
    }
    if answer.rejected:
        data["rejected"] = answer.rejected
    if growth:
        ways = [{"like": way.like, "nodes": way.nodes} for way in answer.growth]
        data["growth"] = {"wanted": growth, "missing": max(0, growth - answer.sets), "ways": ways}
    return data


def _write(data: dict[str, Any], output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
        return
    import yaml

    click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)
