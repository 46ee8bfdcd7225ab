"""JSON values for property tests, and the proof that a function left its arguments alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from moorage.apiserver.patch.errors import PatchError

NAMES = ("a", "b", "c", "name", "a/b", "m~n", "", "$patch", "$retainKeys", "metadata", "spec")

names = st.sampled_from(NAMES)
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from((0.5, 1.0)) | st.sampled_from(("", "x", "y"))
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4))
maps = st.dictionaries(names, values, max_size=5)

NESTED: list[Any] = []
for _ in range(100_000):
    NESTED = [NESTED]
"""Deeper than any stack."""


@contextmanager
def untouched(*arguments: Any) -> Iterator[None]:
    """Fail when what happens inside changes one of the arguments."""
    before = deepcopy(arguments)
    yield
    assert arguments == before


def refusal(act: Callable[[], Any]) -> PatchError | None:
    """The error of a patch; any other error is a defect."""
    try:
        act()
    except PatchError as error:
        return error
    return None


def without_nulls(value: Any) -> Any:
    """The same value without the members of maps that are null."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value
