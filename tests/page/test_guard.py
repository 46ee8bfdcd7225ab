"""Everything else that runs on this machine, or in the same browser, is kept out."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection, HTTPMessage
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.live.conftest import Live
from tests.page.conftest import address
from tests.plane import PATIENCE


class Answer(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes


def ask(live: Live, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
    port = urlsplit(live.page).port
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())


def exchanged(live: Live) -> str:
    token = urlsplit(address(live)).fragment.removeprefix("token=")
    answer = ask(live, "POST", "/ui/v1/session", msgspec.json.encode({"token": token}))
    assert answer.status == 200
    secret: str = msgspec.json.decode(answer.body)["secret"]
    return secret


def test_only_a_page_that_was_opened_with_a_token_is_answered(live: Live) -> None:
    secret = exchanged(live)
    assert ask(live, "GET", "/ui/v1/placement", x_moorage_page=secret).status == 200
    for wrong in ("", "guess", secret[:-1]):
        assert ask(live, "GET", "/ui/v1/placement", x_moorage_page=wrong).status == 401
    assert ask(live, "POST", "/ui/v1/token", b'{"key": "guess"}').status == 401


def test_a_browser_that_looks_ahead_does_not_use_up_the_token(live: Live) -> None:
    url = address(live)
    assert ask(live, "GET", "/").status == 200
    assert ask(live, "GET", "/ui/v1/session").status == 405
    token = urlsplit(url).fragment.removeprefix("token=")
    body = msgspec.json.encode({"token": token})
    for purpose in ("prefetch", "prefetch;prerender"):
        assert ask(live, "POST", "/ui/v1/session", body, sec_purpose=purpose).status == 403
    assert ask(live, "POST", "/ui/v1/session", body).status == 200
    assert ask(live, "POST", "/ui/v1/session", body).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example:80"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
def test_other_pages_and_rebound_names_are_refused(live: Live, headers: dict[str, str]) -> None:
    secret = exchanged(live)
    for method, path in (("GET", "/"), ("GET", "/ui/v1/placement"), ("POST", "/ui/v1/check"), ("POST", "/ui/v1/save")):
        assert ask(live, method, path, b"", x_moorage_page=secret, **headers).status == 403, path


def test_every_response_forbids_what_the_page_does_not_need(live: Live) -> None:
    for path in ("/", "/app.js", "/ui/v1/placement", "/nothing"):
        policy = ask(live, "GET", path).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy


def test_files_beside_the_page_are_not_served(live: Live) -> None:
    for path in ("/../server.py", "/..%2fserver.py", "/static/index.html", "/vendor/../server.py"):
        assert ask(live, "GET", path).status in (400, 404), path


@pytest.mark.parametrize("body", [b"", b'[["drain", "\xff"]]', b"[" * 10_000, b'[["drain", 1]]'], ids=repr)
def test_a_question_that_cannot_be_read_is_answered_with_400(live: Live, body: bytes) -> None:
    assert ask(live, "POST", "/ui/v1/simulate", body, x_moorage_page=exchanged(live)).status == 400


def test_rules_that_are_far_too_long_are_refused_at_once(live: Live) -> None:
    secret = exchanged(live)
    live.kubectl("create", "deployment", "long", "--image=nginx")
    rules = "nodeSelector:\n" + "".join(f"  k{number}: v\n" for number in range(50_000))
    body = msgspec.json.encode({"template": "default/Deployment/long", "rules": rules})
    answer = ask(live, "POST", "/ui/v1/try", body, x_moorage_page=secret)
    assert "more than 65,536 characters" in msgspec.json.decode(answer.body)["errors"][0]["message"]
    live.kubectl("delete", "deployment", "long")
