"""Schedules: five fields of cron, or a name such as @daily, and the times that they mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import product
from typing import NamedTuple, Protocol

from moorage.bounded import remember_short
from moorage.gotext import quote, seconds


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
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_LONGEST = 2**63 / 1e9
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
MAX_LENGTH = 1_000
"""How many characters a schedule may have: each of the 60 minutes by its number needs 170."""
_YEARS = 5
"""How far ahead a time is looked for: the 30th of February never comes."""


class ScheduleError(ValueError):
    """The text is no schedule; the message says which part is wrong."""


class Schedule(Protocol):
    """Times that come again and again."""

    def next(self, after: datetime) -> datetime | None:
        """The first time after a moment, in UTC; None when there is none within five years."""

    def last(self, first: datetime, now: datetime) -> datetime:
        """The last time up to now, when one of them was `first`."""


def check(schedule: str) -> None:
    """Raise a ScheduleError unless the text is a schedule."""
    parse(schedule)


def parse(schedule: str, zone: str = "") -> Schedule:
    """Read a schedule whose fields are meant in a time zone, UTC when it names none."""
    if len(schedule) + len(zone) > MAX_LENGTH:
        raise ScheduleError(f"longer than {MAX_LENGTH:,} characters")
    return _parse(schedule, zone)


@remember_short(1024)
def _parse(schedule: str, zone: str) -> Schedule:
    if not schedule:
        raise ScheduleError("empty spec string")
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        named, space, schedule = schedule.partition(" ")
        if not space:
            raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range")
        zone, schedule = named.partition("=")[2], schedule.strip()
    where = _zone(zone)
    if schedule.startswith(_EVERY):
        return _Every(_interval(schedule))
    if schedule.startswith("@"):
        if schedule not in _NAMED:
            raise ScheduleError(f"unrecognized descriptor: {schedule}")
        schedule = _NAMED[schedule]
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = map(_field, fields, _FIELDS)
    return _Times(minutes, hours, days, months, weekdays, where)


def _zone(name: str) -> tzinfo:
    if not name or name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # slow to import, and few schedules have a zone

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ScheduleError(f"provided bad location {name}: unknown time zone {name}") from None


def _interval(schedule: str) -> timedelta:
    text = schedule.removeprefix(_EVERY)
    length = seconds(text)
    if length is None or abs(length) >= _LONGEST:
        raise ScheduleError(f"failed to parse duration {schedule}: time: invalid duration {quote(text)}")
    return timedelta(seconds=max(1, int(length)))


@dataclass(frozen=True, slots=True)
class _Every:
    """Times at equal distances from wherever one starts."""

    interval: timedelta

    def next(self, after: datetime) -> datetime | None:
        try:
            return after.astimezone(UTC).replace(microsecond=0) + self.interval
        except OverflowError:
            return None

    def last(self, first: datetime, now: datetime) -> datetime:
        return first + (now - first) // self.interval * self.interval


class _Field(NamedTuple):
    values: tuple[int, ...]
    is_open: bool
    """Whether the field says nothing, as `*` does."""


@dataclass(frozen=True, slots=True)
class _Times:
    """All minutes at which a clock on the wall of some place reads what the fields say."""

    minutes: _Field
    hours: _Field
    days: _Field
    months: _Field
    weekdays: _Field
    zone: tzinfo

    def next(self, after: datetime) -> datetime | None:
        first = after.astimezone(self.zone).date()
        for number in range(366 * _YEARS):
            day = first + timedelta(days=number)
            if self._has(day):
                moment = next((moment for moment in self._moments(day, after) if moment > after), None)
                if moment is not None:
                    return moment
        return None

    def last(self, first: datetime, now: datetime) -> datetime:
        known, after, end = first, first, now
        while end - after > timedelta(minutes=1):
            middle = after + (end - after) / 2
            following = self.next(middle)
            if following is not None and following <= now:
                known, after = following, max(middle, following)
            else:
                end = middle
        # The times are whole minutes: between these two there is one more at most.
        following = self.next(after)
        return following if following is not None and following <= now else known

    def _has(self, day: date) -> bool:
        if day.month not in self.months.values:
            return False
        by_date, by_weekday = day.day in self.days.values, day.isoweekday() % 7 in self.weekdays.values
        if self.days.is_open or self.weekdays.is_open:
            return by_date and by_weekday
        return by_date or by_weekday

    def _moments(self, day: date, after: datetime) -> Iterator[datetime]:
        """The times of a day in their order; whole hours that are over may be left out."""
        midnight = datetime(day.year, day.month, day.day, tzinfo=self.zone)
        offsets = {time.utcoffset() for time in (midnight, midnight.replace(fold=1), midnight + timedelta(days=1))}
        if len(offsets) > 1:
            readings = product(self.hours.values, self.minutes.values)
            yield from sorted({moment for reading in readings for moment in self._readings(midnight, *reading)})
            return
        start = midnight.astimezone(UTC)
        for hour in self.hours.values:
            if start + timedelta(hours=hour + 1) > after:
                yield from (start + timedelta(hours=hour, minutes=minute) for minute in self.minutes.values)

    def _readings(self, day: datetime, hour: int, minute: int) -> Iterator[datetime]:
        """When the clock reads this: not at all when the hour is left out, twice when it is repeated."""
        for fold in (0, 1):
            reading = day.replace(hour=hour, minute=minute, fold=fold)
            moment = reading.astimezone(UTC)
            if moment.astimezone(self.zone).replace(fold=fold) == reading:
                yield moment


def _field(text: str, bounds: _Bounds) -> _Field:
    ranges = [_range(part, bounds) for part in filter(None, text.split(","))]
    values = sorted({value for part in ranges for value in part.values})
    return _Field(tuple(values), any(part.is_open for part in ranges))


def _range(text: str, bounds: _Bounds) -> _Field:
    extent, *steps = text.split("/")
    low, *high = extent.split("-")
    is_open = low in ("*", "?")
    if is_open:
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
    return _Field(tuple(range(start, end + 1, step)), is_open and step == 1)


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not _INTEGER.fullmatch(text):
        raise ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if int(text) < 0:
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
