"""JSON merge patches (RFC 7386)."""

from __future__ import annotations

from typing import Any

from moorage.apiserver.patch.errors import bounded, malformed


@bounded
def apply(document: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The document with the patch merged in; null removes. Unchanged parts are shared, not copied."""
    if not isinstance(patch, dict):
        raise malformed("Invalid JSON Patch")
    merged: dict[str, Any] = _merged(document, patch)
    return merged


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged
