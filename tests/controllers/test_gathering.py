"""A controller asks a bounded number of things at a time, and of numbers in texts only those that can be."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from moorage.api.meta import ObjectMeta
from moorage.api.pod import Pod
from moorage.controllers.frame.gathering import IN_FLIGHT, gather_some, raise_first
from moorage.controllers.hollow.overrides import EXIT_CODE, exit_code
from moorage.controllers.owners.replicas import scaled
from moorage.controllers.workloads.jobindexes import FAILURES, INDEX, Indexes, failures, index_of


async def test_a_thousand_requests_are_made_some_at_a_time_in_their_order() -> None:
    now = most = 0

    async def request(number: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        if number == 700:
            raise ValueError(number)
        return number

    results = await gather_some(request(number) for number in range(1_000))
    assert [result for result in results if not isinstance(result, ValueError)] == [*range(700), *range(701, 1_000)]
    assert most == IN_FLIGHT
    with pytest.raises(ValueError, match="700"):
        raise_first(results)


LONG = "9" * 5_000


def test_a_number_with_thousands_of_digits_is_no_number_to_a_controller() -> None:
    assert scaled(f"{LONG}%", 10, up=True) == 0
    annotations = dict.fromkeys((INDEX, FAILURES, EXIT_CODE), LONG)
    pod = msgspec.structs.replace(Pod(), metadata=ObjectMeta(annotations=annotations))
    assert index_of(pod) is None
    assert failures(pod) == exit_code(pod) == 0
    assert str(Indexes.parse(f"1,{LONG},3-{LONG},5", 10)) == "1,5"
