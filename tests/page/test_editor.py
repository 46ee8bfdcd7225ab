"""The editor in a real browser: completed, checked and tried out while somebody types, and saved."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.live.conftest import Live
from tests.page.conftest import opened, served
from tests.plane import PATIENCE

expect.set_options(timeout=120_000)
BEFORE_MARK = """line => { let size = 0;
  for (const node of line.childNodes) {
    if (node.className === 'wrong') return size;
    size += node.textContent.length;
  } }"""
WEB = "#template=default/Deployment/web&panel=edit"


@pytest.fixture(scope="module", autouse=True)
def deployed(live: Live) -> Iterator[None]:
    live.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    live.kubectl("taint", "node", "node-1", "example.com/sla=940:NoSchedule")
    yield
    live.kubectl("taint", "node", "node-1", "example.com/sla-")
    live.kubectl("delete", "deployment", "web")


def editing(page: Page, state: str = WEB) -> None:
    page.evaluate("hash => location.hash = hash", state)
    expect(page.locator("textarea")).to_be_enabled()
    page.locator("textarea").focus()


def typed(page: Page, text: str) -> None:
    page.locator("textarea").fill("")
    page.keyboard.type(text)


@pytest.mark.parametrize("expression", ["taint.key ++", "taint.kex == 'a'", "size(taint.value)", "taint.key == 'a"])
def test_a_broken_expression_has_its_caret_where_cel_check_has_it(new_page: Page, expression: str) -> None:
    command = [sys.executable, "-m", "moorage", "cel", "check", "--env", "taint", expression]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE).stderr.strip()
    editing(new_page)
    new_page.locator("textarea").fill(f"tolerations:\n- expression: {expression}\n")
    expect(new_page.locator(".editor .message")).to_have_count(1)
    expect(new_page.locator(".editor .message b")).to_have_text("line 2: ")
    shown = new_page.locator(".editor .caret").text_content() or ""
    assert shown.endswith(said), (shown, said)
    if found := re.match(r"ERROR: <input>:1:(\d+):", said):
        line = new_page.locator(".under > span").nth(1)
        expect(line.locator("mark.wrong")).not_to_have_count(0)
        assert line.evaluate(BEFORE_MARK) == len("- expression: ") + int(found[1]) - 1, "the mark is where the caret is"


def test_type_and_cost_are_those_of_cel_check(new_page: Page) -> None:
    expression = "taint.key.startsWith('example.com/') && int(taint.value) > 950"
    command = [sys.executable, "-m", "moorage", "cel", "check", "--env", "taint", expression]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    cost = re.search(r"cost +(\d+) of (\d+)", said)
    assert cost
    editing(new_page)
    new_page.locator("textarea").fill(f"tolerations:\n- expression: {expression}\n")
    text = f"line 2: bool, costs {int(cost[1]):,} of {int(cost[2]):,} units"
    expect(new_page.locator(".notes")).to_have_text(text)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = f"affinity:\n  nodeAffinity:\n    {REQUIRED}:\n      nodeSelectorTerms:\n      - "


@pytest.mark.parametrize(
    ("before", "offered"),
    [
        ("tol", "tolerations"),
        ("tolerations:\n- ke", "key"),
        ("tolerations:\n- key: exa", "example.com/sla"),
        ("tolerations:\n- key: example.com/sla\n  value: ", "940"),
        ("tolerations:\n- {key: a, operator: Sem", "SemverGt"),
        ("tolerations:\n- effect: ", "NoExecute"),
        ("nodeSelector:\n  topology.kubernetes.io/z", "topology.kubernetes.io/zone"),
        ("nodeSelector:\n  topology.kubernetes.io/zone: ", "local-a"),
        (f"{AFFINITY}match", "matchCELExpressions"),
        (f"{AFFINITY}matchExpressions:\n        - key: kubernetes.io/h", "kubernetes.io/hostname"),
        (f"{AFFINITY}matchExpressions:\n        - key: kubernetes.io/hostname\n          values: [", "node-2"),
        (f"{AFFINITY}matchCELExpressions:\n        - no", "node"),
        (f"{AFFINITY}matchCELExpressions:\n        - node.labels['", "kubernetes.io/os"),
        ("tolerations:\n- expression: taint.", "timeAdded"),
        ("tolerations:\n- expression: taint.key.starts", "startsWith"),
        ("tolerations:\n- expression: semver.", "compare"),
        ("tolerations:\n- expression: isSem", "isSemver"),
        ("tolerations:\n- expression: taint.key == '", "example.com/sla"),
    ],
    ids=str,
)
def test_what_exists_is_offered(new_page: Page, before: str, offered: str) -> None:
    editing(new_page)
    typed(new_page, before)
    expect(
        new_page.get_by_role("option").filter(has=new_page.locator("b", has_text=re.compile(f"^{re.escape(offered)}$")))
    ).to_have_count(1)


@pytest.mark.parametrize(
    ("before", "offered", "other"),
    [("key", "endsWith", "getFullYear"), ("timeAdded", "getFullYear", "endsWith"), ("value.trim()", "endsWith", None)],
    ids=str,
)
def test_what_can_be_asked_of_a_text_or_a_time_is_offered_there(
    new_page: Page, before: str, offered: str, other: str | None
) -> None:
    editing(new_page)
    typed(new_page, f"tolerations:\n- expression: taint.{before}.")
    options = new_page.get_by_role("option").locator("b")
    expect(options.filter(has_text=re.compile(f"^{offered}$"))).to_have_count(1)
    if other:
        expect(options.filter(has_text=re.compile(f"^{other}$"))).to_have_count(0)


def test_completion_needs_no_mouse_and_is_told_to_screen_readers(new_page: Page) -> None:
    editing(new_page)
    box = new_page.locator("textarea")
    typed(new_page, "tolerations:\n- ")
    expect(new_page.get_by_role("listbox")).to_have_count(0)
    new_page.keyboard.press("Control+Space")
    expect(new_page.get_by_role("listbox")).to_be_visible()
    expect(box).to_have_attribute("aria-controls", "completions")
    new_page.keyboard.type("oper")
    expect(box).to_have_attribute("aria-activedescendant", "completion-0")
    new_page.keyboard.press("Enter")
    expect(box).to_have_value("tolerations:\n- operator: ")
    offered = new_page.get_by_role("listbox").get_by_role("option")
    expect(offered.nth(0)).to_have_attribute("aria-selected", "true")
    new_page.keyboard.press("ArrowDown")
    expect(offered.nth(1)).to_have_attribute("aria-selected", "true")
    new_page.keyboard.press("Tab")
    expect(box).to_have_value("tolerations:\n- operator: Exists")
    expect(new_page.get_by_role("listbox")).to_have_count(0)
    new_page.keyboard.press("Tab")
    expect(box).not_to_be_focused()


def test_a_verdict_leads_to_the_part_of_the_expression_that_decided(live: Live, new_page: Page) -> None:
    editing(new_page, f"{WEB}&node=node-1")
    expression = "taint.key == 'example.com/sla' && int(taint.value) > 950"
    new_page.locator("textarea").fill(f"tolerations:\n- expression: {expression}\n")
    part = new_page.locator("ul.decided a")
    expect(part.locator("mark")).to_have_text("int(taint.value) > 950")
    expect(new_page.locator("ul.decided")).to_contain_text("is false: taint.value is '940'")
    expect(new_page.locator(".under mark.decided")).to_have_text("int(taint.value) > 950")
    part.click()
    expect(new_page).to_have_url(re.compile("at=tolerations"))
    expect(new_page.locator("textarea")).to_be_focused()
    chosen = (
        "document.activeElement.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd)"
    )
    assert new_page.evaluate(chosen) == "int(taint.value) > 950"
    expect(new_page.locator('.tile.refused[data-node="node-1"] .reason')).to_contain_text("int(taint.value) > 950")


def test_rules_are_saved_when_somebody_has_seen_what_changes(live: Live, new_page: Page) -> None:
    mine = [{"key": "rival", "operator": "Exists"}]
    patch = {"spec": {"template": {"spec": {"tolerations": mine}}}}
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    live.http("PATCH", f"{path}?fieldManager=rival", patch, media_type="application/merge-patch+json")
    editing(new_page)
    expect(new_page.locator("textarea")).to_have_value("tolerations:\n- key: rival\n  operator: Exists\n")
    expect(new_page.get_by_role("button", name="Save…")).to_be_disabled()
    new_page.locator("textarea").fill("tolerations:\n- key: example.com/sla\n  operator: Gt\n  value: '900'\n")
    expect(new_page.locator(".editor")).to_contain_text("replaced one after the other")
    new_page.get_by_role("button", name="Save…").click()
    expect(new_page).to_have_url(re.compile("panel=save"))
    expect(new_page.locator(".diff .removed").first).to_contain_text("- key: rival")
    expect(new_page.locator(".diff .added").first).to_contain_text("- key: example.com/sla")
    expect(new_page.locator(".plan")).to_contain_text("rival owns .spec.template.spec.tolerations")
    assert live.http("GET", path)[1]["spec"]["template"]["spec"]["tolerations"] == mine
    new_page.get_by_role("button", name="Take over from rival and save").click()
    expect(new_page.locator(".saving")).to_contain_text("Saved to Deployment default/web.")
    stored = live.http("GET", path)[1]["spec"]["template"]["spec"]["tolerations"]
    assert stored == [{"key": "example.com/sla", "operator": "Gt", "value": "900"}]
    expect(new_page.get_by_role("button", name="Save…")).to_be_disabled()


def test_an_address_brings_back_what_was_being_tried(new_page: Page) -> None:
    editing(new_page)
    new_page.locator("textarea").fill("nodeSelector:\n  kubernetes.io/hostname: node-2\n")
    expect(new_page.locator(".tile.best")).to_have_count(1)
    expect(new_page).to_have_url(re.compile("rules="))
    url = new_page.url
    new_page.goto("about:blank")
    new_page.goto(url)
    expect(new_page.locator("textarea")).to_have_value("nodeSelector:\n  kubernetes.io/hostname: node-2\n")
    expect(new_page.locator('.tile.best[data-node="node-2"]')).to_have_count(1)


def test_a_page_that_only_reads_has_no_way_to_save(live: Live, browser: Browser, tmp_path: Path) -> None:
    with served(live.kubeconfig, tmp_path) as url, opened(browser, url) as page:
        page.wait_for_selector(".tile")
        expect(page.locator(".top")).to_contain_text("only reads")
        expect(page.get_by_role("link", name="Stories")).to_have_count(0)
        editing(page)
        page.locator("textarea").fill("tolerations:\n- operator: Exists\n")
        expect(page.locator(".editor")).to_contain_text("rules can be tried out, not saved")
        expect(page.get_by_role("button", name="Save…")).to_have_count(0)
        secret = page.evaluate("sessionStorage.getItem('moorage-page')")
        body = json.dumps({"template": "default/Deployment/web", "rules": ""})
        with closing(HTTPConnection("127.0.0.1", urlsplit(url).port, timeout=PATIENCE)) as connection:
            connection.request("POST", "/ui/v1/save", body, {"x-moorage-page": secret})
            answer = connection.getresponse()
            assert answer.status == 403
            assert "only reads" in json.loads(answer.read())["message"]
