"""`moorage demo`: the user stories of the design documents, played on a throw-away control plane."""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moorage.cli.options import FINDINGS
from moorage.cli.terminal import wants_colour

if TYPE_CHECKING:
    from moorage.demo.player import Did, Saw
    from moorage.demo.stories import Story

_MIN_WIDTH, _MAX_WIDTH = 60, 120
_MARKS = {True: click.style("✓", fg="green"), False: click.style("✗", fg="red")}


@click.command()
def demo() -> None:
    """Play the user stories of the four design documents, one after another, and say what happens and why.

    A control plane is started for it in a temporary directory, with hollow nodes and all gates on; nothing is left.
    Exit code: 0 everything is as expected, 1 something is not.

    \b
    Example:
      moorage demo
    """
    import uvloop

    # The log of the components would appear between the lines of the stories.
    logging.getLogger("moorage").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="moorage-demo-") as directory:
        as_expected = uvloop.run(_play(Path(directory)))
    sys.exit(0 if as_expected else FINDINGS)


async def _play(directory: Path) -> bool:
    from moorage.client.clock import FastClock
    from moorage.controlplane import ControlPlane, Settings
    from moorage.demo.player import OwnHands, Player, Saw, examples
    from moorage.demo.stories import STORIES
    from moorage.features import ALL_ON

    clock, folder = FastClock(), examples()
    settings = Settings(
        directory, port=0, nodes=0, clock=clock,
        apiserver_gates=ALL_ON, scheduler_gates=ALL_ON, controllers_gates=ALL_ON,
    )  # fmt: skip
    plane = await ControlPlane.start(settings)
    try:
        _say(f"A control plane for {len(STORIES)} stories, at {plane.server.url}: hollow nodes, all gates on.")
        hands = OwnHands(plane.server.client("moorage-demo"), clock)
        player = Player(hands, clock, folder)
        results: list[tuple[Story, list[Saw]]] = []
        for story in STORIES:
            _say(click.style(f"\n{story.document} story {story.number}: {story.title}", bold=True))
            outcomes = []
            async for result in player.play(story):
                _show(result)
                if isinstance(result, Saw):
                    outcomes.append(result)
            results.append((story, outcomes))
            await hands.clear(folder / story.folder)
    finally:
        await plane.stop()
    _summary(results)
    return all(saw.well for _, seen in results for saw in seen)


def _show(result: Did | Saw) -> None:
    from moorage.demo.player import Did

    if isinstance(result, Did):
        prompt = "$" if result.what.startswith("kubectl") else "…"
        _say(click.style(f"  {prompt} {result.what}", fg="cyan"))
        return
    _wrapped(f"{result.expected.what}: {result.seen}", f"  {_MARKS[result.well]} ", "    ")
    if not result.well:
        _wrapped(f"expected: {result.expected}", "    ", "    ")
    _wrapped(result.expected.because, "      ", "      ")


def _summary(results: list[tuple[Story, list[Saw]]]) -> None:
    rows = [
        (story.folder if number == 0 else "", str(saw.expected), saw.seen.partition(":")[0], saw.well)
        for story, seen in results
        for number, saw in enumerate(seen)
    ]
    first, second = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    _say(click.style(f"\n{'STORY':{first}}  {'EXPECTED':{second}}     SEEN", bold=True))
    for folder, expected, seen, well in rows:
        _say(f"{folder:{first}}  {expected:{second}}  {_MARKS[well]}  {seen}")
    wrong = sum(not row[3] for row in rows)
    count = f"{len(results)} stories, {len(rows)} outcomes"
    _say(f"\n{count}: {f'{wrong} not as expected' if wrong else 'all as expected'}")


def _wrapped(text: str, first: str, others: str) -> None:
    width = min(max(shutil.get_terminal_size().columns, _MIN_WIDTH), _MAX_WIDTH) - len(others)
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines):
        _say((others if number else first) + line)


def _say(text: str) -> None:
    click.echo(text, color=wants_colour())
