"""Text for people: what others wrote does not steer their terminal, and long lines are wrapped where there is one."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap

import click

_LINE_BREAK = re.compile(r"\s*[\n\r]\s*")
_CONTROLS = "[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
_STEERING = re.compile(f"\x1b|{_CONTROLS}")
_STEERING_BUT_COLOURS = re.compile(f"\x1b(?!\\[[0-9;]*m)|{_CONTROLS}")


def say(text: str, *, err: bool = False) -> None:
    """Write text in colours, with the escape of every other character in it that would steer a terminal."""
    click.echo(_STEERING_BUT_COLOURS.sub(_escape, text), err=err, color=wants_colour())


def say_line(text: str, indent: int) -> None:
    """Write one line without colours; on a terminal in as many as it takes, with all but the first indented."""
    line = _STEERING.sub(_escape, _LINE_BREAK.sub(" ", text))
    if sys.stdout.isatty():
        width, hang = shutil.get_terminal_size().columns, " " * indent
        line = textwrap.fill(line, width, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)
    click.echo(line)


def wants_colour() -> bool | None:
    """Colour on a terminal, unless NO_COLOR is set; None leaves it to the terminal."""
    return False if os.environ.get("NO_COLOR") else None


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
