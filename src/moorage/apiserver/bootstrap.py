"""What a new cluster is born with: namespaces, roles, priorities and default service accounts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from moorage.api import kinds
from moorage.apiserver.defaults import apply_defaults
from moorage.apiserver.metadata import prepare_create
from moorage.apiserver.objects import encode, key
from moorage.apiserver.rolebindings import DEFAULTS
from moorage.apiserver.writing import new_uid, timestamp
from moorage.store.protocol import Exists, Store

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _objects() -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = []
    for name in NAMESPACES:
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        metadata = {"name": "default", "namespace": name}
        objects.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    for name, value in _PRIORITIES.items():
        objects.append(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "description": f"Used for {name.removeprefix('system-')} pods of the system.",
            }
        )
    return objects


async def bootstrap(store: Store) -> None:
    """Create what is missing; what is there stays as it is."""
    for data in (*_objects(), *DEFAULTS):
        kind = kinds.row(data["apiVersion"], data["kind"])
        namespace, name = data["metadata"].get("namespace", ""), data["metadata"]["name"]
        if await store.get(key(kind, namespace, name)):
            continue
        made = {**data, "metadata": dict(data["metadata"])}
        moment = timestamp(datetime.now(UTC))
        apply_defaults(kind, made, moment)
        prepare_create(kind, made, namespace, moment, new_uid())
        try:
            await store.create(key(kind, namespace, name), encode(made))
        except Exists:
            continue  # another server was faster
