"""Plays the stories of the design documents on the cluster that the page shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from moorage.client import Client
from moorage.demo.player import Did, OwnHands, Player, Saw, examples
from moorage.demo.stories import STORIES, Action, Expectation, Pass, Story


class _AsItPasses:
    """Time that nobody makes run fast: the cluster may be in use."""

    async def run_fast(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class StoryStage:
    """One story at a time; what it made stays to be looked at until the next one begins."""

    def __init__(self, client: Client) -> None:
        self._hands = OwnHands(client, _AsItPasses())
        self._on_stage: Story | None = None
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
            if self._on_stage is not None:
                await self._hands.clear(examples() / self._on_stage.folder)
            self._on_stage = next((story for story in STORIES if story.folder == folder), None)
            if self._on_stage is None:
                return
            async for result in Player(self._hands, _AsItPasses(), examples()).play(self._on_stage):
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
