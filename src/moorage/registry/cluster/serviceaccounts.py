"""Service accounts."""

from __future__ import annotations

from typing import Any

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry.merging import keyed, shape
from moorage.registry.strategy import Strategy


def _plain_secrets(obj: Data, *_: Any) -> None:
    """Reduce the secrets of a ServiceAccount to their names."""
    if "secrets" in obj:
        obj["secrets"] = [{"name": secret["name"]} for secret in obj["secrets"] if secret.get("name")]


SERVICE_ACCOUNT = Strategy(
    kind=kinds.row("v1", "ServiceAccount"),
    summary="An identity for programs.",
    create=_plain_secrets,
    update=_plain_secrets,
    merge=shape(secrets=keyed("name", name=None)),
)
