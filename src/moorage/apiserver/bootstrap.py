"""What a new cluster starts with: namespaces, roles, priorities, default service accounts, the API server's service."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.wellknown import SYSTEM_PRIORITIES
from moorage.apiserver.access.defaultroles import DEFAULTS
from moorage.apiserver.base.objects import encode, key
from moorage.apiserver.verbs.writing import new_uid
from moorage.client.clock import timestamp
from moorage.logs import Log
from moorage.registry.prepare import prepare_create
from moorage.registry.state import State
from moorage.registry.table import strategy_of
from moorage.store.protocol import KeyExists, Store, StoreFull

_LOG = Log(__name__)
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

_OWN_SERVICE: Data = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
    },
}
"""Clients learn from it whether a cluster's addresses are IPv4 or IPv6."""


def _objects() -> list[Data]:
    objects: list[Data] = []
    for name in NAMESPACES:
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        metadata = {"name": "default", "namespace": name}
        objects.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    objects.append(_OWN_SERVICE)
    for name, value in SYSTEM_PRIORITIES.items():
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
    """Create the objects that are missing; those that exist stay as they are.

    An old cluster is served without them while there is no space.
    """
    is_new = await store.get(key(kinds.row("v1", "Namespace"), "", NAMESPACES[0])) is None
    for data in (*_objects(), *DEFAULTS):
        try:
            await _create_missing(store, data)
        except StoreFull as error:
            if is_new:
                raise
            _LOG.warning("Default object not created", kind=data["kind"], name=data["metadata"]["name"], err=error)


async def keep_own_service(store: Store) -> None:
    """Create the API server's service again when somebody has deleted it."""
    await _create_missing(store, _OWN_SERVICE)


async def _create_missing(store: Store, data: Data) -> None:
    kind = kinds.row(data["apiVersion"], data["kind"])
    namespace, name = data["metadata"].get("namespace", ""), data["metadata"]["name"]
    where = key(kind, namespace, name)
    if await store.get(where):
        return
    new = deepcopy(data)
    moment = timestamp(datetime.now(UTC))
    prepare_create(strategy_of(kind), new, namespace, State(is_complete=False), moment, new_uid())
    with suppress(KeyExists):  # another server may have been faster
        await store.create(where, encode(new))
