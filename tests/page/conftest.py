"""A real server with a page, and a real browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tests.live.conftest import Live
from tests.plane import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one module: while it is there, no test in the same process can run an event loop of its own."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        why = "there is no browser: install one with `apt-get install chromium`"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    with sync_playwright() as playwright:
        # As root, and in a container, Chromium's own sandbox cannot be had; it shows nothing but this page.
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    server = Live(tmp_path_factory.mktemp("page") / "data", more=("--nodes", "4"))
    server.start()
    yield server
    if server.process and server.process.poll() is None:
        server.stop()


@contextmanager
def opened(browser: Browser, url: str) -> Iterator[Page]:
    """A page. No error may be in its console at the end."""
    errors: list[str] = []
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()

    def noted(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(message.text)

    page.on("console", noted)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    yield page
    context.close()
    # A server that was stopped is not the page's fault.
    assert [each for each in errors if "net::ERR_" not in each] == []


@pytest.fixture
def new_page(browser: Browser, live: Live) -> Iterator[Page]:
    """A page of the server, opened by an address of its own."""
    with opened(browser, address(live)) as page:
        page.wait_for_selector(".tile")
        yield page


@contextmanager
def served(kubeconfig: Path, home: Path, *options: str) -> Iterator[str]:
    """The address of a page that `moorage ui` serves."""
    home.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "moorage", "ui", "--kubeconfig", str(kubeconfig), "--no-open", *options]
    environment = {**os.environ, "HOME": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def address(live: Live) -> str:
    """A new address of the page, as `moorage ui --url` prints it."""
    from moorage.cli.ui import new_address

    return new_address(Path(live.directory))


def shown(text: str) -> str:
    """A text as the page has it: what stands between backticks is set as code."""
    return text.replace("`", "")
