"""Volumes and classes of plugins that were once part of Kubernetes, as the drivers that replaced them count them."""

from __future__ import annotations

from moorage.api.volume import PersistentVolume
from moorage.api.wellknown import LABEL_ZONE

_AWS, _GCE, _AZURE = "ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com"
_CINDER, _PORTWORX = "cinder.csi.openstack.org", "pxd.portworx.com"
_DRIVERS = {
    "kubernetes.io/aws-ebs": _AWS,
    "kubernetes.io/gce-pd": _GCE,
    "kubernetes.io/azure-disk": _AZURE,
    "kubernetes.io/cinder": _CINDER,
    "kubernetes.io/portworx-volume": _PORTWORX,
    "kubernetes.io/azure-file": "",
    "kubernetes.io/vsphere-volume": "",
}
"""Drivers by the provisioner that they replace. Kubernetes' scheduler does not count volumes of the last two."""


def driver_of(provisioner: str) -> str:
    """The driver that makes the volumes of a provisioner; empty when they are not counted."""
    return _DRIVERS.get(provisioner, provisioner)


def driver_and_handle(volume: PersistentVolume) -> tuple[str, str] | None:
    """The driver that attaches a volume, and what tells it from others there; None when no driver counts it."""
    spec = volume.spec
    if spec.csi is not None:
        return spec.csi.driver, spec.csi.volume_handle
    if spec.aws_elastic_block_store is not None:
        return _AWS, spec.aws_elastic_block_store.volume_id.rpartition("/")[2]  # aws://ZONE/ID, or only the ID
    if spec.gce_persistent_disk is not None:
        return _GCE, f"{volume.metadata.labels.get(LABEL_ZONE, '')}/{spec.gce_persistent_disk.pd_name}"
    if spec.azure_disk is not None:
        return _AZURE, spec.azure_disk.disk_uri
    if spec.cinder is not None:
        return _CINDER, spec.cinder.volume_id
    if spec.portworx_volume is not None:
        return _PORTWORX, spec.portworx_volume.volume_id
    return None
