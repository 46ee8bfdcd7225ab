from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api.cron import ScheduleError, check, parse


@pytest.mark.parametrize(
    "schedule",
    ["* * * * *", "*/5 0-6 1,15 jan-MAR ?", "0 0 1 1 0", "5/15 * * * mon", "@daily", "@every 1h30m", "0 22 * * 1-5"],
)
def test_schedules_of_cron_are_read(schedule: str) -> None:
    check(schedule)


PROBLEMS = [
    ("", "empty spec string"),
    ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
    ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
    ("60 * * * *", "end of range (60) above maximum (59): 60"),
    ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
    ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
    ("*/0 * * * *", "step of range should be a positive number: */0"),
    ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
    ("1/2/3 * * * *", "too many slashes: 1/2/3"),
    ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
    ("* * * * 7", "end of range (7) above maximum (6): 7"),
    ("@often", "unrecognized descriptor: @often"),
    ("@every 1h 2m", 'failed to parse duration @every 1h 2m: time: invalid duration "1h 2m"'),
    (f"@every {'9' * 2_000}", "longer than 1,000 characters"),
    ("0," * 500 + "0 * * * *", "longer than 1,000 characters"),
    ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
]


@pytest.mark.parametrize(("schedule", "problem"), PROBLEMS)
def test_what_is_no_schedule_is_explained(schedule: str, problem: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        check(schedule)
    assert str(refused.value) == problem


@given(st.text(alphabet="*/-,?@ 0123456789jansuTZ=", max_size=30))
def test_any_text_is_a_schedule_or_explained(schedule: str) -> None:
    try:
        check(schedule)
    except ScheduleError as error:
        assert str(error)  # noqa: PT017


BERLIN = "Europe/Berlin"
TIMES = [
    ("* * * * *", "", "2026-01-01T00:00:30Z", ["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"]),
    ("*/20 9-10 * * *", "", "2026-01-01T09:30:00Z", ["2026-01-01T09:40:00Z", "2026-01-01T10:00:00Z"]),
    ("0 0 29 2 *", "", "2026-01-01T00:00:00Z", ["2028-02-29T00:00:00Z"]),
    ("0 0 30 2 *", "", "2026-01-01T00:00:00Z", []),
    ("0 0 1,15 * mon", "", "2026-06-01T00:00:00Z", ["2026-06-08T00:00:00Z", "2026-06-15T00:00:00Z"]),
    ("0 0 */2 * mon", "", "2026-06-01T00:00:00Z", ["2026-06-03T00:00:00Z"]),
    ("0 0 * * mon", "", "2026-06-01T00:00:00Z", ["2026-06-08T00:00:00Z"]),
    ("@monthly", "", "2026-01-31T00:00:00Z", ["2026-02-01T00:00:00Z"]),
    ("@every 90s", "", "2026-01-01T00:00:00.5Z", ["2026-01-01T00:01:30Z", "2026-01-01T00:03:00Z"]),
    ("@every 10ms", "", "2026-01-01T00:00:00Z", ["2026-01-01T00:00:01Z"]),
    ("0 9 * * *", "Asia/Tokyo", "2026-01-01T00:00:00Z", ["2026-01-02T00:00:00Z"]),
    ("TZ=Asia/Tokyo 0 9 * * *", "", "2026-01-01T00:00:00Z", ["2026-01-02T00:00:00Z"]),
    ("30 2 * * *", BERLIN, "2026-03-28T12:00:00Z", ["2026-03-30T00:30:00Z"]),
    ("30 2 * * *", BERLIN, "2026-10-24T12:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
]


@pytest.mark.parametrize(("schedule", "zone", "after", "times"), TIMES)
def test_the_next_times_of_a_schedule(schedule: str, zone: str, after: str, times: list[str]) -> None:
    moment = datetime.fromisoformat(after)
    for time in times:
        following = parse(schedule, zone).next(moment)
        assert following == datetime.fromisoformat(time)
        moment = following
    if not times:
        assert parse(schedule, zone).next(moment) is None


def test_a_zone_that_does_not_exist_is_explained() -> None:
    with pytest.raises(ScheduleError, match="unknown time zone Mars/Olympus"):
        parse("* * * * *", "Mars/Olympus")


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),
    st.sets(st.integers(0, 59), min_size=1, max_size=4),
    st.sets(st.integers(0, 23), min_size=1, max_size=4),
    st.sampled_from(["UTC", BERLIN, "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]),
)
def test_the_next_time_is_the_first_minute_that_reads_so(
    moment: datetime, minutes: set[int], hours: set[int], zone: str
) -> None:
    after = moment.replace(tzinfo=UTC)
    schedule = f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *"
    expected = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
    while not ((read := expected.astimezone(ZoneInfo(zone))).minute in minutes and read.hour in hours):
        expected += timedelta(minutes=1)
    assert parse(schedule, zone).next(after) == expected


@pytest.mark.parametrize(
    ("schedule", "last"),
    [
        ("* * * 1 *", "2026-01-31T23:59:00Z"),
        ("* * 1 1 *", "2026-01-01T23:59:00Z"),
        ("*/7 3 * * *", "2026-06-01T03:56:00Z"),
        ("0 0 29 2 *", "2024-02-29T00:00:00Z"),
        ("@every 7m", "2026-06-01T11:57:00Z"),
    ],
)
def test_the_last_of_a_million_missed_times_is_found_in_a_few_steps(
    schedule: str, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, asked = parse(schedule), []
    following = type(parsed).next

    def counted(self: object, after: datetime) -> datetime | None:
        asked.append(after)
        return following(parsed, after)

    monkeypatch.setattr(type(parsed), "next", counted)
    first = parsed.next(datetime(2020, 1, 1, tzinfo=UTC))
    assert first is not None
    assert parsed.last(first, datetime(2026, 6, 1, 12, tzinfo=UTC)) == datetime.fromisoformat(last)
    assert len(asked) < 50


@given(
    st.datetimes(datetime(2024, 1, 1), datetime(2026, 1, 1)),
    st.integers(0, 5_000),
    st.sampled_from(["* * * * *", "*/7 3 * * *", "0,1 9 * * mon", "30 2 * * *", "@every 13m"]),
    st.sampled_from(["UTC", BERLIN]),
)
def test_the_last_time_is_the_one_before_none_that_is_over(
    moment: datetime, minutes: int, schedule: str, zone: str
) -> None:
    parsed, start = parse(schedule, zone), moment.replace(tzinfo=UTC)
    first = following = parsed.next(start)
    assert first is not None
    now = first + timedelta(minutes=minutes)
    while following is not None and following <= now:
        expected, following = following, parsed.next(following)
    assert parsed.last(first, now) == expected
