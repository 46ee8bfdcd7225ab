"""What containers ask for, as integers."""

from __future__ import annotations

import pytest

from moorage.api.requests import CPU, MEMORY, MOST, amount


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (CPU, "100m", 100),
        (MEMORY, "100m", 1),
        (CPU, "1", 1000),
        (CPU, 1, 1000),
        (CPU, 0.5, 500),
        (MEMORY, 0.5, 1),
        (MEMORY, " 1Gi ", 2**30),
        (CPU, True, 0),
        (CPU, "a lot", 0),
        (CPU, "", 0),
        (MEMORY, "9" * 100, MOST),
        (CPU, "-9E", -MOST),
    ],
)
def test_an_amount_is_the_same_however_often_it_is_asked_for(name: str, value: str | float, expected: int) -> None:
    assert [amount(name, value) for _ in range(3)] == [expected] * 3
