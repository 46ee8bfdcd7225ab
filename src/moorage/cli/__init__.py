"""The command `moorage`: what people touch first."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from moorage.cli.options import Commands
from moorage.garbage import raise_thresholds

# NumPy starts threads for linear algebra when it is imported, and nothing here needs any.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
MODULES = {
    "why": "why", "simulate": "simulate", "capacity": "capacity", "lint": "lint", "cel": "cel", "rollback": "rollback",
    "convert": "convert", "attach": "attach", "perf": "perf", "demo": "demo", "up": "up", "ui": "ui", "apiserver": "up",
    "scheduler": "components", "controllers": "components", "store": "store", "snapshot": "snapshot",
}  # fmt: skip
"""The module of each command: only that of the one which is given is imported."""


class _Root(Commands):
    def main(self, *args: Any, **extra: Any) -> Any:
        # What imports leave behind stays: looking for garbage meanwhile is in vain.
        raise_thresholds()
        return super().main(*args, **extra)

    def list_commands(self, _: click.Context) -> list[str]:
        return sorted(MODULES)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MODULES:
            return None
        command: click.Command = getattr(import_module(f"moorage.cli.{MODULES[cmd_name]}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # What was meant is looked for among commands that are imported, and none is.
            raise click.NoSuchCommand(error.command_name, possibilities=MODULES, ctx=ctx) from None


@click.group(cls=_Root, context_settings=CONTEXT)
@click.version_option(package_name="moorage", message="moorage %(version)s")
def main() -> None:
    """Decide where Kubernetes pods may run: by thresholds, versions, families of keys and expressions.

    \b
    Examples:
      moorage demo                               what it is for, played on a control plane to throw away
      moorage up                                 a control plane for kubectl on this machine
      moorage ui --context staging               where every pod runs and why not elsewhere, in the browser
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


def kubectl_plugin() -> None:
    """The same commands as `kubectl moorage`: kubectl starts the program `kubectl-moorage`."""
    main(prog_name="kubectl moorage")
