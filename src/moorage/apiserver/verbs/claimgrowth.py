"""The expansion of a PersistentVolumeClaim, which its StorageClass must allow."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decoded, key
from moorage.apiserver.http.failures import forbidden
from moorage.quantity import Quantity
from moorage.store.protocol import Store

_CLAIM = kinds.row("v1", "PersistentVolumeClaim")
_CLASS = kinds.row("storage.k8s.io/v1", "StorageClass")
_FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


async def check_growth(store: Store, new: Data, old: Data) -> None:
    """Refuse a claim that requests more storage when its volume cannot be expanded."""
    before, after = _size(old), _size(new)
    if before == after or Quantity.parse(after) <= Quantity.parse(before):
        return
    name = old["metadata"]["name"]
    if (old.get("status") or {}).get("phase") != "Bound":
        raise forbidden(_CLAIM, name, "Only bound persistent volume claims can be expanded")
    class_name = new["spec"].get("storageClassName")
    item = await store.get(key(_CLASS, "", class_name)) if class_name else None
    is_same = class_name == old["spec"].get("storageClassName")
    if item is None or not is_same or not decoded(item).get("allowVolumeExpansion"):
        raise forbidden(_CLAIM, name, _FIXED)


def _size(claim: Data) -> str:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return str(requests.get("storage", "0"))
