"""One object as a table shows it, at a time that stands still."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.apiserver.verbs import tables
from moorage.registry.table import strategy_of

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
Item = dict[str, Any]


def ago(**span: float) -> str:
    return (NOW - timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def table(api_version: str, kind: str, *items: Item, **options: Any) -> Item:
    return tables.render(kinds.row(api_version, kind), items, now=NOW, **options)


def shown(api_version: str, kind: str, item: Item, *, created: str | None = None) -> dict[str, Any]:
    """The cells of one object by the heads of their columns, as kubectl prints them."""
    metadata = {"name": "it", "creationTimestamp": created or ago(hours=5), **item.get("metadata", {})}
    made = table(api_version, kind, {**item, "metadata": metadata})
    heads = [column["name"].upper() for column in made["columnDefinitions"]]
    return dict(zip(heads, made["rows"][0]["cells"], strict=True))


def heads(kind: Kind) -> tuple[str, str]:
    """The heads of a kind's table: those that are always shown, and those of wide output."""
    columns = strategy_of(kind).columns
    return tuple(
        "|".join(column.name.upper() for column in columns if column.priority == priority) for priority in (0, 1)
    )  # type: ignore[return-value]
