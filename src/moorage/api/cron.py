"""The syntax of schedules: five fields of cron, or a name such as @daily."""

from __future__ import annotations

import re
from typing import NamedTuple

from moorage.gotext import quote


class _Bounds(NamedTuple):
    least: int
    most: int
    names: dict[str, int]


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Bounds(0, 59, {}),
    _Bounds(0, 23, {}),
    _Bounds(1, 31, {}),
    _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_NAMED = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = "@every "
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


class ScheduleError(ValueError):
    """The text is no schedule; the message says which part is wrong."""


def check(schedule: str) -> None:
    """Raise a ScheduleError unless the text is a schedule."""
    if not schedule:
        raise ScheduleError("empty spec string")
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        _, space, schedule = schedule.partition(" ")
        if not space:
            raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range")
        schedule = schedule.strip()
    if schedule.startswith("@"):
        _check_name(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _check_range(part, bounds)


def _check_name(schedule: str) -> None:
    if schedule in _NAMED:
        return
    if not schedule.startswith(_EVERY):
        raise ScheduleError(f"unrecognized descriptor: {schedule}")
    duration = schedule.removeprefix(_EVERY)
    if not _DURATION.fullmatch(duration):
        problem = f"time: invalid duration {quote(duration)}"
        raise ScheduleError(f"failed to parse duration {schedule}: {problem}")


def _check_range(text: str, bounds: _Bounds) -> None:
    extent, *steps = text.split("/")
    low, *high = extent.split("-")
    if low in ("*", "?"):
        start, end = bounds.least, bounds.most
    else:
        start = _number(low, bounds.names)
        if len(high) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        end = _number(high[0], bounds.names) if high else start
    step = 1
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    if steps:
        step = _number(steps[0], {})
        end = end if high else bounds.most
    if start < bounds.least:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({bounds.least}): {text}")
    if end > bounds.most:
        raise ScheduleError(f"end of range ({end}) above maximum ({bounds.most}): {text}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not _INTEGER.fullmatch(text):
        raise ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if int(text) < 0:
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
