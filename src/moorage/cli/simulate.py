"""`moorage simulate`: what would happen if, played on a private cluster in this process."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from moorage.api.node import Node
from moorage.cli import simulation
from moorage.cli.options import FINDINGS, cannot_run
from moorage.cli.sources import Asked, about_a_cluster
from moorage.tools.simulation.changes import (
    AddNodes,
    ApplyManifest,
    CannotChange,
    ClusterChange,
    CordonNodes,
    DeleteObject,
    DrainNodes,
    LabelNodes,
    NamedObject,
    RemoveNodes,
    ScaleWorkload,
    SetConfiguration,
    SetGates,
    TaintNodes,
)

_ORDER = "moorage.simulate.order"
_INTERRUPTED = 130
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?", re.ASCII)

ChangeMaker = Callable[[Any, str], ClusterChange]
"""Makes a change of the value of an option, and of the namespace."""


class _InOrder(click.Command):
    """A command that knows in which order its options were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


def _scale(text: str, namespace: str) -> ClusterChange:
    what, _, number = text.rpartition("=")
    if not what or not number.isascii() or not number.isdigit():
        raise CannotChange(f"--scale {text}: write KIND/NAME=N, such as deploy/web=5")
    return ScaleWorkload(NamedObject.parse(what, namespace), int(number))


def _configure(path: str) -> SetConfiguration:
    from pathlib import Path

    from moorage.scheduler.config import Configuration, ConfigurationError

    try:
        return SetConfiguration(Configuration.read(Path(path)), path)
    except ConfigurationError as error:
        raise CannotChange(str(error)) from None


_MAKERS: dict[str, ChangeMaker] = {
    "apply": lambda path, _: ApplyManifest(path),
    "delete": lambda text, namespace: DeleteObject(NamedObject.parse(text, namespace)),
    "scale": _scale,
    "taint": lambda pair, _: TaintNodes.parse(*pair),
    "untaint": lambda pair, _: TaintNodes.parse(*pair, remove=True),
    "label": lambda pair, _: LabelNodes.parse(*pair),
    "cordon": lambda which, _: CordonNodes(which),
    "uncordon": lambda which, _: CordonNodes(which, on=False),
    "drain": lambda which, _: DrainNodes(which),
    "remove_nodes": lambda which, _: RemoveNodes(which),
    "config": lambda path, _: _configure(path),
}


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
@click.option("--timeline", is_flag=True, help="Show what happens one after the other.")
def simulate(asked: Asked, namespace: str, seconds: float, output: str, timeline: bool, **changes: Any) -> None:
    """Say what changes would lead to: what moves, is evicted, ends Pending, or is blocked by a disruption budget.

    The API server, the scheduler and the controllers run in this process, on what the cluster holds and on a clock that
    is moved, until nothing happens any more. The cluster itself is only read.
    NODE is the name of a node, or a label selector such as zone=a. Changes are made in the order of the command line.
    Exit code: 0 nothing is lost, 1 something ends Pending, evicted or blocked, 2 cannot run.

    \b
    Examples:
      moorage simulate -f cluster.yaml --drain node-1
      moorage simulate -f cluster.yaml --taint zone=a maintenance=true:NoExecute --timeline
      moorage simulate --kubeconfig ~/.kube/config --add-nodes 2 --like node-1 --scale deploy/web=10
    """
    if asked.cluster.problems:
        cannot_run("\n".join(str(problem) for problem in asked.cluster.problems))
    if not asked.cluster.of(Node):
        cannot_run(f"no nodes in {asked.source}: add them with -f, for example from `kubectl get nodes -o yaml`")
    from moorage.tools.simulation.simulate import SimulationQuestion, simulate

    with _stoppable():
        try:
            made = _changes(asked, namespace, changes)
            question = SimulationQuestion(
                asked.cluster, asked.cluster.gates or asked.gates, made, seconds=seconds,
                assumptions=(*asked.assumptions, *asked.cluster.notes()),
            )  # fmt: skip
            result = simulate(question)
        except CannotChange as error:
            cannot_run(str(error))
    simulation.write(result, output, asked.source, timeline=timeline)
    sys.exit(0 if result.is_harmless else FINDINGS)


def _changes(asked: Asked, namespace: str, given: dict[str, Any]) -> list[ClusterChange]:
    values = {name: iter(value) for name, value in given.items()}
    made: list[ClusterChange] = []
    for name in click.get_current_context().meta[_ORDER]:
        if name == "add_nodes":
            like = next(values["like"], None)
            if like is None:
                raise CannotChange("--add-nodes: say which node they are like with --like NODE")
            made.append(AddNodes(next(values[name]), like))
        elif name == "gates":
            if asked.cluster.gates is not None and asked.gates != asked.cluster.gates:
                made.append(SetGates(asked.gates))
        elif maker := _MAKERS.get(name):
            made.append(maker(next(values[name]), namespace))
    if next(values["like"], None) is not None:
        raise CannotChange("--like: say how many nodes to add with --add-nodes N")
    return made


@contextmanager
def _stoppable() -> Iterator[None]:
    """Keep the components silent, and end without a traceback when the user interrupts."""
    logger = logging.getLogger("moorage")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        logger.setLevel(level)
