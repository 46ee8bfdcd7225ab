"""What others wrote does not steer a terminal, and lines are wrapped where there is one."""

from __future__ import annotations

import sys

import click
import pytest

from moorage.cli.options import cannot_run
from moorage.cli.terminal import say, say_line

HOSTILE = "a\x1b[2J\rb\x9b2Jc\u202ed\x00"
HARMLESS = "a\\x1b[2J\\rb\\x9b2Jc\\u202ed\\x00"


def be_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_what_others_wrote_does_not_steer_a_terminal_and_colours_are_ours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    be_a_terminal(monkeypatch)
    say(f"{click.style('red', fg='red')}\n\t{HOSTILE} Grüße")
    assert capsys.readouterr().out == f"\x1b[31mred\x1b[0m\n\t{HARMLESS} Grüße\n"
    say_line(f"{HOSTILE}\x1b[8mhidden", 2)
    assert capsys.readouterr().out.replace("\n  ", " ") == "a\\x1b[2J b\\x9b2Jc\\u202ed\\x00\\x1b[8mhidden\n"
    with pytest.raises(SystemExit):
        cannot_run(HOSTILE)
    assert capsys.readouterr().err == f"moorage: {HARMLESS}\n"


def test_a_long_line_is_wrapped_on_a_terminal_and_words_stay_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    be_a_terminal(monkeypatch)
    say_line("  fails pod default/a: `Gt 950` is not\nwhat-it-should-be, and a second line cannot be forged", 6)
    assert capsys.readouterr().out.splitlines() == [
        "  fails pod default/a: `Gt 950` is not",
        "      what-it-should-be, and a second",
        "      line cannot be forged",
    ]


def test_in_a_pipe_a_line_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    say_line(f"one {'word ' * 100}\nmore", 6)
    assert capsys.readouterr().out == f"one {'word ' * 100}more\n"
