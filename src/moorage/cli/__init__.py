"""The command `moorage`: what people touch first."""

from __future__ import annotations

import click

from moorage.cli.attach import attach
from moorage.cli.capacity import capacity
from moorage.cli.cel import cel
from moorage.cli.components import controllers, scheduler
from moorage.cli.convert import convert
from moorage.cli.demo import demo
from moorage.cli.lint import lint
from moorage.cli.options import Commands
from moorage.cli.perf import perf
from moorage.cli.rollback import rollback
from moorage.cli.simulate import simulate
from moorage.cli.snapshot import snapshot
from moorage.cli.store import store
from moorage.cli.ui import ui
from moorage.cli.up import apiserver, up
from moorage.cli.why import why

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=Commands, context_settings=CONTEXT)
@click.version_option(package_name="moorage", message="moorage %(version)s")
def main() -> None:
    """Decide where Kubernetes pods may run: by thresholds, versions, families of keys and expressions.

    \b
    Examples:
      moorage demo                               what it is for, played on a control plane to throw away
      moorage up                                 a control plane for kubectl on this machine
      moorage why -f pods.yaml -f nodes.yaml     which nodes each pod may run on, and why not the others
      moorage simulate -f cluster/ --drain NODE  what a change would lead to, before it is made
      moorage capacity --like deploy/web -f .    how many more pods fit, and what runs out first
      moorage lint manifests/                    what admission refuses, and what is probably wrong
      moorage cel check --env node EXPRESSION    whether an expression is admitted, and what it costs
      moorage convert manifests/                 rules as annotations, for a cluster without the gates
      moorage attach check                       what attach mode would find in your cluster
      moorage rollback GATE -f manifests/        what turning a gate off would do
      moorage snapshot -o cluster.gz             what placement depends on in a cluster, in a file
      moorage perf --config workloads.yaml       how fast pods are placed
      moorage store backup copy                  a copy of a cluster, taken while it runs

    Shell completion: eval "$(_MOORAGE_COMPLETE=bash_source moorage)" (or zsh_source, fish_source).
    """


main.add_command(why)
main.add_command(simulate)
main.add_command(capacity)
main.add_command(lint)
main.add_command(cel)
main.add_command(rollback)
main.add_command(convert)
main.add_command(attach)
main.add_command(perf)
main.add_command(demo)
main.add_command(up)
main.add_command(ui)
main.add_command(apiserver)
main.add_command(scheduler)
main.add_command(controllers)
main.add_command(store)
main.add_command(snapshot)


def kubectl_plugin() -> None:
    """The same commands as `kubectl moorage`: kubectl starts the program `kubectl-moorage`."""
    main(prog_name="kubectl moorage")
