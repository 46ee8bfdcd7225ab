"""Plays the stories of the design documents on the cluster that the page shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from moorage.client import Client
from moorage.demo.player import Did, OwnHands, Player, Saw, examples
from moorage.demo.stories import STORIES, Action, Evicted, Expectation, Pass, Runs, Stays, Waits
from moorage.logs import Log

_LOG = Log(__name__)


class _AsItPasses:
    """Time that nobody makes run fast: the cluster may be in use."""

    async def run_fast(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_ON_MAP = (Runs, Waits, Evicted, Stays)
"""What is expected of pods; claims, and what is refused, are not on the map."""
_STORIES = {story.folder: story for story in STORIES}


class StoryStage:
    """One story at a time; what it made stays to be looked at until the next one begins."""

    def __init__(self, client: Client, file: Path) -> None:
        """`file` keeps which story is on stage: it is still there after a restart."""
        self._hands = OwnHands(client, _AsItPasses())
        self._file = file
        self.on_stage = _kept(file)
        """The folder of the story whose objects are on the cluster; empty when there is none."""
        self._playing = asyncio.Lock()

    @property
    def programme(self) -> list[dict[str, Any]]:
        """The stories that can be played."""
        return [
            {
                "folder": story.folder, "document": story.document, "number": story.number, "title": story.title,
                "steps": [_step(step) for step in story.steps],
            }
            for story in STORIES
        ]  # fmt: skip

    async def play(self, folder: str) -> AsyncIterator[bytes]:
        """Each step of a story as a line of JSON, as it happens; an empty name only clears the stage."""
        async with self._playing:
            # Somebody may have applied the example by hand before it is played.
            for each in {self.on_stage, folder} & _STORIES.keys():
                await self._hands.clear(examples() / each)
            story = _STORIES.get(folder)
            self.on_stage = story.folder if story else ""
            self._keep()
            if story is None:
                return
            async for result in Player(self._hands, _AsItPasses(), examples()).play(story):
                yield msgspec.json.encode(_line(result)) + b"\n"

    def _keep(self) -> None:
        try:
            self._file.write_text(self.on_stage)
        except OSError as error:
            _LOG.warning("The story on stage is not known after a restart", file=self._file, err=error.strerror)


def _kept(file: Path) -> str:
    """The story that was on stage when the server ended; none when the file does not say one."""
    try:
        folder = file.read_text()
    except (OSError, UnicodeError):
        return ""
    return folder if folder in _STORIES else ""


def _step(step: Action | Expectation) -> dict[str, Any]:
    """What to look at while a step is awaited."""
    if isinstance(step, Expectation):
        return {"what": step.what, "isOnMap": isinstance(step, _ON_MAP), "expected": str(step)}
    return {"seconds": step.seconds} if isinstance(step, Pass) else {}


def _line(result: Did | Saw) -> dict[str, Any]:
    if isinstance(result, Did):
        return {"did": result.what}
    expected = result.expected
    told = {"expected": str(expected), "seen": result.seen, "well": result.well, "because": expected.because}
    return {**told, "what": expected.what, "isOnMap": isinstance(expected, _ON_MAP)}
