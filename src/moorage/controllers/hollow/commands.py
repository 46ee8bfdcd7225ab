"""Duration and exit code of the simplest commands: `sleep 30`, `exit 1`, `sh -c 'echo hello; sleep 5; false'`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import NamedTuple

from moorage.api.pod import Pod
from moorage.names import lenient_int64

_SHELLS = ("sh", "bash", "ash", "dash")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)", re.ASCII)
_CODES = {"true": 0, ":": 0, "echo": 0, "false": 1}
_ANYTHING_ELSE = frozenset("$`()<>|*?~#{}[]!\\\n")
"""What makes a script more than a list of commands."""
_LONGEST = 1_000
"""Characters of a command that is parsed: longer ones are not known."""


class Course(NamedTuple):
    """How long something runs, `inf` for ever, and with which code it ends."""

    seconds: float
    code: int


def course_of(pod: Pod) -> Course | None:
    """What the containers of a pod would do together; None when that is not known of one of them."""
    courses = [
        _course(each.image, each.command, each.args)
        if len(each.image) + sum(map(len, each.command)) + sum(map(len, each.args)) <= _LONGEST
        else None
        for each in pod.spec.containers
    ]
    known = [each for each in courses if each is not None]
    if not known or len(known) < len(courses):
        return None
    return Course(max(each.seconds for each in known), max(each.code for each in known))


@lru_cache(maxsize=1024)
def _course(image: str, command: tuple[str, ...], args: tuple[str, ...]) -> Course | None:
    if not command:
        name = re.split("[:@]", image.rpartition("/")[2])[0]
        return Course(inf, 0) if name == "pause" and not args else None
    words = [*command, *args]
    if _name(words[0]) in _SHELLS:
        return _script(words[2]) if len(words) == 3 and words[1] == "-c" else None
    return _simple(words)


def _script(text: str) -> Course | None:
    """Commands one after another; after `&&` only when the one before has ended well."""
    if _ANYTHING_ELSE & set(text):
        return None
    try:
        words = list(shlex.shlex(text.strip(), posix=True, punctuation_chars=";&"))
    except ValueError:
        return None
    seconds, code, simple, skip = 0.0, 0, list[str](), False
    for word in [*words, ";"]:
        if word not in (";", "&&"):
            simple.append(word)
            continue
        if simple and not skip:
            course = _simple(simple)
            if course is None:
                return None
            seconds, code = seconds + course.seconds, course.code
            if simple[0] == "exit":
                break
        simple, skip = [], word == "&&" and (skip or code != 0)
    return Course(seconds, code)


def _simple(words: Sequence[str]) -> Course | None:
    name = _name(words[0])
    if name == "echo" or (name in _CODES and len(words) == 1):
        return Course(0.0, _CODES[name])
    if name == "sleep" and len(words) == 2:
        return _sleep(words[1])
    if words[0] == "exit" and len(words) <= 2:
        code = words[1] if len(words) == 2 else "0"
        number = lenient_int64(code)
        return None if number is None or number < 0 else Course(0.0, number & 255)
    return None


def _sleep(text: str) -> Course | None:
    if text in ("inf", "infinity"):
        return Course(inf, 0)
    match = _TIME.fullmatch(text)
    return Course(float(match[1]) * _UNITS[match[2]], 0) if match else None


def _name(word: str) -> str:
    return word.rpartition("/")[2]
