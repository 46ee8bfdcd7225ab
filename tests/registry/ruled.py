"""Objects as the rules see them, and what these say."""

from __future__ import annotations

import copy
from typing import Any

from moorage.api import kinds
from moorage.apiserver.verbs.serviceaddresses import give_cluster_ip
from moorage.registry.prepare import prepare_create
from moorage.registry.schema import read
from moorage.registry.state import State
from moorage.registry.table import strategy_of

NOW, UID = "2026-01-01T00:00:00Z", "u"
New = tuple[str, str, dict[str, Any], list[str]]
"""Version, kind and fields of an object, and what is said of it."""
Changed = tuple[str, str, dict[str, Any], dict[str, Any], list[str]]
"""Version, kind, the fields before and after, and what is said of the change."""


def made(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    row = kinds.row(api_version, kind)
    obj = copy.deepcopy({"metadata": {"name": "a"}, **fields})
    assert read(row, obj) == []
    namespace = "default" if row.namespaced else ""
    prepare_create(strategy_of(row), obj, namespace, State(is_complete=False), NOW, UID)
    strategy_of(row).generate(obj)
    if kind == "Service" and obj["spec"].get("type") != "ExternalName":
        give_cluster_ip(obj, obj["spec"].get("clusterIP", "10.96.0.1"))
    return obj


def said(api_version: str, kind: str, **fields: Any) -> list[str]:
    row = kinds.row(api_version, kind)
    return [str(error) for error in strategy_of(row).errors(made(api_version, kind, **fields), None)]


def changes(api_version: str, kind: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    before = made(api_version, kind, **old)
    after = made(api_version, kind, **new)
    after["metadata"] |= {"creationTimestamp": NOW}
    after["status"] = before.get("status", {})
    return [str(error) for error in strategy_of(kinds.row(api_version, kind)).errors(after, before)]


def said_of(new: New) -> list[str]:
    """What is said of a new object."""
    api_version, kind, fields, _ = new
    return said(api_version, kind, **fields)


def said_of_change(changed: Changed) -> list[str]:
    """What is said of a change."""
    return changes(*changed[:4])
