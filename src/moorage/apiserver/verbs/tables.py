"""Objects as tables and as bare metadata: the two shorter forms that clients ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.gotext import quote
from moorage.registry.printing.ages import INVALID
from moorage.registry.printing.cells import PrintedRow
from moorage.registry.printing.columns import Columns
from moorage.registry.strategy import Strategy
from moorage.registry.table import strategy_of

META = "meta.k8s.io/v1"
INCLUDES = ("Metadata", "Object", "None")


def render(
    kind: Kind,
    objects: Iterable[Data],
    *,
    now: datetime,
    include: str = "Metadata",
    metadata: Data | None = None,
    headers: bool = True,
) -> Data:
    """A Table of objects. `metadata` is that of the list; a watch sends the headers with its first event only."""
    return {
        "kind": "Table",
        "apiVersion": META,
        "metadata": metadata or {},
        "columnDefinitions": [column.definition() for column in strategy_of(kind).columns] if headers else None,
        "rows": list(rows(kind, objects, now=now, include=include)),
    }


def rows(kind: Kind, objects: Iterable[Data], *, now: datetime, include: str = "Metadata") -> Iterator[Data]:
    """The rows of a Table, one by one."""
    strategy = strategy_of(kind)
    return (_row(strategy, item, now, include) for item in objects)


def _row(strategy: Strategy, item: Data, now: datetime, include: str) -> Data:
    printed = PrintedRow(item, now)
    shown: Data = {"cells": _cells(strategy.columns, printed)}
    if conditions := strategy.row_conditions(printed):
        shown["conditions"] = conditions
    if include == "Object":
        shown["object"] = item
    elif include != "None":
        shown["object"] = partial(item)
    return shown


def include_error(include: str) -> str:
    """The problem with the includeObject parameter; empty when there is none."""
    if not include or include in INCLUDES:
        return ""
    problem = "must be 'Metadata', 'Object', 'None', or empty"
    return f"Unable to convert to Table as requested: includeObject: Invalid value: {quote(include)}: {problem}"


def partial(item: Mapping[str, Any]) -> Data:
    """An object's metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": item.get("metadata") or {}}


def _cells(columns: Columns, row: PrintedRow) -> list[Any]:
    try:
        return [column.cell(row) for column in columns]
    except (AttributeError, LookupError, TypeError, ValueError):
        return [_cell(columns, index, row) for index in range(len(columns))]


def _cell(columns: Columns, index: int, row: PrintedRow) -> Any:
    """One cell of an object with fields of unexpected types; the other cells are shown as usual."""
    try:
        return columns[index].cell(row)
    except (AttributeError, LookupError, TypeError, ValueError):
        return INVALID
