"""The sorted keys against the plainest way to say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.store import keys
from moorage.store.keys import SortedKeys, beyond

texts = st.text(st.sampled_from("ab/\U0010ffff"), max_size=5)
names = st.text(st.sampled_from("ab/\U0010ffff"), min_size=1, max_size=5)


@given(st.sets(names), st.lists(st.tuples(st.booleans(), names)), st.lists(st.tuples(texts, texts, st.integers(0, 6))))
def test_sorted_keys_are_a_sorted_set(
    start: set[str], changes: list[tuple[bool, str]], queries: list[tuple[str, str, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "RUN", 2)
        ordered, known = SortedKeys(start), set(start)
        for add, key in changes:
            if add and key not in known:
                ordered.add(key)
                known.add(key)
            elif not add and key in known:
                ordered.remove(key)
                known.remove(key)
        for prefix, after, limit in [*queries, ("", "", 0)]:
            expected = [key for key in sorted(known) if key.startswith(prefix) and key > after]
            assert ordered.first(prefix, after, limit) == expected[: limit or None]
            assert ordered.count(prefix, after) == len(expected)


@given(texts, texts)
def test_beyond_a_prefix_is_beyond_every_key_that_has_it(prefix: str, rest: str) -> None:
    assert not beyond(prefix) or prefix + rest < beyond(prefix)
    assert rest.startswith(prefix) or not beyond(prefix) or not prefix <= rest < beyond(prefix)
