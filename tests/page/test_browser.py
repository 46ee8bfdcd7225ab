"""The page in a real browser, with a real server behind it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live.conftest import Live
from tests.page.conftest import address
from tests.plane import PATIENCE

expect.set_options(timeout=120_000)


def test_the_map_follows_the_cluster(live: Live, new_page: Page) -> None:
    expect(new_page.locator(".tile[data-node]")).to_have_count(4)
    live.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=8")
    expect(new_page.locator(".tile[data-node] .pod.full")).to_have_count(8)
    expect(new_page.locator(".legend")).to_contain_text("Deployment/web")
    live.kubectl("taint", "node", "node-1", "maintenance=now:NoExecute")
    expect(new_page.locator('[data-node="node-1"] .pod')).to_have_count(0)
    expect(new_page.locator('[data-node="node-1"] .taints')).to_contain_text("maintenance=now:NoExecute")
    expect(new_page.locator(".timeline")).to_contain_text("evicted")
    live.kubectl("taint", "node", "node-1", "maintenance-")
    live.kubectl("delete", "deployment", "web")
    expect(new_page.locator(".tile .pod")).to_have_count(0)


def test_a_pod_that_waits_comes_first_and_says_why(live: Live, new_page: Page) -> None:
    live.kubectl("run", "large", "--image=nginx", "--overrides",
                 '{"spec": {"nodeSelector": {"disk": "nvme"}}}')  # fmt: skip
    first = new_page.locator(".pods section").first
    expect(first.locator("h2")).to_contain_text("Pending")
    expect(first).to_contain_text("didn't match Pod's node affinity/selector")
    first.get_by_text("large").click()
    expect(new_page.locator(".why")).to_contain_text("disk")
    assert "pod=default%2Flarge" in new_page.url
    live.kubectl("label", "node", "node-2", "disk=nvme")
    expect(new_page.locator('[data-node="node-2"] [data-pod="default/large"]')).to_have_count(1)
    expect(new_page.locator(".why")).to_contain_text("node-2")
    live.kubectl("delete", "pod", "large", "--now")
    live.kubectl("label", "node", "node-2", "disk-")
    expect(new_page.locator(".why")).to_contain_text("is gone")


def test_two_pages_see_the_same_and_an_address_opens_one(live: Live, new_page: Page) -> None:
    url = address(live)
    second = new_page.context.new_page()
    second.goto(url)
    expect(second.locator(".tile[data-node]")).to_have_count(4)
    third = new_page.context.browser.new_context().new_page()  # type: ignore[union-attr]
    third.goto(url)
    expect(third.locator("[role=alert]")).to_contain_text("moorage ui --url")


def test_a_restart_of_the_server_reconnects_without_losing_or_doubling_anything(live: Live, new_page: Page) -> None:
    live.kubectl("run", "before", "--image=nginx")
    expect(new_page.locator('.tile [data-pod="default/before"]')).to_have_count(1)
    live.stop()
    expect(new_page.locator(".banner")).to_contain_text("does not answer")
    live.start()
    live.kubectl("run", "after", "--image=nginx")
    expect(new_page.locator(".banner")).to_have_count(0)
    expect(new_page.locator('.tile [data-pod="default/before"]')).to_have_count(1)
    expect(new_page.locator('.tile [data-pod="default/after"]')).to_have_count(1)
    expect(new_page.locator(".tile[data-node]")).to_have_count(4)
    live.kubectl("delete", "pod", "before", "after", "--now")


def test_the_keyboard_suffices(new_page: Page) -> None:
    new_page.keyboard.press("t")
    expect(new_page.locator("table.nodes tbody tr")).not_to_have_count(0)
    new_page.keyboard.press("t")
    new_page.keyboard.press("/")
    new_page.keyboard.type("node-2")
    expect(new_page.locator("input[type=search]")).to_be_focused()
    expect(new_page).to_have_url(re.compile("find=node-2"))
    new_page.locator("input[type=search]").blur()
    new_page.locator('[data-node="node-2"] header a').focus()
    new_page.keyboard.press("Enter")
    expect(new_page.locator(".why h2")).to_have_text("node-2")
    new_page.keyboard.press("Escape")
    expect(new_page.locator(".why h2")).to_have_count(0)


def test_the_verdicts_are_those_of_why(live: Live, new_page: Page) -> None:
    live.kubectl("apply", "-f", "examples/thresholds-1-spot-nodes")
    waiting = new_page.locator(".pods section").first
    expect(waiting).to_contain_text("critical-workload")
    new_page.wait_for_timeout(500)
    for name in ("critical-workload", "cost-optimized-workload", "flexible-sla-workload"):
        new_page.evaluate("hash => location.hash = hash", f"#pod=default/{name}")
        expect(new_page.locator(".why .verdict")).to_contain_text("may run on")
        told = why(live, name)
        for fit in told["nodes"]:
            for node in fit["names"]:
                mark = new_page.locator(f'[data-node="{node}"]')
                expect(mark).to_have_class(re.compile("best|fits|here|evicted"))
        for refused in told["refused"]:
            for node in refused["names"]:
                reason = refused["reasons"][0]["reason"]
                expect(new_page.locator(f'.refused[data-node="{node}"] .reason')).to_contain_text(reason)
    before = live.http("GET", "/api/v1/nodes")[1]["metadata"]["resourceVersion"]
    new_page.evaluate("location.hash = '#pod=default/critical-workload'")
    expect(new_page.locator(".change").first).to_contain_text("`Gt 939` instead of `Gt 950`")
    assert live.http("GET", "/api/v1/nodes")[1]["metadata"]["resourceVersion"] == before
    changes = new_page.locator(".timeline li:has(b.label)", has_text="moorage.dev/example")
    assert changes.count() == 0, "what was only tried out must not be shown as if it had happened"
    live.kubectl("delete", "-f", "examples/thresholds-1-spot-nodes", "--now", "--wait=false")


def why(live: Live, name: str) -> Any:
    return run(live, "why", name, "-n", "default")["pods"][0]


def run(live: Live, *arguments: str) -> Any:
    """What a command says, in a process of its own: the browser's event loop has this one."""
    command = [sys.executable, "-m", "moorage", *arguments, "--kubeconfig", str(live.kubeconfig), "-o", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    return json.loads(ended.stdout)


def test_what_if_says_what_simulate_says_and_applies_nothing(live: Live, new_page: Page) -> None:
    live.kubectl("create", "deployment", "shop", "--image=nginx", "--replicas=8")
    expect(new_page.locator(".tile[data-node] .pod.full")).to_have_count(8)
    before = versions(live)
    new_page.locator('[data-node="node-1"] header a').click()
    new_page.get_by_role("button", name="drained").click()
    expect(new_page.locator(".whatif .verdict")).to_contain_text("nothing happens any more")
    told = run(live, "simulate", "--drain", "node-1")
    assert told["after"]["moved"]
    expect(new_page.locator(".outcome").first.locator("li")).to_have_count(len(told["after"]["moved"]))
    lost = sum(each["from"] == "node-1" for each in told["after"]["moved"])
    expect(new_page.locator('[data-node="node-1"] .reason')).to_contain_text(f"loses {lost} pod")
    expect(new_page.locator(".whatif pre")).to_have_text("moorage simulate --drain node-1")
    assert versions(live) == before
    live.kubectl("delete", "deployment", "shop")
    expect(new_page.locator(".tile[data-node] .pod")).to_have_count(0)


def versions(live: Live) -> dict[str, str]:
    """The revision of every object that a simulation could have touched and that no kubelet writes meanwhile."""
    found = {}
    for path in ("/api/v1/pods", "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets"):
        for item in live.http("GET", path)[1]["items"]:
            found[f"{path}/{item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
    return found


def test_rules_are_tried_out_while_they_are_typed_and_nothing_is_saved(live: Live, new_page: Page) -> None:
    live.kubectl("run", "picky", "--image=nginx", "--overrides", '{"spec": {"nodeSelector": {"disk": "nvme"}}}')
    expect(new_page.locator(".pods")).to_contain_text("picky")
    new_page.evaluate("location.hash = '#pod=default/picky&panel=edit'")
    box = new_page.locator("textarea")
    expect(box).to_have_value(re.compile("disk: nvme"))
    box.fill("tolerations:\n- {expression: 'taint.key ++'}\n")
    expect(new_page.locator(".editor .message")).to_contain_text("line 2")
    expect(new_page.locator(".editor .message")).to_contain_text("^")
    box.fill("tolerations: []\n")
    expect(new_page.locator(".banner.tried")).to_contain_text("Nothing is applied")
    expect(new_page.locator(".tile.best, .tile.fits")).to_have_count(4)
    assert live.http("GET", "/api/v1/namespaces/default/pods/picky")[1]["spec"]["nodeSelector"] == {"disk": "nvme"}
    live.kubectl("delete", "pod", "picky", "--now")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (1024, 768), (390, 844)], ids=str)
def test_nothing_serious_keeps_people_out(new_page: Page, scheme: str, size: tuple[int, int]) -> None:
    new_page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    new_page.set_viewport_size({"width": size[0], "height": size[1]})
    for state in ("", "#node=node-1", "#view=table"):
        new_page.evaluate("hash => location.hash = hash", state)
        assert serious(new_page) == []


def serious(page: Page) -> list[tuple[str, str]]:
    """What axe-core finds that would keep somebody from using the page."""
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    found = page.evaluate("axe.run()")["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]
