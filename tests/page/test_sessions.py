"""Who may use the page."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from moorage.page.child import PageProcess
from moorage.page.sessions import SESSIONS_MAX, TOKENS_MAX, Kept, Sessions, read
from tests.store.smalldisk import fill, small_disk


def test_a_token_opens_one_page() -> None:
    sessions = Sessions()
    token = sessions.token()
    secret = sessions.exchange(token)
    assert secret is not None
    assert sessions.knows(secret)
    assert sessions.exchange(token) is None
    assert not sessions.knows(token)
    assert sessions.exchange("") is None
    assert not sessions.knows("")


def test_tokens_and_pages_are_bounded() -> None:
    sessions = Sessions()
    first = sessions.token()
    for _ in range(TOKENS_MAX):
        sessions.token()
    assert sessions.exchange(first) is None
    secrets = [sessions.exchange(sessions.token()) for _ in range(SESSIONS_MAX + 1)]
    assert secrets[0] is not None
    assert secrets[-1] is not None
    assert not sessions.knows(secrets[0])
    assert sessions.knows(secrets[-1])


def test_a_page_stays_open_over_a_restart_and_the_file_holds_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "page.json"
    sessions = Sessions(file)
    token = sessions.token()
    secret = sessions.exchange(token)
    assert secret is not None
    assert secret not in file.read_text()
    assert token not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = Sessions(file)
    assert again.knows(secret)
    assert again.exchange(token) is None


@pytest.mark.parametrize("text", ["[", "", '{"port": 70000, "sessions": ["a"]}', '{"port": -1, "sessions": ["a"]}'])
def test_a_damaged_file_closes_the_pages_that_were_open(tmp_path: Path, text: str) -> None:
    file = tmp_path / "page.json"
    file.write_text(text)
    assert read(file) == Kept()


async def test_on_a_full_disk_open_pages_go_on_and_no_page_is_offered_that_cannot_open(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        sessions = Sessions(disk / "page.json")
        token = sessions.token()
        fill(disk)
        secret = sessions.exchange(token)
        assert secret is not None
        assert sessions.knows(secret)
        assert not sessions.is_kept
        page = PageProcess(disk / "page.json", ())
        assert page.start() == ""
        await page.stop()
        (disk / "filler").unlink()
        page = PageProcess(disk / "page.json", ())
        assert page.start()
        await page.stop()


def test_who_listened_while_nobody_served_gets_nothing_from_it(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "page.json")
    sessions.begin(8001)
    secret = sessions.exchange(sessions.token())
    assert secret is not None
    key = sessions.kept.key
    again = Sessions(tmp_path / "page.json")
    again.begin(8001)
    assert again.knows(secret), "a page that is open goes on where it was"
    assert not again.is_starter(key)
    assert read(tmp_path / "page.json").key == again.kept.key
    elsewhere = Sessions(tmp_path / "page.json")
    elsewhere.begin(8002)
    assert not elsewhere.knows(secret), "its old port belongs to somebody else now, who is told it"
