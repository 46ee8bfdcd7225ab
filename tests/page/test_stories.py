"""The stories of the proposals, watched on the page."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from moorage.demo.stories import STORIES

expect.set_options(timeout=120_000)


def test_every_story_is_played_on_the_page_and_ends_as_expected(new_page: Page) -> None:
    new_page.get_by_text(f"Play one of {len(STORIES)} stories").click()
    for story in STORIES:
        new_page.get_by_role("button", name=story.title).click()
        playing = new_page.locator(".playing")
        expect(playing.locator("h3")).to_have_text(story.title)
        expect(playing.get_by_role("button", name="Take it away")).to_be_visible()
        expect(playing.locator(".ill")).to_have_count(0)
        expect(playing.locator(".well")).not_to_have_count(0)
    new_page.get_by_role("button", name="Take it away").click()
    expect(new_page.locator(".playing")).to_have_count(0)
    expect(new_page.locator(".tile[data-node]")).to_have_count(4)
