"""docs/cel.md lists every function with an example; `python -m tests.cel.test_reference` writes the list anew."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

from moorage.cel.environments import NODE_ENV
from moorage.match.expressions import NodeExpression
from tests.cel.function_examples import EXAMPLES

PAGE = Path(__file__).parents[2] / "docs" / "cel.md"
HEADING = "## Every function\n"


def reference() -> str:
    parts = [HEADING]
    for library, rows in groupby(EXAMPLES, lambda example: example.library):
        parts.append(f"\n### {library}\n\n| signature | meaning | example | gives |\n|---|---|---|---|\n")
        parts += (
            f"| {_code(row.signature)} | {_cell(row.meaning)} | {_code(row.expression)} | {_code(row.result)} |\n"
            for row in rows
        )
    return "".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def test_the_page_lists_every_function_as_it_is() -> None:
    assert PAGE.read_text().endswith(reference()), "run python -m tests.cel.test_reference"


TEN = re.findall(r"^\| [0-9]+ \| [^|]+ \| `(.+?)` \|$", PAGE.read_text(), re.MULTILINE) if PAGE.exists() else []


def test_there_are_ten_examples() -> None:
    assert len(TEN) == 10


@pytest.mark.parametrize("source", TEN)
def test_each_of_the_ten_examples_holds_for_the_node_that_the_page_shows(source: str) -> None:
    block = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    labels = dict(re.findall(r"^\s*([\w./-]+): \"?([^\"\n]+)\"?$", block[1], re.MULTILINE))
    source = source.replace("\\|", "|")
    NODE_ENV.compile(source)
    assert NodeExpression(source).verdict(labels).matched, NodeExpression(source).why(labels)


if __name__ == "__main__":
    head, _, _ = PAGE.read_text().partition(HEADING)
    PAGE.write_text(head + reference())
