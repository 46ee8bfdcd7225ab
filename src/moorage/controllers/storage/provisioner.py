"""Provisions volumes without a disk for claims of its class, and deletes them with their claims."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from moorage.api import kinds
from moorage.api.claims import SELECTED_NODE, class_of, mode_of, waits_for_consumer
from moorage.api.meta import Data
from moorage.api.node import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.api.wellknown import LABEL_HOSTNAME
from moorage.client import ApiError, Exists, Missing
from moorage.client.events import NORMAL, WARNING
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller, resource_version
from moorage.controllers.storage.volumes import PROVISIONED_BY, STORAGE_PROVISIONER
from moorage.match.selector import compile_selector

PROVISIONER = "moorage.dev/hollow"
_CLAIM, _VOLUME = kinds.row("v1", "PersistentVolumeClaim"), kinds.row("v1", "PersistentVolume")
DRIVER = "hollow.moorage.dev"
"""The CSI driver that the volumes name."""


class Provisioner(Controller):
    """Keys are claims (namespace and name) and volumes (no namespace)."""

    name = "hollow-provisioner"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._claims = context.informers.of(PersistentVolumeClaim)
        self._volumes = context.informers.of(PersistentVolume)
        self._classes = context.informers.of(StorageClass)
        self._nodes = context.informers.of(Node)
        self._claims.on_change(self._claim_changed)
        self._volumes.on_change(self._volume_changed)
        self._classes.on_change(self._class_changed)

    def provisions(self, provisioner: str) -> bool:
        """Whether volumes of the classes of a provisioner are provisioned here."""
        return provisioner == PROVISIONER

    def topology_at(self, node: Node, _: StorageClass) -> NodeSelector | None:
        """The nodes that reach a volume which is provisioned for one of them."""
        host = node.metadata.labels.get(LABEL_HOSTNAME, node.metadata.name)
        return NodeSelector((NodeSelectorTerm((NodeSelectorRequirement(LABEL_HOSTNAME, "In", (host,)),)),))

    def _is_ours(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a claim waits for a volume of this provisioner."""
        return (
            not claim.spec.volume_name
            and claim.metadata.deletion_timestamp is None
            and self.provisions(claim.metadata.annotations.get(STORAGE_PROVISIONER, ""))
        )

    def _claim_changed(self, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None and self._is_ours(new):
            self.enqueue(new)

    def _volume_changed(self, _: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None and _is_released(new):
            self.enqueue(new)

    def _class_changed(self, _: StorageClass | None, new: StorageClass | None) -> None:
        for claim in self._claims if new is not None else ():
            self._claim_changed(None, claim)

    async def reconcile(self, key: Key) -> None:
        """Provision the volume that a claim waits for, or delete one that was released."""
        if key[0]:
            claim = self._claims.get(*key)
            if claim is not None and self._is_ours(claim):
                await self._provision(claim)
        elif (volume := self._volumes.get(*key)) is not None and _is_released(volume):
            with suppress(Missing):
                await self.client.delete(_VOLUME, "", volume.metadata.name, uid=volume.metadata.uid)

    async def _provision(self, claim: PersistentVolumeClaim) -> None:
        storage_class = self._classes.get("", class_of(claim))
        name = f"pvc-{claim.metadata.uid}"
        if storage_class is None or self._volumes.get("", name) is not None:
            return
        node_name = claim.metadata.annotations.get(SELECTED_NODE, "")
        if waits_for_consumer(storage_class) and not node_name:
            return
        topology = _topology(storage_class)
        if node_name:
            node = self._nodes.get("", node_name)
            if node is None or not self._is_allowed(topology, node):
                await self._choose_again(claim, storage_class, node_name)
                return
            topology = self.topology_at(node, storage_class)
        try:
            body = await self.client.create(_VOLUME, _volume(name, claim, storage_class, topology))
        except Exists:
            return
        except ApiError as error:
            message = f'Failed to provision volume with StorageClass "{storage_class.metadata.name}": {error}'
            self.recorder.event(claim, WARNING, "ProvisioningFailed", message)
            raise
        self.recorder.event(claim, NORMAL, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")
        await self._volumes.caught_up(resource_version(body))

    def _is_allowed(self, topology: NodeSelector | None, node: Node) -> bool:
        if topology is None:
            return True
        selector = compile_selector(topology, self.context.gates)
        return selector.verdict(node.metadata.labels, node.metadata.name).matched

    async def _choose_again(self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: str) -> None:
        """Have the scheduler select another node than one that is gone or not allowed."""
        problem = f'node "{node}" is gone or not in the allowed topologies'
        message = f'Failed to provision volume with StorageClass "{storage_class.metadata.name}": {problem}'
        self.recorder.event(claim, WARNING, "ProvisioningFailed", message)
        metadata = claim.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version, "annotations": {SELECTED_NODE: None}}}
        with suppress(Missing):
            await self.client.patch(_CLAIM, metadata.namespace, metadata.name, patch)


def _is_released(volume: PersistentVolume) -> bool:
    """Whether a volume of this provisioner was released and is to be deleted."""
    return (
        volume.status.phase == "Released"
        and volume.spec.persistent_volume_reclaim_policy == "Delete"
        and volume.metadata.deletion_timestamp is None
        and volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
    )


def _topology(storage_class: StorageClass) -> NodeSelector | None:
    """The nodes that a class allows."""
    terms = tuple(
        NodeSelectorTerm(
            tuple(NodeSelectorRequirement(each.key, "In", each.values) for each in term.match_label_expressions)
        )
        for term in storage_class.allowed_topologies
    )
    return NodeSelector(terms) if terms else None


def _volume(
    name: str, claim: PersistentVolumeClaim, storage_class: StorageClass, topology: NodeSelector | None
) -> Data:
    metadata = claim.metadata
    spec: Data = {
        "capacity": {"storage": claim.spec.resources.requests.get("storage", "0")},
        "accessModes": list(claim.spec.access_modes),
        "volumeMode": mode_of(claim),
        "storageClassName": storage_class.metadata.name,
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy or "Delete",
        "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid,
        },
        "csi": {"driver": DRIVER, "volumeHandle": name},
    }  # fmt: skip
    if topology is not None:
        spec["nodeAffinity"] = {"required": msgspec.to_builtins(topology)}
    return {"metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}, "spec": spec}
