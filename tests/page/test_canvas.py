"""The map of a cluster that is too large for a tile of its own for every node."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.live.conftest import Live
from tests.page.conftest import address, opened

expect.set_options(timeout=120_000)
NODES = 310
AT_THE_END = """() => {
  document.querySelector("main").scrollTo(0, 1e6);
  const end = selector => document.querySelector(selector).getBoundingClientRect().bottom;
  return Math.abs(end(".canvas-map canvas") - end(".canvas-map")) < 2; }"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    server = Live(tmp_path_factory.mktemp("large") / "data", more=("--nodes", str(NODES)))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def page(browser: Browser, large: Live) -> Iterator[Page]:
    with opened(browser, address(large)) as page:
        expect(page.locator(".numbers")).to_contain_text(f"{NODES} nodes")
        yield page


def test_a_large_map_is_drawn_to_its_end_and_leads_to_nodes(large: Live, page: Page) -> None:
    page.wait_for_selector(".canvas-map canvas")
    page.wait_for_function(AT_THE_END)
    height = page.locator(".canvas-map canvas").evaluate("canvas => canvas.clientHeight")
    page.locator(".canvas-map canvas").click(position={"x": 20, "y": height - 60})
    expect(page.locator(".why h2")).to_have_text(re.compile("^node-3"))
    page.evaluate("location.hash = '#node=node-1'")
    page.wait_for_function("() => document.querySelector('main').scrollTop < 100")
    page.keyboard.press("t")
    expect(page.locator("table.nodes tr.chosen")).to_contain_text("node-1")
    expect(page.locator("table.nodes a")).to_have_count(NODES)
    large.kubectl("cordon", "node-1")
    expect(page.locator("table.nodes tr.chosen")).to_contain_text("cordoned")
    large.kubectl("uncordon", "node-1")


def test_a_large_map_goes_to_where_the_pod_that_is_selected_runs(large: Live, page: Page) -> None:
    large.kubectl("run", "far", "--image=nginx", "--overrides", '{"spec": {"nodeName": "node-310"}}')
    page.locator(".pods").get_by_role("link", name="far").click()
    page.wait_for_function("() => document.querySelector('main').scrollTop > 100")
    large.kubectl("delete", "pod", "far", "--now")


def test_nodes_that_there_would_be_stand_before_a_large_map(page: Page) -> None:
    page.evaluate("""location.hash = '#panel=whatif&whatif=[["add-nodes","70"],["like","node-1"]]'""")
    expect(page.locator(".whatif .verdict")).to_be_visible()
    expect(page.locator(".group.new .imagined")).to_have_count(60)
    expect(page.locator('.imagined[data-node="node-1-1"]')).to_contain_text("gets no pod")
    expect(page.locator(".group.new")).to_contain_text("and 10 nodes more")
