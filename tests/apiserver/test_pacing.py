"""Long lists give way to others."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from moorage.api import labels
from moorage.api.labels import MAX_REQUIREMENTS, SelectorError
from moorage.apiserver.base.pacing import SLICE, in_slices
from tests.apiserver.asked import Asked


async def test_others_run_while_a_long_list_is_worked_through() -> None:
    turns, done = count(), asyncio.Event()

    async def others() -> None:
        while not done.is_set():
            next(turns)
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    moments = count(step=SLICE * 1.5)
    assert [item async for item in in_slices(range(1_000), lambda: next(moments))] == list(range(1_000))
    assert next(turns) > 50
    done.set()
    await task


@pytest.mark.parametrize("part", ["!a{}", "a{}=b", "a{} in (b,c)"])
def test_a_selector_has_a_bounded_number_of_requirements(part: str) -> None:
    most = [part.format(number) for number in range(MAX_REQUIREMENTS)]
    assert len(labels.parse(",".join(most)).requirements) == MAX_REQUIREMENTS
    with pytest.raises(SelectorError, match="more than 200 requirements; ask for fewer, or name values in a set"):
        labels.parse(",".join([*most, "z"]))
    values = ",".join(f"v{number}" for number in range(5_000))
    assert len(labels.parse(f"a in ({values})").requirements) == 1


async def test_too_many_requirements_are_refused_with_a_sentence(ask: Asked) -> None:
    for kind, part in (("labelSelector", "!a{}"), ("fieldSelector", "metadata.name!=a{}")):
        query = ",".join(part.format(number) for number in range(MAX_REQUIREMENTS + 1))
        status, told = await ask.told("GET", f"/api/v1/configmaps?{kind}={query}")
        assert status == 400
        assert told["message"] == (
            "unable to parse selector: more than 200 requirements; ask for fewer, or name values in a set"
        )
