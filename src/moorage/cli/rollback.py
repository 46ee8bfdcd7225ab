"""`moorage rollback`: what turning a gate off would do, before it is done."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import Any

import click
import msgspec

from moorage.cli.options import FINDINGS, cannot_run, silent
from moorage.cli.sources import Asked, about_a_cluster
from moorage.cli.terminal import say
from moorage.features import Gate
from moorage.tools.rollback import Rollback, RollbackFinding
from moorage.tools.simulation.result import Effects

_NAMES = [gate.value for gate in Gate]


def _gate(_: click.Context, __: click.Parameter, name: str) -> Gate:
    """The gate of a name, in whatever case."""
    for gate in Gate:
        if gate.value.lower() == name.lower():
            return gate
    raise click.BadParameter(f"{name!r} is no gate; the gates are {', '.join(_NAMES)}")


def _complete(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    return [name for name in _NAMES if name.lower().startswith(begun.lower())]


@click.command()
@click.argument("gate", metavar="GATE", callback=_gate, shell_complete=_complete)
@about_a_cluster
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--patch", is_flag=True,
              help="Write only commands that take the rules of the gate out of templates.")  # fmt: skip
def rollback(gate: Gate, asked: Asked, output: str, patch: bool) -> None:
    """Say what turning GATE off would do: pods evicted, pods stuck, workloads stalled, volumes and claims cut off.

    The findings come in the order in which they are best dealt with, each with what to type.
    Exit code: 0 nothing would happen, 1 something would, 2 cannot run.

    \b
    Gates:
      TaintTolerationComparisonOperators   Gt and Lt in tolerations
      TolerationAffinitySemverOperators    SemverGt, SemverLt and SemverEq
      TaintTolerationNodeAffinityCEL       expression and matchCELExpressions
      WildcardTolerationKeys               keys with a star

    \b
    Examples:
      moorage rollback WildcardTolerationKeys --kubeconfig ~/.kube/config
      moorage rollback TaintTolerationNodeAffinityCEL -f examples/
      kubectl get nodes,pods,deploy -A -o yaml | moorage rollback WildcardTolerationKeys -f -
    """
    cluster = asked.cluster
    if not cluster.items and not cluster.problems:
        cannot_run(f"no objects of known kinds in {asked.source}")
    for resource in cluster.unread:
        say(f"note: {resource} could not be read, and are taken to be none", err=True)
    for problem in cluster.problems:
        say(f"note: left out: {problem}", err=True)
    plan = Rollback(cluster, gate)
    if patch:
        findings = plan.findings()
        _write_patches(findings, gate)
    else:
        from moorage.tools.rollbacksimulation import SimulatedRollback

        with silent():
            findings, effects = SimulatedRollback(plan).findings()
        if output == "json":
            _write_json(plan, findings, effects)
        else:
            _write_text(plan, findings)
    sys.exit(FINDINGS if findings else 0)


def _write_patches(findings: list[RollbackFinding], gate: Gate) -> None:
    from moorage.tools.rollbackpatches import patches

    for patch in patches(findings, gate):
        if patch.widens:
            click.echo(f"# {patch.item.name}: its pods may run on more nodes afterwards")
        click.echo(patch.command)


def _write_text(plan: Rollback, findings: list[RollbackFinding]) -> None:
    if not findings:
        say(f"Turning off {plan.gate.value} changes nothing for what is there.")
        return
    count = f"{len(findings)} finding{'s' if len(findings) > 1 else ''}"
    say(click.style(f"Turning off {plan.gate.value}: {count}", bold=True))
    number = 0
    for number, (step, group) in enumerate(groupby(findings, key=lambda finding: finding.step), 1):
        say(click.style(f"\n{number}. {step.value}", bold=True))
        for finding in group:
            place = f"  ({finding.item.place()})" if finding.item.document else ""
            say(f"   {finding.name}{place}\n     {finding.reason}")
            if finding.command:
                say(f"     $ {finding.command}")
    last = f"\n{number + 1}. Turn the gate off (GATES: those that are set now)"
    say(click.style(last, bold=True))
    for line in plan.procedure():
        say(f"   {line}")


def _write_json(plan: Rollback, findings: list[RollbackFinding], effects: Effects | None) -> None:
    data: dict[str, Any] = {
        "gate": plan.gate.value,
        "findings": [
            {
                "step": finding.step.name.lower(), "object": finding.name, "reason": finding.reason,
                "command": finding.command,
            }
            for finding in findings
        ],
        "procedure": plan.procedure(),
    }  # fmt: skip
    if effects is not None:
        data["effects"] = effects
    click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
