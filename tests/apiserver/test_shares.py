"""Users share what there is: nobody gets everything, and who waits is served in turn."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.base.shares import Seats, Shared, TooMany


def taken(shared: Shared, user: str) -> int:
    """How many a user gets who takes as many as possible."""
    count = 0
    while shared.take(user):
        count += 1
    return count


def test_one_user_gets_half_and_those_who_come_later_half_of_what_is_left() -> None:
    shared = Shared(100)
    assert [taken(shared, user) for user in ("ann", "bob", "eve")] == [50, 25, 13]
    assert shared.used == 88


def test_a_user_alone_gets_the_only_one() -> None:
    assert taken(Shared(1), "ann") == 1


@given(st.integers(1, 50), st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), max_size=80))
def test_whatever_is_taken_is_counted_and_a_newcomer_finds_something(size: int, steps: list[tuple[str, int]]) -> None:
    shared = Shared(size)
    held = dict.fromkeys("abc", 0)
    for user, amount in steps:
        if amount > 0 and shared.take(user, amount):
            held[user] += amount
        elif amount < 0 and held[user] >= -amount:
            held[user] += amount
            shared.give_back(user, -amount)
        assert shared.used == sum(held.values()) <= size
        assert {user: shared.held(user) for user in held} == held
    assert shared.take("newcomer") is (sum(held.values()) < size)


async def waiting(seats: Seats, user: str, served: list[str]) -> None:
    if not seats.take(user):
        await seats.wait(user)
    served.append(user)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_users_who_wait_are_served_in_turn_however_much_one_of_them_sends() -> None:
    seats, served = Seats(2, 1000), list[str]()
    assert seats.take("x")
    assert seats.take("y")
    tasks = [asyncio.create_task(waiting(seats, user, served)) for user in ["ann"] * 5 + ["bob", "eve"]]
    await settle()
    assert (served, seats.waiting.used) == ([], 7)
    seats.leave("x")
    await settle()
    for user in ("ann", "bob", "eve", "ann"):
        assert served[-1] == user
        seats.leave(user)
        await settle()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_who_has_too_much_waiting_is_refused_and_others_are_not() -> None:
    seats, served = Seats(1, 10), list[str]()
    assert seats.take("x")
    tasks = [asyncio.create_task(waiting(seats, "ann", served)) for _ in range(6)]
    await settle()
    assert (seats.waiting.held("ann"), seats.refused) == (5, 1)
    with pytest.raises(TooMany):
        await tasks[-1]
    tasks.append(asyncio.create_task(waiting(seats, "bob", served)))
    await settle()
    assert seats.waiting.held("bob") == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert seats.waiting.used == 0


async def test_who_gives_up_waiting_leaves_no_trace() -> None:
    seats, served = Seats(1, 10), list[str]()
    assert seats.take("x")
    first, second = (asyncio.create_task(waiting(seats, user, served)) for user in ("ann", "bob"))
    await settle()
    first.cancel()
    seats.leave("x")  # before the one who gave up has noticed
    await settle()
    assert served == ["bob"]
    third = asyncio.create_task(waiting(seats, "ann", served))
    await settle()
    seats.leave("bob")
    third.cancel()  # when the seat is theirs already
    await settle()
    assert (seats.seats.used, seats.waiting.used) == (0, 0)
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert seats.take("eve")
