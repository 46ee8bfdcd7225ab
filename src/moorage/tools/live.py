"""Reads the objects of a running cluster that placement depends on."""

from __future__ import annotations

from collections.abc import Container

import msgspec

from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.manifests import ManifestError
from moorage.api.meta import Object
from moorage.client import Client, Missing
from moorage.tools.cluster import Cluster, ClusterObject

_READ = (
    "Node", "PersistentVolume", "PersistentVolumeClaim",
    "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice",
)  # fmt: skip


async def read_live(client: Client, only: Container[str] | None = None) -> Cluster:
    """List every kind that has tolerations, node selectors, taints or labels, or only some of them.

    A kind that is not served is left out.
    """
    cluster = Cluster(is_complete=only is None)
    for kind in kinds.KINDS:
        if not (kind.pod_spec or kind.kind in _READ) or (only is not None and kind.kind not in only):
            continue
        try:
            listing = await client.list(kind)
        except Missing:
            continue
        for raw in listing.items:
            try:
                item: Object = convert(msgspec.json.decode(raw), kind.struct)
            except DecodeError as error:
                cluster.problems.append(ManifestError(str(error), kind.resource))
            else:
                cluster.items.append(ClusterObject(item))
    return cluster
