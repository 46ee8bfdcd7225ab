"""The page in a real browser, with a real server behind it."""

from __future__ import annotations

import json
import re
import shlex
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.live.conftest import Live
from tests.page.conftest import address, shown
from tests.page.test_access import serious
from tests.plane import PATIENCE

expect.set_options(timeout=120_000)


LINES = """line => {
  const long = line.parentNode.appendChild(line.cloneNode()), range = document.createRange();
  long.textContent = "7 nodes: Insufficient cpu, ".repeat(9);
  range.selectNodeContents(long);
  const tops = new Set([...range.getClientRects()].map(each => each.top));
  long.remove();
  return tops.size; }"""
"""How many lines a long reason has in place of a pod's."""


def test_the_map_follows_the_cluster(live: Live, new_page: Page) -> None:
    expect(new_page.locator(".tile[data-node]")).to_have_count(4)
    live.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=8")
    expect(new_page.locator(".tile[data-node] .pod.full")).to_have_count(8)
    expect(new_page.locator(".legend")).to_contain_text("web")
    expect(new_page.get_by_role("link", name="web", exact=True)).to_have_attribute(
        "href", "#template=default%2FDeployment%2Fweb"
    )
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
    expect(first).to_contain_text("node affinity/selector")
    assert first.locator(".line").evaluate(LINES) == 1
    first.get_by_role("link", name="large").click()
    expect(new_page.locator(".why")).to_contain_text("disk")
    assert first.locator(".line").evaluate(LINES) > 1
    assert "pod=default%2Flarge" in new_page.url
    live.kubectl("label", "node", "node-2", "disk=nvme")
    expect(new_page.locator('[data-node="node-2"] [data-pod="default/large"]')).to_have_count(1)
    expect(new_page.locator(".why")).to_contain_text("node-2")
    live.kubectl("delete", "pod", "large", "--now")
    live.kubectl("label", "node", "node-2", "disk-")
    expect(new_page.locator(".why")).to_contain_text("is gone")


def test_a_search_finds_nodes_on_which_nothing_runs(new_page: Page) -> None:
    new_page.get_by_label("Find a pod, owner or node").fill("ODE-3")
    found = new_page.locator(".pods section", has_text="Nodes 1")
    found.get_by_role("link", name="node-3").click()
    expect(new_page.locator(".why h2")).to_have_text("node-3")
    new_page.get_by_label("Find a pod, owner or node").fill("node-9")
    expect(new_page.locator(".pods")).to_contain_text("No pod, owner or node has")


def test_two_pages_see_the_same_and_an_address_opens_one(live: Live, new_page: Page) -> None:
    url = address(live)
    second = new_page.context.new_page()
    second.goto(url)
    expect(second.locator(".tile[data-node]")).to_have_count(4)
    third = new_page.context.browser.new_context()  # type: ignore[union-attr]
    other = third.new_page()
    other.goto(url)
    expect(other.locator("[role=alert]")).to_contain_text("moorage ui --url")
    third.close()


def test_ten_tabs_of_one_browser_are_all_up_to_date(live: Live, browser: Browser) -> None:
    """Though it opens no more than six connections to one server for all of them."""
    context = browser.new_context()
    tabs = [context.new_page() for _ in range(10)]
    for tab in tabs:
        tab.goto(address(live))
        expect(tab.locator(".tile[data-node]")).to_have_count(4)
    live.kubectl("run", "seen", "--image=nginx")
    for tab in tabs:
        expect(tab.locator('.tile[data-node] [data-pod="default/seen"]')).to_have_count(1)
        expect(tab.locator(".state.live")).to_have_count(1)
    for tab in (tabs[0], tabs[-1]):
        tab.evaluate("location.hash = '#pod=default/seen'")
        expect(tab.locator(".why .verdict")).to_contain_text("may run on")
    tabs[0].close()
    live.kubectl("delete", "pod", "seen", "--now")
    for tab in tabs[1:]:
        expect(tab.locator('[data-pod="default/seen"]')).to_have_count(0)
    context.close()


def test_a_page_that_nobody_sees_yet_leaves_its_token_alone(live: Live, browser: Browser) -> None:
    """As when a browser guesses where somebody is going, and renders that beforehand."""
    page = browser.new_context().new_page()
    page.add_init_script("Object.defineProperty(document, 'prerendering', { get: () => !window.isSeen })")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address(live))
    assert not any("/ui/" in url for url in asked)
    page.evaluate("window.isSeen = true; document.dispatchEvent(new Event('prerenderingchange'))")
    expect(page.locator(".tile[data-node]")).to_have_count(4)
    page.context.close()


def test_the_address_of_a_state_is_opened_elsewhere_with_a_token(live: Live, new_page: Page) -> None:
    state = "node=node-2&view=table"
    new_page.evaluate("hash => location.hash = hash", state)
    shared = new_page.url
    assert "token" not in shared
    elsewhere = new_page.context.new_page()
    for told in ("token=wrong", address(live)):
        elsewhere.goto("about:blank")
        elsewhere.goto(shared)
        elsewhere.get_by_label("address or token").fill(told)
        elsewhere.get_by_role("button", name="Open").click()
        if "wrong" in told:
            expect(elsewhere.get_by_role("alert")).to_contain_text("moorage ui --url")
            assert serious(elsewhere) == []
    expect(elsewhere.locator("table.nodes")).to_contain_text("node-2")
    assert elsewhere.url == shared, "the token does not stay in the address"
    whole = new_page.context.new_page()
    whole.goto(f"{address(live)}&{state}")
    expect(whole.locator("table.nodes")).to_contain_text("node-2")
    assert whole.url == shared


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
    expect(new_page.locator(".why h2", has_text="node-2")).to_have_count(0)


def test_an_answer_that_comes_after_the_pod_was_closed_is_not_shown(live: Live, new_page: Page) -> None:
    live.kubectl("run", "late", "--image=nginx", "--overrides", '{"spec": {"nodeSelector": {"disk": "nvme"}}}')
    new_page.locator(".pods").get_by_role("link", name="late").click()
    expect(new_page.locator(".tile.refused")).to_have_count(4)
    new_page.keyboard.press("Escape")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    new_page.route("**/ui/v1/why*", hold)
    with new_page.expect_request("**/ui/v1/why*"):
        new_page.locator(".pods").get_by_role("link", name="late").click()
    new_page.keyboard.press("Escape")
    expect(new_page.locator(".why h2")).to_have_count(0)
    with new_page.expect_response("**/ui/v1/why*"):
        held[0].continue_()
    new_page.unroute("**/ui/v1/why*")
    live.kubectl("delete", "pod", "late", "--now")
    expect(new_page.locator('[data-pod="default/late"]')).to_have_count(0)
    expect(new_page.locator(".tile.refused")).to_have_count(0)


def test_a_key_that_is_pressed_twice_before_the_page_is_drawn_counts_twice(new_page: Page) -> None:
    pressed = "dispatchEvent(new KeyboardEvent('keydown', { key: 't', bubbles: true }))"
    new_page.evaluate(f"document.body.{pressed}; document.body.{pressed}")
    assert "view=table" not in new_page.url
    expect(new_page.locator(".tile[data-node]")).to_have_count(4)


@pytest.fixture
def spot_nodes(live: Live) -> Iterator[None]:
    """An example with one pod that waits and two that run."""
    live.kubectl("apply", "-f", "examples/thresholds-1-spot-nodes")
    ready = ("wait", "--for=condition=Ready", "pod/cost-optimized-workload", "pod/flexible-sla-workload")
    live.kubectl(*ready, f"--timeout={PATIENCE:.0f}s")
    yield
    live.kubectl("delete", "-f", "examples/thresholds-1-spot-nodes", "--now")


@pytest.mark.usefixtures("spot_nodes")
def test_the_verdicts_are_those_of_why(live: Live, new_page: Page) -> None:
    waiting = new_page.locator(".pods section").first
    expect(waiting).to_contain_text("critical-workload")
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
                reason = shown(refused["reasons"][0]["reason"])
                expect(new_page.locator(f'.refused[data-node="{node}"] .reason')).to_contain_text(reason)
    before = versions(live)
    new_page.evaluate("location.hash = '#pod=default/critical-workload'")
    expect(new_page.locator(".change").first).to_contain_text("Gt 939 instead of Gt 950")
    assert versions(live) == before
    changes = new_page.locator(".timeline li:has(b.label)", has_text="moorage.dev/example")
    assert changes.count() == 0, "what was only tried out must not be shown as if it had happened"


def why(live: Live, name: str) -> Any:
    return run(live, "why", name, "-n", "default")["pods"][0]


def run(live: Live, *arguments: str) -> Any:
    """What a command says, in a process of its own: the browser's event loop has this one."""
    command = [sys.executable, "-m", "moorage", *arguments, "--kubeconfig", str(live.kubeconfig), "-o", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    return json.loads(ended.stdout)


@pytest.mark.usefixtures("spot_nodes")
def test_each_plugin_gives_its_numbers_on_a_node(live: Live, new_page: Page) -> None:
    new_page.evaluate("location.hash = '#pod=default/flexible-sla-workload&node=ondemand-node-1'")
    plugins = new_page.locator(".plugins li")
    expect(plugins.filter(has_text="TaintToleration")).to_contain_text(
        "taint node.kubernetes.io/sla=940:NoSchedule: tolerated by Gt 900"
    )
    told = why(live, "flexible-sla-workload")
    (fit,) = [fit for fit in told["nodes"] if "ondemand-node-1" in fit["names"]]
    for plugin, score in fit["scores"].items():
        expect(new_page.locator(".scores tr", has=new_page.get_by_role("rowheader", name=plugin))).to_contain_text(
            str(score)
        )
    new_page.evaluate("location.hash = '#pod=default/flexible-sla-workload&node=spot-node-1'")
    expect(plugins.filter(has_text="TaintToleration")).to_contain_text("800 is not greater than 900")


def test_equal_refusals_stand_together_and_say_what_is_asked_for(live: Live, new_page: Page) -> None:
    for number, value in enumerate((930, 940, 940)):
        live.kubectl("taint", "node", f"node-{number + 1}", f"example.com/sla={value}:NoSchedule")
    request = '{"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "64"}}}]}}'
    live.kubectl("run", "large", "--image=nginx", "--overrides", request)
    new_page.evaluate("location.hash = '#pod=default/large'")
    refusals = new_page.locator(".refusal")
    expect(refusals).to_have_count(2)
    expect(refusals.first).to_contain_text("taint example.com/sla (2 values): no toleration for this key")
    expect(refusals.first.get_by_role("link")).to_have_count(3)
    expect(new_page.locator('[data-node="node-4"] .reason')).to_have_text("cpu: asks for 64, 16 of 16 free")
    live.kubectl("delete", "pod", "large", "--now")
    live.kubectl("taint", "node", "node-1", "node-2", "node-3", "example.com/sla-")


def test_of_a_pod_that_is_gone_the_page_knows_what_evicted_it(live: Live, new_page: Page) -> None:
    live.kubectl("create", "deployment", "moved", "--image=nginx")
    pod = new_page.locator('.tile[data-node] [data-pod^="default/moved-"]')
    expect(pod).to_have_count(1)
    name, node = pod.get_attribute("data-pod"), pod.locator("xpath=ancestor::article").get_attribute("data-node")
    new_page.evaluate("pod => location.hash = `#pod=${pod}`", name)
    live.kubectl("taint", "node", str(node), "maintenance=now:NoExecute")
    ends = new_page.locator(".ends li", has=new_page.locator("b.evicted"))
    expect(ends).to_contain_text("taint maintenance=now:NoExecute: no toleration for this key")
    new_page.locator(".why").get_by_role("link", name="Deployment/moved").click()
    expect(new_page.locator(".why .verdict")).to_contain_text("may run on 3 of 4 nodes")
    live.kubectl("taint", "node", str(node), "maintenance-")
    live.kubectl("delete", "deployment", "moved")


def test_what_is_searched_for_stands_out_on_the_map(live: Live, new_page: Page) -> None:
    for name in ("wanted", "unwanted-other"):
        live.kubectl("run", name, "--image=nginx")
        expect(new_page.locator(f'.tile[data-node] [data-pod="default/{name}"]')).to_have_count(1)
    new_page.get_by_role("searchbox").fill("other")
    expect(new_page.locator('.tile .pod.other[data-pod="default/wanted"]')).to_have_count(1)
    expect(new_page.locator('.tile .pod.other[data-pod="default/unwanted-other"]')).to_have_count(0)
    live.kubectl("delete", "pod", "wanted", "unwanted-other", "--now")


def test_somebody_who_is_paged_at_night_needs_no_mouse(live: Live, new_page: Page) -> None:
    expect(new_page.locator("[data-pod]")).to_have_count(0)
    for number in range(1, 5):
        live.kubectl("taint", "node", f"node-{number}", "example.com/sla=940:NoSchedule")
    live.kubectl("create", "deployment", "paged", "--image=nginx")
    keys, focused = new_page.keyboard, new_page.locator(":focus")
    expect(new_page.locator(".pods section").first).to_contain_text("paged")
    keys.press("p")
    keys.press("Enter")
    expect(new_page.locator(".why .refusal")).to_contain_text("no toleration for this key")
    keys.press("e")
    expect(focused).to_have_attribute("aria-label", "Rules as YAML")
    keys.type("tolerations:\n- key: example.com/sla\n  operator: Gt\n  value: '900'")
    expect(new_page.locator(".tile.best")).to_have_count(4)
    expect(new_page.get_by_role("button", name="Save…")).to_be_enabled()
    keys.press("Tab")
    keys.press("Enter")
    expect(focused).to_have_class("diff")
    keys.press("Tab")
    expect(focused).to_have_text("Save to Deployment default/paged")
    keys.press("Enter")
    expect(new_page.locator(".saving")).to_contain_text("Saved to Deployment default/paged.")
    expect(new_page.locator('.tile[data-node] [data-pod^="default/paged"]')).to_have_count(1)
    expect(focused).not_to_have_count(0)
    # And what if the first node were drained?
    keys.press("Escape")
    keys.press("Escape")
    keys.press("m")
    expect(focused).to_have_text("node-1")
    keys.press("ArrowDown")
    keys.press("Enter")
    expect(new_page.locator(".why h2")).not_to_have_text("node-1")
    keys.press("w")
    for _ in range(8):
        keys.press("Tab")
        if "Drain" in focused.inner_text():
            break
    keys.press("Enter")
    expect(new_page.locator(".whatif .verdict")).to_be_visible()
    expect(focused).to_have_attribute("aria-label", "What if")
    live.kubectl("delete", "deployment", "paged")
    for number in range(1, 5):
        live.kubectl("taint", "node", f"node-{number}", "example.com/sla-")


@pytest.fixture
def shop(live: Live, new_page: Page) -> Iterator[None]:
    expect(new_page.locator("[data-pod]")).to_have_count(0)
    live.kubectl("create", "deployment", "shop", "--image=nginx", "--replicas=8")
    expect(new_page.locator(".tile[data-node] .pod.full")).to_have_count(8)
    yield
    live.kubectl("delete", "deployment", "shop")
    expect(new_page.locator(".tile [data-pod]")).to_have_count(0)


@pytest.mark.usefixtures("shop")
def test_what_if_says_what_simulate_says_and_applies_nothing(live: Live, new_page: Page) -> None:
    before = versions(live)
    new_page.locator('[data-node="node-1"] header a').click()
    new_page.get_by_role("button", name="Drain it").click()
    expect(new_page.locator(".whatif .verdict")).to_contain_text("nothing happens any more")
    told = run(live, "simulate", "--drain", "node-1")
    assert told["after"]["moved"]
    expect(new_page.locator(".outcome").first.locator("li")).to_have_count(len(told["after"]["moved"]))
    lost = sum(each["from"] == "node-1" for each in told["after"]["moved"])
    expect(new_page.locator('[data-node="node-1"] .reason')).to_contain_text(f"drained, loses {lost} pod")
    expect(new_page.locator('[data-node="node-1"] .leaving')).to_have_count(lost)
    expect(new_page.locator(".pod.arriving")).to_have_count(len(told["after"]["moved"]))
    expect(new_page.locator(".whatif pre")).to_have_text("moorage simulate --drain node-1")
    expect(new_page.locator(".banner.tried")).to_contain_text("Nothing is applied")
    assert versions(live) == before


@pytest.mark.usefixtures("shop")
def test_every_kind_of_what_if_equals_its_command(live: Live, new_page: Page) -> None:
    before = versions(live)
    new_page.get_by_role("link", name="What if").click()
    new_page.locator('[data-node="node-4"]').drag_to(new_page.locator(".drop"))
    expect(new_page.locator(".whatif pre")).to_have_text("moorage simulate --remove-nodes node-4")
    new_page.get_by_label("What", exact=True).select_option("add nodes like")
    new_page.get_by_label("node", exact=True).fill("node-1")
    new_page.get_by_label("how many").fill("2")
    new_page.get_by_role("button", name="try").click()
    new_page.locator('[data-node="node-3"] header a').click()
    new_page.get_by_label("How many nodes").fill("1")
    new_page.get_by_role("button", name="Add nodes like it").click()
    new_page.locator('[data-node="node-2"] header a').click()
    new_page.get_by_label("Taint").fill("maintenance=now:NoExecute")
    new_page.get_by_role("button", name="Add taint").click()
    new_page.locator('.squares [data-pod^="default/shop"]').first.click()
    new_page.get_by_label("Replicas").fill("20")
    new_page.get_by_role("button", name="Scale it").click()
    new_page.get_by_label("turn off").select_option("WildcardTolerationKeys")
    expect(new_page.locator(".whatif pre")).to_contain_text("WildcardTolerationKeys=false")
    command = new_page.locator(".whatif pre").inner_text()
    assert "TaintTolerationComparisonOperators=true" in command, "the other gates stay as they are"
    for part in ("--remove-nodes node-4", "--add-nodes 2 --like node-1", "--taint node-2 maintenance=now:NoExecute",
                 "--scale deployment/default/shop=20"):  # fmt: skip
        assert part in command, command
    told = run(live, *shlex.split(command)[1:])
    after = told["after"]
    expect(new_page.locator(".whatif .verdict")).to_be_visible()
    for title, found in (("move", after["moved"]), ("placed", after["placed"])):
        expect(new_page.locator(".whatif h3", has_text=f"{len(found)} pods {title}")).to_have_count(1 if found else 0)
    for name in ("node-1-1", "node-1-2"):
        expect(new_page.locator(f'.imagined[data-node="{name}"] .arriving')).to_have_count(
            sum(name in (each.get("to"), each.get("node")) for each in (*after["moved"], *after["placed"]))
        )
    url = new_page.url
    new_page.goto("about:blank")
    new_page.goto(url)
    expect(new_page.locator(".whatif pre")).to_have_text(command)
    assert versions(live) == before


def versions(live: Live) -> dict[str, str]:
    """The revision of every object that nobody writes by itself: kubelets renew nodes and leases all the time."""
    found = {}
    for path in ("/api/v1", "/apis/apps/v1", "/apis/batch/v1", "/apis/policy/v1", "/apis/scheduling.k8s.io/v1"):
        for resource in live.http("GET", path)[1]["resources"]:
            name = resource["name"]
            if "list" not in resource["verbs"] or "/" in name or name in ("nodes", "events"):
                continue
            for item in live.http("GET", f"{path}/{name}")[1]["items"]:
                metadata = item["metadata"]
                found[f"{name}/{metadata.get('namespace')}/{metadata['name']}"] = metadata["resourceVersion"]
    for node in live.http("GET", "/api/v1/nodes")[1]["items"]:
        found[f"nodes/{node['metadata']['name']}"] = json.dumps([node["spec"], node["metadata"]["labels"]])
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


def test_no_other_page_and_no_inline_script_gets_anything(live: Live, new_page: Page, browser: Browser) -> None:
    secret = new_page.evaluate("sessionStorage.getItem('moorage-page')")
    own = new_page.evaluate("location.origin")
    violated = """() => new Promise(done => {
        addEventListener('securitypolicyviolation', event => done(event.effectiveDirective), { once: true });
        const script = document.createElement('script'); script.textContent = 'window.stolen = true';
        document.head.append(script); })"""
    context = browser.new_context()
    victim = context.new_page()
    victim.goto(own)
    assert victim.evaluate(violated) == "script-src-elem"
    assert victim.evaluate("window.stolen") is None
    # A page of another program on this machine: another port is another origin, though the same site.
    folder = files("moorage.page") / "static"
    with socketserver.TCPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        rogue = context.new_page()
        rogue.goto(f"http://127.0.0.1:{other.server_address[1]}/mark.svg")
        steal = """async ([url, secret]) => { try {
            const answer = await fetch(url, { headers: secret ? { 'x-moorage-page': secret } : {} });
            return await answer.text(); } catch (error) { return error.name; } }"""
        for known in ("", secret):
            assert rogue.evaluate(steal, [f"{own}/ui/v1/placement", known]) == "TypeError"
        assert rogue.evaluate(steal, [f"{own}/", ""]) == "TypeError"
        other.shutdown()
    context.close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing is logged."""
