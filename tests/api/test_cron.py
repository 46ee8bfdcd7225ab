from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api.cron import ScheduleError, check


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
