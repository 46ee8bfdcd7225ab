"""Every state of the page has its sentence, its address and its place on a phone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from tests.live.conftest import Live, eventually
from tests.page.conftest import opened, served
from tests.page.test_access import serious
from tests.plane import PATIENCE

expect.set_options(timeout=120_000)


def test_an_empty_cluster_says_how_to_get_nodes(browser: Browser, tmp_path: Path) -> None:
    server = Live(tmp_path / "data", more=("--nodes", "0"))
    server.start()
    try:
        with opened(browser, server.page) as page:
            expect(page.locator(".empty")).to_contain_text("moorage up --nodes 3")
            expect(page.locator(".pods")).to_contain_text("There are no pods yet.")
            expect(page.locator(".timeline")).to_contain_text("Nothing has happened")
            assert serious(page) == []
    finally:
        server.stop()


def test_who_may_not_see_the_cluster_is_told_which_rights_are_missing(
    live: Live, browser: Browser, tmp_path: Path
) -> None:
    live.kubectl("create", "serviceaccount", "nobody")
    token = live.kubectl("create", "token", "nobody").stdout.strip()
    config = yaml.safe_load(live.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    with served(kubeconfig, tmp_path / "home") as url, opened(browser, url) as page:
        expect(page.locator(".banner")).to_contain_text("You may not see this cluster")
        expect(page.locator(".banner")).to_contain_text("list nodes")
        assert serious(page) == []
        role = ("create", "clusterrolebinding", "nobody", "--clusterrole=cluster-admin")
        live.kubectl(*role, "--serviceaccount=default:nobody")
        expect(page.locator(".tile[data-node]")).to_have_count(4)
        expect(page.locator(".banner")).to_have_count(0)
    live.kubectl("delete", "clusterrolebinding", "nobody")


def test_an_api_server_that_does_not_answer_is_told_and_the_page_goes_on(browser: Browser, tmp_path: Path) -> None:
    server = Live(tmp_path / "data", more=("--nodes", "2"))
    server.start()
    port = server.url.rpartition(":")[2]
    try:
        with served(server.kubeconfig, tmp_path / "home") as url, opened(browser, url) as page:
            expect(page.locator(".tile[data-node]")).to_have_count(2)
            server.stop()
            expect(page.locator(".banner")).to_contain_text("The API server does not answer")
            expect(page.locator(".tile[data-node]")).to_have_count(2)
            server.more = (*server.more, "--port", port)
            server.start()
            server.kubectl("run", "after", "--image=nginx")
            expect(page.locator('.tile [data-pod="default/after"]')).to_have_count(1)
            expect(page.locator(".banner")).to_have_count(0)
    finally:
        if server.process and server.process.poll() is None:
            server.stop()


NONSENSE = [
    "panel=whatif&whatif=5", "panel=whatif&whatif=null", "panel=whatif&whatif=[1]", "panel=whatif&whatif=[[1,2]]",
    'panel=whatif&whatif=[["drain",{}]]', "panel=whatif&whatif=[[]]", "panel=whatif&whatif={", "group=label:__proto__",
    "group=taint:", "colour=__proto__", "colour=constructor", "view=x", "panel=x", "panel=edit", "panel=save", "pod=x",
    "pod=__proto__", "template=a/b/c/d&panel=edit", "node=__proto__", "kind=__proto__", "happening=x&cause=x",
    "panel=stories&story=x", "rules=%00%ff", "find=%", "%E0%A4%A", "=&=",
]  # fmt: skip
"""Addresses that say what is not there, or nothing that makes sense."""


def test_an_address_that_makes_no_sense_breaks_nothing(new_page: Page) -> None:
    for address in NONSENSE:
        new_page.evaluate("hash => location.hash = hash", f"#{address}")
        new_page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        expect(new_page.locator(".state.live")).to_have_count(1)
    new_page.evaluate("location.hash = '#node=node-2'")
    expect(new_page.locator(".why h2")).to_have_text("node-2")


def test_a_phone_shows_what_waits_and_why(live: Live, new_page: Page) -> None:
    live.kubectl("run", "stuck", "--image=nginx", "--overrides", '{"spec": {"nodeSelector": {"disk": "nvme"}}}')
    new_page.set_viewport_size({"width": 390, "height": 844})
    expect(new_page.locator("main")).to_be_hidden()
    expect(new_page.locator(".pods section").first).to_contain_text("node affinity/selector")
    new_page.get_by_role("link", name="stuck").first.click()
    expect(new_page.locator(".why")).to_contain_text("the node has no label disk")
    assert new_page.evaluate("document.documentElement.scrollWidth") <= 390
    live.kubectl("delete", "pod", "stuck", "--now")


def test_names_are_cut_in_the_middle(live: Live, new_page: Page) -> None:
    name = f"a-pod-with-{'very-' * 7}long-name-7f9c"
    live.kubectl("run", name, "--image=nginx")
    # Waited for, as a pod that begins to run moves to another section in the midst of a question.
    new_page.wait_for_function(
        """end => [...document.querySelectorAll(".pods .cut")].some(cut => {
             const [head, tail] = cut.children;
             return cut.textContent.endsWith(end) && head.scrollWidth > head.clientWidth
               && tail.scrollWidth <= tail.clientWidth; })""",
        arg="7f9c",
    )
    gap = """() => [...document.querySelectorAll(".pods .name .cut")].map(cut => {
               const [head, tail] = [...cut.children].map(each => each.getBoundingClientRect());
               return head.right - tail.left; }).find(overlap => overlap >= 0)"""
    assert new_page.evaluate(gap) < 14, "less than a letter is closed"
    live.kubectl("delete", "pod", name, "--now")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_a_pod_glides_to_its_node_unless_motion_is_unwanted(live: Live, new_page: Page, motion: str) -> None:
    new_page.emulate_media(reduced_motion=motion)  # type: ignore[arg-type]
    new_page.evaluate(
        """() => { window.glided = 0; const animate = Element.prototype.animate;
                   Element.prototype.animate = function (...given) {
                     window.glided += given[1].duration === 200; return animate.apply(this, given); }; }"""
    )
    live.kubectl("run", "moving", "--image=nginx", "--overrides", '{"spec": {"nodeSelector": {"disk": "nvme"}}}')
    expect(new_page.locator('.unplaced [data-pod="default/moving"]')).to_have_count(1)
    live.kubectl("label", "node", "node-2", "disk=nvme")
    expect(new_page.locator('[data-node="node-2"] [data-pod="default/moving"]')).to_have_count(1)
    if motion == "no-preference":
        new_page.wait_for_function("glided > 0")
    assert new_page.evaluate("glided") == (1 if motion == "no-preference" else 0)
    live.kubectl("delete", "pod", "moving", "--now")
    live.kubectl("label", "node", "node-2", "disk-")


def test_the_hour_before_the_page_was_opened_is_known_from_events(browser: Browser, tmp_path: Path) -> None:
    server = Live(tmp_path / "data", more=("--nodes", "1"))
    server.start()
    try:
        server.kubectl("run", "early", "--image=nginx", "--overrides", '{"spec": {"nodeSelector": {"disk": "nvme"}}}')
        server.kubectl("wait", "pod/early", "--for=condition=PodScheduled=False", f"--timeout={PATIENCE:.0f}s")
        eventually(lambda: "FailedScheduling" in server.kubectl("get", "events").stdout)
        with opened(browser, server.page) as page:
            row = page.locator(".timeline li", has_text="early").filter(has=page.locator("b.waiting"))
            expect(row.first).to_contain_text("fits no node")
            row.first.locator("a").first.click()
            expect(page).to_have_url(re.compile("happening="))
            expect(page.locator(".after")).to_contain_text("nodes are available")
            page.get_by_role("button", name=re.compile("^waiting")).click()
            expect(page).to_have_url(re.compile("kind=waiting"))
            expect(page.locator(".timeline ol > li b.kind:not(.waiting)")).to_have_count(0)
    finally:
        server.stop()
