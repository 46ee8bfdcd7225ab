"""Stands in for the storage drivers of a cluster: every claim of a class with a provisioner gets a volume."""

from __future__ import annotations

from moorage.api.node import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.api.volume import PersistentVolume, StorageClass
from moorage.api.wellknown import LABEL_ZONE
from moorage.controllers.frame.controller import Context
from moorage.controllers.storage.provisioner import Provisioner

_NOBODY = ("", "kubernetes.io/no-provisioner")


class AnyProvisioner(Provisioner):
    """Provisions what any driver would: reached from where other volumes of the class are, or from the zone."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._known = context.informers.of(PersistentVolume)

    def provisions(self, provisioner: str) -> bool:
        """Whether anybody provisions volumes under this name."""
        return provisioner not in _NOBODY

    def topology_at(self, node: Node, storage_class: StorageClass) -> NodeSelector | None:
        """The nodes that reach a volume which is provisioned for one of them."""
        labels = node.metadata.labels
        wanted = [(key, labels[key]) for key in self._keys(storage_class.metadata.name) if key in labels]
        if not wanted:
            return None
        return NodeSelector(
            (NodeSelectorTerm(tuple(NodeSelectorRequirement(key, "In", (value,)) for key, value in wanted)),)
        )

    def _keys(self, class_name: str) -> tuple[str, ...]:
        """The labels by which volumes of a class say from where they are reached."""
        for volume in self._known:
            if volume.spec.storage_class_name == class_name:
                affinity = volume.spec.node_affinity
                terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
                return tuple(each.key for each in terms[0].match_expressions) if terms else ()
        return (LABEL_ZONE,)
