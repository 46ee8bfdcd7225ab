"""What would happen if: `moorage simulate` in a process of its own, with the rights of whoever serves the page."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence

import msgspec

from moorage.api.meta import Data
from moorage.logs import Log

VALUES = {
    "drain": 1, "cordon": 1, "uncordon": 1, "taint": 2, "untaint": 2, "label": 2, "scale": 1, "delete": 1,
    "add-nodes": 1, "like": 1, "remove-nodes": 1, "feature-gates": 1,
}  # fmt: skip
"""The options of the command that the page may give, and how many values each takes."""
CHANGES_MAX = 50
AMOUNTS_MAX = {"add-nodes": 5_000, "scale": 50_000}
"""How many nodes may be added, and to how many replicas may be scaled: more would take longer than anybody waits."""
WAITING_MAX = 4
"""So many questions wait for the one that is being played."""
_LONGEST = 1_000
"""Characters of a value."""
_SECONDS = 120.0
_DIGITS = 18
_ANSWERED = (0, 1)
_CANNOT_RUN = 2
_LOG = Log(__name__)


class CannotSimulate(Exception):
    """One sentence that says why."""


def options_of(changes: Sequence[Sequence[str]]) -> list[str]:
    """Changes as options of the command. Raises CannotSimulate for what is none."""
    if not 0 < len(changes) <= CHANGES_MAX:
        raise CannotSimulate(f"between 1 and {CHANGES_MAX} changes can be tried at a time")
    options = []
    for name, *values in (change or [""] for change in changes):
        if VALUES.get(name) != len(values):
            raise CannotSimulate(f"{name!r} is no change that can be tried here")
        for value in values:
            if not value or value.startswith("-") or not value.isprintable() or len(value) > _LONGEST:
                raise CannotSimulate(f"{name}: {value[:100]!r} names nothing")
            _check_amount(name, value.rpartition("=")[2])
        options += [f"--{name}", *values]
    return options


def _check_amount(name: str, text: str) -> None:
    most = AMOUNTS_MAX.get(name)
    if most is not None and text.isdecimal() and (len(text) > _DIGITS or int(text) > most):
        raise CannotSimulate(f"{name}: at most {most:,} can be tried here")


class WhatIf:
    """Plays changes on a copy of the cluster, one question at a time."""

    def __init__(self, connection: Sequence[str]) -> None:
        """`connection` are the options that name the cluster."""
        self._connection = connection
        self._asking = asyncio.Lock()
        self._waiting = 0

    async def simulate(self, changes: Sequence[Sequence[str]]) -> Data:
        """What `moorage simulate -o json` says, and the command to type. Raises CannotSimulate."""
        options = options_of(changes)
        if self._waiting > WAITING_MAX:
            raise CannotSimulate(f"{self._waiting} other questions are being played: ask again in a while")
        self._waiting += 1
        try:
            output = await self._played(options)
        finally:
            self._waiting -= 1
        data: Data = msgspec.json.decode(output)
        return {**data, "command": shlex.join(["moorage", "simulate", *options])}

    async def _played(self, options: Sequence[str]) -> bytes:
        async with self._asking:
            command = [sys.executable, "-m", "moorage", "simulate", *self._connection, *options, "-o", "json"]
            pipe = asyncio.subprocess.PIPE
            child = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
            try:
                async with asyncio.timeout(_SECONDS):
                    output, errors = await child.communicate()
            except TimeoutError:
                raise CannotSimulate(f"no answer within {_SECONDS:g} s: ask for less at a time") from None
            finally:
                if child.returncode is None:
                    child.kill()
                    await child.wait()
        return answer_of(child.returncode, output, errors.decode(errors="replace").strip())


def answer_of(code: int | None, output: bytes, errors: str) -> bytes:
    """What the command has written. Raises CannotSimulate with its reason when that is no answer."""
    if code in _ANSWERED and output:
        return output
    # Python, too, ends with 1 when something was not caught: an answer is known by what was written.
    reason = (errors.splitlines() or [f"the simulation has ended with {code} and said nothing"])[-1]
    if code != _CANNOT_RUN:
        _LOG.warning("The simulation has failed", code=code, errors=errors)
    raise CannotSimulate(reason.removeprefix("moorage: "))
