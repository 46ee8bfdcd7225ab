"""The options for logs, which all servers have."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from moorage.cli.options import cannot_run
from moorage.logs import MOST_VERBOSE, log_handler, logging_to

_OPTIONS = (
    click.option("-v", "--v", "verbosity", type=click.IntRange(0, MOST_VERBOSE), default=0, show_default=True,
                 help="How much is logged: at 2 also decisions and labels that cannot be compared, at 4 also retries."),
    click.option("--log-format", type=click.Choice(("text", "json")), default="text", show_default=True,
                 help="Lines as klog writes them, or JSON."),
    click.option("--log-file", type=click.Path(dir_okay=False, path_type=Path),
                 help="Append to this file, which may be moved away to rotate it. By default standard error."),
)  # fmt: skip


def log_options(component: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options for the log of a command, which is written while the command runs."""

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def logged(verbosity: int, log_format: str, log_file: Path | None, **others: Any) -> None:
            try:
                handler = log_handler(log_file)
            except OSError as error:
                cannot_run(f"--log-file {log_file}: {error.strerror}")
            with logging_to(handler, component, verbosity, log_format):
                command(**others)

        for option in reversed(_OPTIONS):
            logged = option(logged)
        return logged

    return with_options
