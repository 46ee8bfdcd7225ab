"""The version endpoint: the Kubernetes version for clients, with Moorage's own as its suffix."""

from __future__ import annotations

from functools import cache

import msgspec

from moorage.componentmetrics import build_info


@cache
def document() -> bytes:
    """The response to `/version`."""
    return msgspec.json.encode(build_info())
