"""`moorage simulate`: what would happen if, played on a private cluster in this process."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import click

from moorage.api.node import Node
from moorage.cli import simulation
from moorage.cli.options import FINDINGS, cannot_run, silent
from moorage.cli.sources import Asked, about_a_cluster
from moorage.garbage import collect_seldom

_MANY = 10_000
_ORDER = "moorage.simulate.order"
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?", re.ASCII)


class _InOrder(click.Command):
    """A command that knows in which order its options were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


def _seconds(_: click.Context, __: click.Parameter, text: str) -> float:
    match = _DURATION.fullmatch(text)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match and text else (0, 0, 0)
    total = hours * 3600 + minutes * 60 + seconds
    if not total:
        raise click.BadParameter(f"{text!r} is no duration: write 90s, 10m or 1h30m")
    return float(total)


def _change(flag: str, metavar: str, text: str, **more: Any) -> Callable[[Any], Any]:
    return click.option(flag, multiple=True, metavar=metavar, help=text, **more)


@click.command(cls=_InOrder)
@about_a_cluster
@_change("--apply", "FILE", "Create or change the objects of a manifest.")
@_change("--delete", "KIND/NAME", "Delete an object and what it owns.")
@_change("--scale", "KIND/NAME=N", "Set the number of replicas of a workload.")
@_change("--taint", "NODE TAINT", "Taint nodes: key=value:Effect, or key- to remove it.", nargs=2)
@_change("--untaint", "NODE TAINT", "Remove a taint from nodes: key or key:Effect.", nargs=2)
@_change("--label", "NODE LABEL", "Label nodes: key=value, or key- to remove it.", nargs=2)
@_change("--cordon", "NODE", "Mark nodes as unschedulable.")
@_change("--uncordon", "NODE", "Mark nodes as schedulable.")
@_change("--drain", "NODE", "Cordon nodes and evict their pods, as disruption budgets allow.")
@_change("--add-nodes", "N", "Add N nodes like the one that --like names.", type=int)
@_change("--like", "NODE", "The node that new nodes are like.")
@_change("--remove-nodes", "NODE", "Remove nodes, kubelets and all.")
@click.option("--config", multiple=True, metavar="FILE", help="Restart the scheduler with this configuration.")
@click.option("-n", "--namespace", default="default", show_default=True, help="The namespace of what is named.")
@click.option("--for", "seconds", default="15m", show_default=True, metavar="DURATION", callback=_seconds,
              help="How much time may pass in the simulation.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "wide", "json", "yaml"]), default="text", show_default=True,
              help="wide names every pod; json and yaml are for programs.")  # fmt: skip
@click.option("--compare", "compared", nargs=2, metavar="A B", default=None,
              help="Place the pods that wait with two scheduler configurations: where do they differ?")  # fmt: skip
@click.option("--replace", "anew", is_flag=True, help="With --compare: place all pods anew, not only those that wait.")
@click.option("--timeline", is_flag=True, help="Show what happens one after the other.")
def simulate(
    asked: Asked, namespace: str, seconds: float, output: str, timeline: bool,
    compared: tuple[str, str] | None, anew: bool, **given: Any,
) -> None:  # fmt: skip
    """Say what changes would lead to: what moves, is evicted, ends Pending, or is blocked by a disruption budget.

    The API server, the scheduler and the controllers run in this process, on what the cluster holds and on a clock that
    is moved, until nothing happens any more. The cluster itself is only read.
    NODE is the name of a node, or a label selector such as zone=a. Changes are made in the order of the command line.
    Exit code: 0 nothing is lost, 1 something ends Pending, evicted or blocked, 2 cannot run.

    \b
    Examples:
      moorage simulate -f cluster.yaml --drain node-1
      moorage simulate -f cluster.yaml --taint zone=a maintenance=true:NoExecute --timeline
      moorage simulate -f cluster.yaml --compare packed.yaml spread.yaml --replace
      moorage simulate --kubeconfig ~/.kube/config --add-nodes 2 --like node-1 --scale deploy/web=10
    """
    if asked.cluster.problems:
        cannot_run("\n".join(str(problem) for problem in asked.cluster.problems))
    if not asked.cluster.of(Node):
        cannot_run(f"no nodes in {asked.source}: add them with -f, for example from `kubectl get nodes -o yaml`")
    if len(asked.cluster.items) > _MANY:
        collect_seldom()
    if compared is not None or anew:
        _compare(asked, compared, seconds, output, anew=anew, changes=any(given.values()))
        return
    from moorage.cli.changes import changes
    from moorage.tools.simulation.changes import CannotChange
    from moorage.tools.simulation.simulate import SimulationQuestion, simulate

    with silent():
        try:
            made = changes(click.get_current_context().meta[_ORDER], given, namespace, asked)
            question = SimulationQuestion(
                asked.cluster, asked.cluster.gates or asked.gates, made, seconds=seconds,
                assumptions=(*asked.assumptions, *asked.cluster.notes()),
            )  # fmt: skip
            result = simulate(question)
        except CannotChange as error:
            cannot_run(str(error))
    simulation.write(result, output, asked.source, timeline=timeline)
    sys.exit(0 if result.is_harmless else FINDINGS)


def _compare(
    asked: Asked, files: tuple[str, str] | None, seconds: float, output: str, *, anew: bool, changes: bool
) -> None:
    if files is None:
        cannot_run("--replace: say which configurations are compared with --compare A B")
    if changes:
        cannot_run("--compare: changes cannot be made at the same time")
    from moorage.cli.changes import configuration
    from moorage.tools.simulation.changes import CannotChange
    from moorage.tools.simulation.compare import CompareQuestion, compare

    with silent():
        try:
            first, second = map(configuration, files)
        except CannotChange as error:
            cannot_run(str(error))
        gates = asked.cluster.gates or asked.gates
        result = compare(CompareQuestion(asked.cluster, gates, first, second, files, seconds, anew))
    simulation.write_comparison(result, output)
    sys.exit(FINDINGS if result.first.pending or result.second.pending else 0)
