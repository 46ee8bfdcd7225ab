"""How long the simplest commands run, and with which code they end."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest

from moorage.api.pod import Pod
from moorage.controllers.hollow.commands import Course, course_of


def played(*containers: dict[str, Any]) -> Course | None:
    return course_of(msgspec.convert({"spec": {"containers": list(containers)}}, Pod))


@pytest.mark.parametrize(
    ("command", "course"),
    [
        (["sleep", "300"], Course(300, 0)),
        (["/bin/sleep", "1.5m"], Course(90, 0)),
        (["sleep", "infinity"], Course(inf, 0)),
        (["/bin/true"], Course(0, 0)),
        (["false"], Course(0, 1)),
        (["/bin/sh", "-c", "exit 1"], Course(0, 1)),
        (["sh", "-c", "exit"], Course(0, 0)),
        (["bash", "-c", "echo 'all is well'; sleep 5 && sleep 1h;exit 3; sleep 9"], Course(3605, 3)),
        (["sh", "-c", "false && sleep 5 && sleep 6; sleep 1"], Course(1, 0)),
        (["sh", "-c", "false"], Course(0, 1)),
    ],
)
def test_a_simple_command_is_understood(command: list[str], course: Course) -> None:
    assert played({"command": command}) == course
    assert played({"command": command[:1], "args": command[1:]}) == course


@pytest.mark.parametrize(
    "command",
    [
        ["nginx"],
        ["sleep"],
        ["sleep", "soon"],
        ["sleep", "1", "2"],
        ["sh", "-x", "-c", "exit 1"],
        ["sh", "script.sh"],
        ["sh", "-c", "exit $(( $RANDOM / 16384 ))"],
        ["sh", "-c", "sleep 5 & nginx"],
        ["sh", "-c", "sleep 5 || exit 1"],
        ["sh", "-c", "if true; then exit 1; fi"],
        ["sh", "-c", "echo 'unfinished"],
        ["sh", "-c", "exit -1"],
        ["sh", "-c", "echo a\nexit 1"],
        ["sh", "-c", f"exit {'9' * 900}"],
        ["sh", "-c", "true; " * 1_000],
    ],
)
def test_of_any_other_command_nothing_is_said(command: list[str]) -> None:
    assert played({"command": command}) is None


@pytest.mark.parametrize("image", ["pause", "pause:3.10", "example.com:5000/pause:3.10", "pause@sha256:0"])
def test_pause_never_ends(image: str) -> None:
    assert played({"image": image}) == Course(inf, 0)


def test_other_images_do_what_nobody_knows() -> None:
    assert played({"image": "pauses:1"}) is None
    assert played({"image": "busybox:1", "args": ["sleep", "5"]}) is None
    assert played() is None


def test_a_pod_ends_with_its_last_container_and_fails_with_any() -> None:
    assert played({"command": ["sleep", "5"]}, {"command": ["false"]}) == Course(5, 1)
    assert played({"command": ["sleep", "5"]}, {"image": "web:1"}) is None
