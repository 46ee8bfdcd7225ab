"""A bounded mapping keeps what was used last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moorage.bounded import SHORT, Bounded, remember_short

STEPS = st.lists(st.tuples(st.sampled_from(["get", "put", "pop"]), st.integers(0, 6)), max_size=60)


@given(st.integers(1, 4), STEPS)
def test_what_was_used_last_is_kept_and_no_more_than_the_bound(most: int, steps: list[tuple[str, int]]) -> None:
    bounded: Bounded[int, str] = Bounded(most)
    used: list[int] = []
    evictions = 0
    for step, key in steps:
        if step == "get":
            assert bounded.get(key) == (str(key) if key in used else None)
            used = [*(each for each in used if each != key), key] if key in used else used
        elif step == "put":
            bounded.put(key, str(key))
            used = [*(each for each in used if each != key), key]
            evictions += len(used) > most
            used = used[-most:]
        else:
            assert bounded.pop(key) == (str(key) if key in used else None)
            used = [each for each in used if each != key]
        assert list(bounded) == used
        assert len(bounded) == len(used)
        assert bounded.evictions == evictions
        assert (key in bounded) == (key in used)
    bounded.clear()
    assert not len(bounded)


def test_results_for_long_texts_are_not_kept() -> None:
    asked: list[str] = []

    @remember_short(8)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    short, long = "x" * SHORT, "x" * (SHORT + 1)
    assert [length(short), length(short), length(long), length(long)] == [SHORT, SHORT, SHORT + 1, SHORT + 1]
    assert asked == [short, long, long]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 40)), max_size=60))
def test_with_a_bound_in_bytes_large_entries_are_not_kept_and_old_ones_make_room(steps: list[tuple[int, int]]) -> None:
    bounded: Bounded[int, int] = Bounded(5, 320)
    sizes: dict[int, int] = {}
    for key, size in steps:
        bounded.put(key, size, size)
        sizes.pop(key, None)
        if size <= 20:
            sizes[key] = size
        while len(sizes) > 5 or sum(sizes.values()) > 320:
            del sizes[next(iter(sizes))]
        assert list(bounded) == list(sizes)
        assert bounded.bytes == sum(sizes.values())
    bounded.clear()
    assert bounded.bytes == 0


def test_results_for_long_lists_are_not_kept() -> None:
    asked: list[int] = []

    @remember_short(16, 2)
    def total(numbers: tuple[int, ...]) -> int:
        asked.append(len(numbers))
        return sum(numbers)

    for numbers in ((1, 2), (1, 2, 3)) * 2:
        assert total(numbers) == sum(numbers)
    assert asked == [2, 3, 3]
