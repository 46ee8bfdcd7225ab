"""Which story is on stage is known after a restart, and a file that cannot be used keeps nobody from the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.demo.stories import STORIES
from moorage.page.stage import StoryStage
from tests.plane import api_server


async def test_the_story_on_stage_is_known_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "page.story"
    file.write_text(STORIES[0].folder)
    async with api_server(tmp_path / "data") as server:
        stage = StoryStage(server.client("page"), file)
        assert stage.on_stage == STORIES[0].folder
        assert [line async for line in stage.play("")] == []
        assert stage.on_stage == StoryStage(server.client("page"), file).on_stage == ""


@pytest.mark.parametrize("content", [b"\xff\0", b"../../elsewhere", None])
async def test_a_file_that_cannot_be_used_says_that_no_story_is_on_stage(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "page.story"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    async with api_server(tmp_path / "data") as server:
        stage = StoryStage(server.client("page"), file)
        assert stage.on_stage == ""
        assert [line async for line in stage.play("")] == []
