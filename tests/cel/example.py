"""What an example is: a row of the reference that the tests evaluate."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """A row of the reference: `expression` is equal to `result`, and both are CEL."""

    library: str
    signature: str
    meaning: str
    expression: str
    result: str


def rows(library: str, *rows: tuple[str, str, str, str]) -> list[Example]:
    """The examples of a library."""
    return [Example(library, *row) for row in rows]
