"""Fields by which objects can be selected in lists and watches, as texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.api.meta import Data

FieldText = Callable[[Data], str]
"""Gives the text of one field of an object."""


def at(path: str, default: str = "") -> FieldText:
    """The text of a field; true and false are spelled as JSON does."""
    head, _, tail = path.partition(".")
    if not tail:
        return lambda item: text(item.get(head), default)

    def get(item: Data) -> str:
        part = item.get(head)
        return text(part.get(tail), default) if isinstance(part, dict) else default

    return get


def text(value: Any, default: str) -> str:
    """A value as field selectors spell it."""
    if isinstance(value, str):
        return value or default
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else default


def either(*getters: FieldText) -> FieldText:
    """The first of several fields that is not empty."""
    return lambda item: next((text for get in getters if (text := get(item))), "")


NAME: dict[str, FieldText] = {"metadata.name": at("metadata.name")}
NAMES: dict[str, FieldText] = {**NAME, "metadata.namespace": at("metadata.namespace")}
