"""A write on its way into the store: defaults, what other objects decide, and what the server sets or keeps."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import metadata, schema
from moorage.registry.defaulting import keep
from moorage.registry.metadata import settle_namespace
from moorage.registry.state import AbsentObject, Denied, State
from moorage.registry.strategy import RESET_METADATA, Strategy

_NAMESPACE = kinds.row("v1", "Namespace")


def prepare_create(strategy: Strategy, obj: Data, namespace: str, state: State, now: str, uid: str) -> None:
    """Make of what a client sent the object that is stored, in place. Raises MetadataError, Denied, AbsentObject.

    Defaults come first: what is decided by other objects depends on them, and the quality of service on both.
    """
    strategy.defaults(obj, now)
    settle_namespace(strategy.kind, obj.setdefault("metadata", {}), namespace)
    _check_namespace(strategy, namespace, state)
    strategy.admit(obj, None, state)
    metadata.prepare_create(strategy, obj, namespace, now, uid)
    if "status" in strategy.kind.subresources and not strategy.keeps_status:
        obj["status"] = {}
    strategy.create(obj, now)


def prepare_update(strategy: Strategy, new: Data, old: Data, subresource: str, state: State, now: str) -> None:
    """Make of what a client sent the object that replaces `old`, in place. Raises MetadataError and Denied."""
    strategy.defaults(new, now)
    part = strategy.parts.get(subresource)
    if part is not None:
        part.admit(new, old, state)
    elif not subresource:
        strategy.admit(new, old, state)
    metadata.prepare_update(strategy, new, old)
    if subresource == "status":
        keep(new, old, [name for name in old.keys() | new.keys() if name not in ("metadata", "status")])
        keep(new["metadata"], old["metadata"], strategy.status_keeps)
        strategy.update_status(new.setdefault("status", {}), old.get("status", {}), now)
        return
    if "status" in strategy.kind.subresources:
        keep(new, old, ("status",))
    if part is not None:
        keep(new["metadata"], old["metadata"], RESET_METADATA)
        new["spec"] = part.replaced(new.get("spec", {}), old.get("spec", {}))
    elif not subresource:
        strategy.update(new, old, now)
    if any(not schema.same(strategy.kind, new, old, *path) for path in strategy.counted):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _check_namespace(strategy: Strategy, namespace: str, state: State) -> None:
    if not strategy.kind.namespaced:
        return
    found = state.find(_NAMESPACE, namespace)
    if found is None:
        if state.is_complete:
            raise AbsentObject(_NAMESPACE, namespace)
    elif found["metadata"].get("deletionTimestamp"):
        raise Denied(f"unable to create new content in namespace {namespace} because it is being terminated")
