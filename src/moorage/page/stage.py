"""Plays the stories of the design documents on the cluster that the page shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from moorage.client import Client
from moorage.demo.player import Did, OwnHands, Player, Saw, examples
from moorage.demo.stories import STORIES, Action, Expectation, Pass


class _AsItPasses:
    """Time that nobody makes run fast: the cluster may be in use."""

    async def run_fast(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_STORIES = {story.folder: story for story in STORIES}


class StoryStage:
    """One story at a time; what it made stays to be looked at until the next one begins."""

    def __init__(self, client: Client, file: Path) -> None:
        """`file` keeps which story is on stage: it is still there after a restart."""
        self._hands = OwnHands(client, _AsItPasses())
        self._file = file
        self._playing = asyncio.Lock()

    @property
    def on_stage(self) -> str:
        """The folder of the story whose objects are on the cluster; empty when there is none."""
        try:
            return self._file.read_text()
        except FileNotFoundError:
            return ""

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
            self._file.write_text(story.folder if story else "")
            if story is None:
                return
            async for result in Player(self._hands, _AsItPasses(), examples()).play(story):
                yield msgspec.json.encode(_line(result)) + b"\n"


def _step(step: Action | Expectation) -> dict[str, Any]:
    """What to look at while a step is awaited."""
    if isinstance(step, Expectation):
        return {"what": step.what, "expected": str(step)}
    return {"seconds": step.seconds} if isinstance(step, Pass) else {}


def _line(result: Did | Saw) -> dict[str, Any]:
    if isinstance(result, Did):
        return {"did": result.what}
    expected = result.expected
    told = {"expected": str(expected), "seen": result.seen, "well": result.well, "because": expected.because}
    return {**told, "what": expected.what}
