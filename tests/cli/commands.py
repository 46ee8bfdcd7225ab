"""Runs commands of `moorage` in this process, with the arguments, the input and the variables that a user gives."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from moorage.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
SPOT = str(EXAMPLES / "thresholds-1-spot-nodes")
TRAP = str(EXAMPLES / "thresholds-2-inference-slo")
CLEAN = str(EXAMPLES / "versions-2-old-cni")
ALL = ("--feature-gates", "AllAlpha=true")


class Ended(NamedTuple):
    """What a command that ended has left."""

    returncode: int
    stdout: str
    stderr: str


def moorage(*args: str, stdin: str = "", **env: str) -> Ended:
    """Run a command to its end; an exception that it does not catch fails the test."""
    variables = {"KUBECONFIG": "none", "NO_COLOR": None, **env}
    result = CliRunner().invoke(
        main, args, input=stdin, env=variables, prog_name="moorage", catch_exceptions=False
    )  # fmt: skip
    return Ended(result.exit_code, result.stdout, result.stderr)
