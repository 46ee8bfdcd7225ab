"""Logs can be read by people who know Kubernetes, and by their machines."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.client.errors import Conflict, Missing, Unavailable, is_race
from moorage.logs import COMPONENT, Log, log_handler, logging_to

LOG, STORE = Log("moorage.client.test"), Log("moorage.store.test")


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    before = logging.getLogger("moorage").level
    yield
    assert logging.getLogger("moorage").level == before


def written(file: Path, form: str = "text", verbosity: int = 0) -> list[str]:
    with logging_to(log_handler(file), "scheduler", verbosity, form):
        LOG.info("Bound pod", v=2, pod=("default", "web"), node="a")
        LOG.info("Became leader", lease=("kube-system", "kube-scheduler"), attempts=3, first=True, nothing=None)
        LOG.warning("Value\nnot read", taint='sla="high"', err=ValueError("line one\nline two"))
        LOG.warning("Binding failed", benign=True, err="too late")
        STORE.info("Opened")
    return file.read_text().splitlines()


def test_a_line_has_level_time_process_place_message_component_and_pairs(tmp_path: Path) -> None:
    lines = written(tmp_path / "log")
    header = rf"[IW]\d{{4}} \d\d:\d\d:\d\d\.\d{{6}} +{os.getpid()} test_logs\.py:\d+\] "
    assert all(re.match(header, line) for line in lines)
    assert [line[0] + line.split("] ", 1)[1] for line in lines] == [
        'I"Became leader" component="scheduler" lease="kube-system/kube-scheduler" attempts=3 first=true',
        'W"Value\\nnot read" component="scheduler" taint="sla=\\"high\\"" err="line one\\nline two"',
        'I"Opened" component="apiserver"',
    ]


def test_json_has_the_same_in_fields(tmp_path: Path) -> None:
    bound, leader, warning, benign, _ = map(json.loads, written(tmp_path / "log", "json", 4))
    assert (bound["msg"], bound["v"], bound["pod"]) == ("Bound pod", 2, {"name": "web", "namespace": "default"})
    assert (leader["level"], leader["component"], leader["attempts"], leader["first"]) == ("info", "scheduler", 3, True)
    assert (warning["level"], warning["err"]) == ("warning", "line one\nline two")
    assert "v" not in warning
    assert benign["v"] == 4


def test_more_is_logged_at_a_higher_verbosity(tmp_path: Path) -> None:
    assert [len(written(tmp_path / f"log{verbosity}", verbosity=verbosity)) for verbosity in (0, 2, 4)] == [3, 4, 5]


def test_an_exception_is_logged_with_its_place(tmp_path: Path) -> None:
    for form in ("text", "json"):
        with logging_to(log_handler(tmp_path / form), "controllers", 0, form):
            try:
                os.environ["SURPRISE"]
            except KeyError:
                LOG.exception("Component failed")
    assert "Traceback" in (tmp_path / "text").read_text()
    (line,) = (tmp_path / "json").read_text().splitlines()
    assert "SURPRISE" in json.loads(line)["stacktrace"]


def test_what_libraries_log_has_the_same_form(tmp_path: Path) -> None:
    with logging_to(log_handler(tmp_path / "log"), "apiserver", 0, "text"):
        logging.getLogger("asyncio").warning("task %d was slow", 7)
    assert '] "task 7 was slow" component="apiserver" logger="asyncio"' in (tmp_path / "log").read_text()


def test_components_of_one_process_are_told_apart(tmp_path: Path) -> None:
    with logging_to(log_handler(tmp_path / "log"), "moorage", 0, "text"):
        token = COMPONENT.set("controllers")
        LOG.info("Became leader")
        COMPONENT.reset(token)
        LOG.info("Became leader")
    assert re.findall('component="(.*)"', (tmp_path / "log").read_text()) == ["controllers", "moorage"]


def test_a_file_that_was_moved_away_is_begun_again(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with logging_to(log_handler(file), "apiserver", 0, "text"):
        LOG.info("First")
        file.rename(tmp_path / "log.1")
        LOG.info("Second")
    assert "First" in (tmp_path / "log.1").read_text()
    assert "Second" in file.read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_what_a_full_disk_does_not_take_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(log_handler(Path("/dev/full")), "apiserver", 0, "text"):
        LOG.info("Became leader")
    assert '"Became leader" component="apiserver"' in capsys.readouterr().err


@pytest.mark.parametrize(("error", "race"), [(Conflict, True), (Missing, True), (Unavailable, False)])
def test_a_race_is_benign(error: type[Conflict], race: bool) -> None:
    assert is_race(error(409, "", "")) is race
