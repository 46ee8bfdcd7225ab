"""A command imports what it needs and no more: that is most of the time of a short one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "thresholds-1-spot-nodes"
SERVERS = {"moorage.apiserver", "moorage.page", "moorage.store", "cryptography", "grpc", "uvloop", "aiohttp"}
COLUMNS = {"numpy", "moorage.scheduler"}
ENGINE = {"moorage.cel"}
UNUSED = {"numpy.ma", "moorage.cli.up", "moorage.tools.lint", "prometheus_client", "zoneinfo", "importlib.resources"}
COMMANDS = [
    (("--help",), SERVERS | COLUMNS, 400),
    (("lint", str(EXAMPLE)), SERVERS | COLUMNS | ENGINE, 335),
    (("why", "-f", str(EXAMPLE)), SERVERS | ENGINE | UNUSED, 580),
]


def imported(*arguments: str) -> set[str]:
    line = [sys.executable, "-X", "importtime", "-m", "moorage", *arguments]
    said = subprocess.run(line, capture_output=True, text=True, check=False).stderr
    return {text.rpartition("|")[2].strip() for text in said.splitlines() if text.startswith("import time:")}


@pytest.mark.parametrize(("arguments", "unneeded", "most"), COMMANDS, ids=["help", "lint", "why"])
def test_a_command_imports_only_what_it_needs(arguments: tuple[str, ...], unneeded: set[str], most: int) -> None:
    modules = imported(*arguments)
    assert "moorage.cli" in modules
    assert not modules & unneeded
    assert len(modules) <= most, f"{len(modules)} modules"


def test_an_expression_brings_its_engine() -> None:
    expression = EXAMPLE.parent / "expressions-2-rack-prefix"
    assert imported("why", "-f", str(expression), "--feature-gates", "AllAlpha=true") >= ENGINE
