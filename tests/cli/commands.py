"""Runs commands of `moorage` in this process, with the arguments, the input and the variables that a user gives."""

from __future__ import annotations

from typing import NamedTuple

from click.testing import CliRunner

from moorage.cli import main


class Ended(NamedTuple):
    """What a command that ended has left."""

    returncode: int
    stdout: str
    stderr: str


def moorage(*args: str, stdin: str = "", **env: str) -> Ended:
    """Run a command to its end; an exception that it does not catch fails the test."""
    variables = {"KUBECONFIG": None, "NO_COLOR": None, **env}
    result = CliRunner().invoke(
        main, args, input=stdin, env=variables, prog_name="moorage", catch_exceptions=False
    )  # fmt: skip
    return Ended(result.exit_code, result.stdout, result.stderr)
