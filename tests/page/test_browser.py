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
from playwright.sync_api import Browser, Page, expect

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
    first.get_by_role("link", name="large").click()
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
    third = new_page.context.browser.new_context()  # type: ignore[union-attr]
    other = third.new_page()
    other.goto(url)
    expect(other.locator("[role=alert]")).to_contain_text("moorage ui --url")
    third.close()


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
    expect(new_page.locator(".why h2")).to_have_count(0)


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
                reason = refused["reasons"][0]["reason"]
                expect(new_page.locator(f'.refused[data-node="{node}"] .reason')).to_contain_text(reason)
    before = versions(live)
    new_page.evaluate("location.hash = '#pod=default/critical-workload'")
    expect(new_page.locator(".change").first).to_contain_text("`Gt 939` instead of `Gt 950`")
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
    new_page.get_by_role("button", name="drained").click()
    expect(new_page.locator(".whatif .verdict")).to_contain_text("nothing happens any more")
    told = run(live, "simulate", "--drain", "node-1")
    assert told["after"]["moved"]
    expect(new_page.locator(".outcome").first.locator("li")).to_have_count(len(told["after"]["moved"]))
    lost = sum(each["from"] == "node-1" for each in told["after"]["moved"])
    expect(new_page.locator('[data-node="node-1"] .reason')).to_contain_text(f"loses {lost} pod")
    expect(new_page.locator('[data-node="node-1"] .leaving')).to_have_count(lost)
    expect(new_page.locator(".pod.arriving")).to_have_count(len(told["after"]["moved"]))
    expect(new_page.locator(".whatif pre")).to_have_text("moorage simulate --drain node-1")
    expect(new_page.locator("main .banner")).to_contain_text("Nothing is applied")
    assert versions(live) == before


@pytest.mark.usefixtures("shop")
def test_every_kind_of_what_if_equals_its_command(live: Live, new_page: Page) -> None:
    before = versions(live)
    new_page.get_by_role("link", name="What if").click()
    new_page.locator('[data-node="node-4"]').drag_to(new_page.locator(".drop"))
    expect(new_page.locator(".whatif pre")).to_have_text("moorage simulate --remove-nodes node-4")
    new_page.locator('[data-node="node-1"] header a').click()
    new_page.get_by_label("How many nodes").fill("2")
    new_page.get_by_role("button", name="added").click()
    new_page.locator('[data-node="node-2"] header a').click()
    new_page.get_by_label("Taint").fill("maintenance=now:NoExecute")
    new_page.get_by_role("button", name="tainted").click()
    new_page.locator('.squares [data-pod^="default/shop"]').first.click()
    new_page.get_by_label("Replicas").fill("20")
    new_page.get_by_role("button", name="try").click()
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
