"""Selectors of devices that take long are evaluated beside the event loop, and the answer is the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from moorage.api.pod import Pod
from moorage.match.deferral import NotReady, deferring, is_bounded, set_pace
from moorage.scheduler.devices import allocator
from moorage.scheduler.devices.allocator import Search
from moorage.scheduler.framework import Reject
from tests.scheduler.devices.devicekit import DRIVER, Data, claim, device, resource_slice
from tests.scheduler.devices.devices_on_table import NOT_ENOUGH, DevicesOnTable, exactly

_MOST_QUESTIONS = 1000
NUMBERS = f"[{','.join(map(str, range(200)))}]"
MINE = f'device.attributes["{DRIVER}"]'
DISTINCT: dict[str, Any] = {"constraints": [{"distinctAttribute": f"{DRIVER}/model"}]}


def costly(test: str) -> str:
    """An expression that is never evaluated at once."""
    return f"{NUMBERS}.all(a, {NUMBERS}.all(b, a + b >= 0)) && {test}"


def patient_why(shop: DevicesOnTable, given: Pod) -> tuple[dict[str, str], int]:
    """Why nodes will not do, asked again whenever something must be worked out first; and how often that was."""
    for deferred in range(_MOST_QUESTIONS):
        try:
            with deferring():
                return shop.why(given), deferred
        except NotReady as later:
            later.work()
    raise AssertionError("no answer")


def test_costly_selectors_are_deferred_and_say_the_same() -> None:
    shop = DevicesOnTable(*(f"n{number}" for number in range(4)))
    shop.offer(*(resource_slice(f"n{number}", device("a", model=number), device("b", model=9)) for number in range(4)))
    given = shop.ask(claim("c", exactly(selector=costly(f"{MINE}.model == 2"))))
    reasons, deferred = patient_why(shop, given)
    assert reasons == {f"n{number}": NOT_ENOUGH for number in (0, 1, 3)}
    assert deferred == 5, "once for each model"
    assert shop.choose(given, "n2") == [["a"]]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The steps of searches; of each whether it was made while others had to wait for the answer."""
    made: list[bool] = []
    monkeypatch.setattr(allocator, "pause", lambda: made.append(is_bounded()))
    return made


def hopeless(name: str) -> Data:
    """A claim for which everything must be tried: one more device than there are different ones."""
    return claim(name, exactly(9), **DISTINCT)


def test_a_search_that_takes_long_goes_on_beside_the_event_loop(steps: list[bool]) -> None:
    shop = DevicesOnTable("n", "other")
    shop.offer(resource_slice("n", *(device(f"d{number}", model=number % 8) for number in range(18))))
    given = shop.ask(hopeless("c"))
    reasons, deferred = patient_why(shop, given)
    assert reasons == {"n": NOT_ENOUGH, "other": NOT_ENOUGH}
    assert deferred == 1
    assert sum(steps) < 5_000 < len(steps)
    made = len(steps)
    assert patient_why(shop, given) == (reasons, 0)
    assert len(steps) == made, "the result is kept"


def test_a_search_that_took_long_is_made_again_when_a_device_is_taken(steps: list[bool]) -> None:
    shop = DevicesOnTable("n")
    devices = [device(f"d{number}", model=number % 8) for number in range(18)]
    shop.offer(resource_slice("n", *devices, device("last", model=8)))
    given = shop.ask(claim("c", exactly(9), **DISTINCT))
    assert patient_why(shop, given) == ({}, 0)
    shop.choose(shop.ask(claim("d", exactly(selector=f"{MINE}.model == 8"))), "n")
    reasons, deferred = patient_why(shop, given)
    assert (reasons, deferred) == ({"n": NOT_ENOUGH}, 1)


def test_a_search_can_be_interrupted_anywhere() -> None:
    shop = DevicesOnTable("n")
    shop.offer(resource_slice("n", *(device(f"d{number}", model=number // 2 % 8) for number in range(16))))
    wanted = [exactly(4, name="a"), exactly(3, name="b", selector=f"{MINE}.model > 3"), exactly(name="c")]
    given = shop.ask(claim("c", *wanted, **DISTINCT))
    cycle = shop.begin(given)
    answers = cycle.data[shop.plugin.name].answers
    assert list(answers.codes(np.array([0]))) == [0]
    views = next(group for group in answers.groups if group)
    whole = Search(answers.plan, views, {}).run()
    search, times = Search(answers.plan, views, {}), 0

    def interrupt() -> None:
        nonlocal times
        times += 1
        raise InterruptedError

    def beside() -> Any:
        set_pace(interrupt)
        while True:
            with suppress(InterruptedError):
                return search.run()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(beside).result() == whole
    assert times > 10


def test_a_pod_with_hundreds_of_requests_is_decided_about() -> None:
    shop = DevicesOnTable("n")
    shop.offer(*(resource_slice("n", *(device(f"d{at}") for at in range(100)), name=f"s{each}") for each in range(4)))
    claims = [claim(f"c{each}", *(exactly(name=f"r{at}") for at in range(30))) for each in range(10)]
    chosen = shop.choose(shop.ask(*claims), "n")
    assert [len(devices) for devices in chosen] == [30] * 10


def test_claims_with_too_many_selectors_are_refused_with_a_sentence() -> None:
    shop = DevicesOnTable("n")
    claims = [
        claim(f"c{each}", *(exactly(name=f"r{at}", selector=f"{MINE}.model > {each * 30 + at}") for at in range(30)))
        for each in range(20)
    ]
    answer = shop.plugin.pre_filter(shop.cycle(shop.ask(*claims)))
    assert isinstance(answer, Reject)
    assert answer.reason == "the claims of the pod have more than 512 different selectors, or more than 1 MiB of them"
