"""Questions about several labels are asked once for each combination that nodes have."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.api.decode import convert
from moorage.api.node import Node
from moorage.scheduler.table.nodes import ALL, NodeTable
from moorage.scheduler.table.selection import RowSelection


def test_a_label_that_no_node_has_counts_once_one_has_it() -> None:
    table, asked = NodeTable(), list[Mapping[str, str]]()

    def ask(labels: Mapping[str, str], _: str) -> int:
        asked.append(labels)
        return 1 + len(labels)

    def answers() -> list[int]:
        return [int(answer) for answer in selection.answers(ALL)[[table.rows["a"], table.rows["b"]]]]

    def put(name: str, **labels: str) -> None:
        table.set_node(convert({"metadata": {"name": name, "labels": labels}}, Node))

    put("a")
    put("b")
    selection = RowSelection(table, ask, frozenset(f"k{number}" for number in range(2_000)), reads_name=False)
    assert answers() == [1, 1]
    assert asked == [{}]
    put("a", k5="x")
    assert answers() == [2, 1]
    put("b", k7="x")
    assert answers() == [2, 2]
    put("a", k5="x", k7="x")
    assert answers() == [3, 2]
    assert asked == [{}, {"k5": "x"}, {"k7": "x"}, {"k5": "x", "k7": "x"}]
