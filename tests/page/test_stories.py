"""The stories of the proposals, watched on the page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from moorage.demo.stories import STORIES, Story
from tests.live.conftest import Live
from tests.page.conftest import address, shown
from tests.plane import PATIENCE

expect.set_options(timeout=600_000)


def test_a_cluster_on_which_nothing_runs_offers_every_story(new_page: Page) -> None:
    expect(new_page.locator(".stories")).to_contain_text("Nothing runs on this cluster yet.")
    for story in STORIES:
        expect(new_page.get_by_role("button", name=story.title)).to_be_enabled()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.folder)
def test_every_story_is_watched_on_the_page(live: Live, new_page: Page, story: Story) -> None:
    new_page.evaluate("location.hash = '#panel=stories'")
    new_page.get_by_role("button", name=story.title).click()
    playing = new_page.locator(".playing")
    expect(playing.locator("h3")).to_have_text(story.title)
    expect(new_page).to_have_url(re.compile(f"story={story.folder}"))
    expect(playing.get_by_role("button", name="Take it away")).to_be_visible()
    expect(playing.locator(".ill")).to_have_count(0)
    expect(playing.locator(".well")).not_to_have_count(0)
    expect(playing).not_to_contain_text("`")
    for link in playing.get_by_role("link").all():
        assert re.fullmatch(r"[a-z\d.-]+", link.inner_text()), "what is on neither map nor list leads nowhere"
    for pod in pods(live):
        # What is evicted again and again is elsewhere before anybody has looked.
        if not pod["metadata"].get("annotations", {}).get("moorage.dev/evict-at"):
            is_where_the_server_has_it(new_page, pod)
            has_the_verdicts_of_why(live, new_page, pod)
    new_page.evaluate("story => location.hash = `#panel=stories&story=${story}`", story.folder)
    new_page.get_by_role("button", name="Take it away").click()
    expect(new_page.locator(".playing")).to_have_count(0)
    expect(new_page.locator(".tile[data-node]")).to_have_count(4)
    expect(new_page.locator(".tile [data-pod]")).to_have_count(0)


def test_a_story_is_taken_away_after_a_restart_and_whoever_is_on_its_nodes(live: Live, new_page: Page) -> None:
    story = next(each for each in STORIES if each.folder == "expressions-2-rack-prefix")
    live.kubectl("apply", "-f", f"examples/{story.folder}")
    new_page.evaluate("location.hash = '#panel=stories'")
    new_page.get_by_role("button", name=story.title).click()
    playing = new_page.locator(".playing")
    expect(playing.get_by_role("button", name="Play it again")).to_be_visible()
    expect(playing.locator(".ill")).to_have_count(0)
    live.kubectl("run", "guest", "--image=nginx", "--overrides", '{"spec": {"nodeName": "rack-west"}}')
    expect(new_page.locator('[data-node="rack-west"] [data-pod="default/guest"]')).to_have_count(1)
    live.stop()
    live.start()
    new_page.goto("about:blank")
    new_page.goto(address(live))
    new_page.get_by_role("link", name="Stories", exact=True).click()
    expect(playing.locator("h3")).to_have_text(story.title)
    playing.get_by_role("button", name="Take it away").click()
    expect(playing).to_have_count(0)
    expect(new_page.locator(".tile[data-node]")).to_have_count(4)
    expect(new_page.locator(".tile [data-pod]")).to_have_count(0)


def pods(live: Live) -> list[Any]:
    listed: list[Any] = live.http("GET", "/api/v1/namespaces/default/pods")[1]["items"]
    return [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]


def is_where_the_server_has_it(page: Page, pod: Any) -> None:
    node = pod["spec"].get("nodeName")
    tile = f'[data-node="{node}"]' if node else ".unplaced"
    expect(page.locator(f'{tile} [data-pod="default/{pod["metadata"]["name"]}"]')).to_have_count(1)


def has_the_verdicts_of_why(live: Live, page: Page, pod: Any) -> None:
    name = pod["metadata"]["name"]
    command = [sys.executable, "-m", "moorage", "why", name, "-n", "default", "-o", "json"]
    command += ["--kubeconfig", str(live.kubeconfig)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    (told,) = json.loads(ended.stdout)["pods"]
    page.evaluate("pod => location.hash = `#pod=default/${pod}`", name)
    fitting = sum(len(fit["names"]) for fit in told["nodes"])
    expect(page.locator(".why .verdict")).to_contain_text(f"may run on {fitting} of")
    for fit in told["nodes"]:
        for node in fit["names"]:
            expect(page.locator(f'.tile[data-node="{node}"]')).to_have_class(re.compile("best|fits|here|evicted"))
    for refused in told["refused"]:
        for node in refused["names"]:
            tile = page.locator(f'.tile.refused[data-node="{node}"], .tile.evicted[data-node="{node}"]')
            expect(tile.locator(".reason")).to_contain_text(shown(refused["reasons"][0]["reason"]))
