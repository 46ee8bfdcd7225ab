"""Nothing serious keeps anybody out: axe-core on every state of the page, at three sizes, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import pytest
from playwright.sync_api import Page, expect

from tests.live.conftest import Live

expect.set_options(timeout=120_000)
SEEN = "#template=default/Deployment/seen"
STATES = {
    "": ".tile[data-node], .pods li",
    "#node=node-1": ".why h2",
    "#view=table": "table.nodes, .pods li",
    "#view=table&template=default/Deployment/seen": ".why .verdict",
    "#panel=stories": ".stories li",
    "#panel=stories&story=keys-2-vendor": ".playing",
    "#pod=default/nothing": ".why h2",
    "#find=seen-": ".pods li",
    "#find=node-": ".pods a.node, .pods li",
    "#panel=whatif": ".drop",
    '#panel=whatif&whatif=[["cordon","node-1"]]': ".whatif .verdict",
    SEEN: ".why .verdict",
    f"{SEEN}&node=node-1": ".plugins",
    f"{SEEN}&panel=edit": "textarea:enabled",
    f"{SEEN}&panel=edit&rules=tolerations: [": ".editor .message",
    f"{SEEN}&panel=save&rules=nodeSelector: {{a: b}}": ".diff",
}
"""Addresses, and what is there when the page has got there."""


@pytest.fixture(scope="module", autouse=True)
def seen(live: Live) -> Iterator[None]:
    live.kubectl("create", "deployment", "seen", "--image=nginx", "--replicas=3")
    live.kubectl("rollout", "status", "deployment/seen")
    yield
    live.kubectl("delete", "deployment", "seen")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (1024, 768), (390, 844)], ids=str)
def test_nothing_serious_keeps_people_out(new_page: Page, scheme: str, size: tuple[int, int]) -> None:
    new_page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    new_page.set_viewport_size({"width": size[0], "height": size[1]})
    for state, sign in STATES.items():
        new_page.evaluate("hash => location.hash = hash", state)
        expect(new_page.locator(sign).first).to_be_attached()
        assert serious(new_page) == [], state
        assert new_page.evaluate("document.documentElement.scrollWidth") <= size[0], state


def serious(page: Page) -> list[tuple[str, str]]:
    """What axe-core finds that would keep somebody from using the page."""
    if not page.evaluate("'axe' in window"):
        page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    found = page.evaluate("axe.run()")["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]
