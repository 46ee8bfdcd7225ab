"""A node can have only so many volumes of a driver."""

from __future__ import annotations

import pytest

from moorage.api.decode import convert
from moorage.api.meta import Data, Object
from moorage.api.volume import PersistentVolume, VolumeAttachment
from moorage.scheduler.plugins.nodevolumelimits import REASON, NodeVolumeLimits
from tests.scheduler.plugin_on_table import PluginOnTable, pod
from tests.scheduler.volumes.storage import claim, csi_node, ephemeral, owned, pod_with, storage_class, volume

FULL = {"a": (REASON, True)}


def disk(name: str, driver: str = "ebs", handle: str = "") -> PersistentVolume:
    return volume(name, csi={"driver": driver, "volumeHandle": handle or name})


def attachment(name: str, volume_name: str, node: str = "a", driver: str = "ebs") -> VolumeAttachment:
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume_name}}
    return convert({"metadata": {"name": name}, "spec": spec}, VolumeAttachment)


def alone(*there: Object, **limits: int | None) -> PluginOnTable:
    """A node with limits and one without, and claims 1 to 5 on disks of one driver."""
    here = PluginOnTable(NodeVolumeLimits, {"a": {}, "b": {}})
    here.told(csi_node("a", **limits))
    for name in "12345":
        here.told(disk(f"disk-{name}"))
        here.told(claim(name, bound=f"disk-{name}"))
    for each in there:
        here.told(each)
    return here


def test_a_node_that_has_as_many_as_it_can_have_will_not_do() -> None:
    here = alone(ebs=2)
    assert not here.reasons(pod_with("1", "2"))
    assert here.reasons(pod_with("1", "2", "3")) == FULL
    here.add(pod_with("1", node="a"))
    assert not here.reasons(pod_with("2"))
    assert here.reasons(pod_with("2", "3")) == FULL
    (second,) = here.add(pod_with("2", node="a"))
    assert here.reasons(pod_with("3")) == FULL
    here.table.remove_pod(second)
    assert not here.reasons(pod_with("3"))


def test_a_volume_that_is_there_already_does_not_count_again() -> None:
    here = alone(ebs=1)
    here.add(pod_with("1", node="a"))
    assert not here.reasons(pod_with("1"))
    assert here.reasons(pod_with("1", "2")) == FULL


def test_drivers_without_limits_and_volumes_without_drivers_do_not_count() -> None:
    here = alone(volume("plain"), claim("plain", bound="plain"), disk("pd", "gce"), claim("pd", bound="pd"),
                 ebs=0, gce=None)  # fmt: skip
    assert not here.reasons(pod_with("plain", "pd"))
    assert here.reasons(pod_with("1")) == FULL


def test_each_driver_has_its_own_limit() -> None:
    here = alone(disk("pd", "gce"), claim("pd", bound="pd"), ebs=2, gce=1)
    here.add(pod_with("1", "2", node="a"))
    assert not here.reasons(pod_with("pd"))
    here.add(pod_with("pd", node="a"))
    here.told(disk("pd2", "gce"))
    here.told(claim("pd2", bound="pd2"))
    assert here.reasons(pod_with("pd2")) == FULL


@pytest.mark.parametrize(
    ("driver", "source", "field", "provisioner"),
    [
        ("ebs.csi.aws.com", "awsElasticBlockStore", "volumeID", "kubernetes.io/aws-ebs"),
        ("pd.csi.storage.gke.io", "gcePersistentDisk", "pdName", "kubernetes.io/gce-pd"),
        ("disk.csi.azure.com", "azureDisk", "diskURI", "kubernetes.io/azure-disk"),
        ("cinder.csi.openstack.org", "cinder", "volumeID", "kubernetes.io/cinder"),
        ("pxd.portworx.com", "portworxVolume", "volumeID", "kubernetes.io/portworx-volume"),
    ],
)
def test_disks_of_plugins_that_were_built_in_count_for_the_driver_that_replaced_them(
    driver: str, source: str, field: str, provisioner: str
) -> None:
    here = alone(csi_node("a", **{driver: 1}), storage_class(provisioner=provisioner), claim("new"))
    for name in ("one", "two"):
        spec: Data = {source: {field: name}}
        here.told(volume(name, **spec))
        here.told(claim(name, bound=name))
    assert not here.reasons(pod_with("one"))
    here.add(pod_with("one", node="a"))
    assert not here.reasons(pod_with("one")), "the same disk"
    assert here.reasons(pod_with("two")) == FULL
    assert here.reasons(pod_with("new")) == FULL


def test_a_claim_that_has_no_volume_yet_counts_for_its_class() -> None:
    here = alone(storage_class(provisioner="ebs"), claim("new"), claim("newer"), ebs=1)
    assert not here.reasons(pod_with("new"))
    (there,) = here.add(pod_with("new", node="a"))
    assert here.reasons(pod_with("newer")) == FULL
    here.told(disk("made", "other"))
    here.told(claim("new", bound="made"))
    assert not here.reasons(pod_with("newer")), "it turned out to be another driver's"
    here.table.remove_pod(there)
    assert not here.reasons(pod_with("newer"))


def test_ephemeral_volumes_count() -> None:
    here = alone(storage_class(provisioner="ebs"), ebs=1)
    given = pod(volumes=[ephemeral("data")])
    name = f"{given.metadata.name}-data"
    missing = f'looking up PVC default/{name}: persistentvolumeclaim "{name}" not found'
    assert here.reasons(given) == dict.fromkeys("ab", (missing, False))
    here.told(claim(name, meta=owned(given)))
    assert here.woken
    assert not here.reasons(given)
    here.add(pod_with("1", node="a"))
    assert here.reasons(given) == FULL


def test_volumes_that_are_still_attached_count() -> None:
    left = attachment("left", "disk-1")
    here = alone(left, attachment("elsewhere", "disk-2", "b"), attachment("unknown", "disk-9"), ebs=1)
    assert here.reasons(pod_with("3")) == FULL
    here.add(pod_with("1", node="a"))
    assert here.reasons(pod_with("3")) == FULL
    here.told_gone(left)
    assert here.woken
    assert here.reasons(pod_with("3")) == FULL
    here.told(csi_node("a", ebs=2))
    assert not here.reasons(pod_with("3"))


def test_a_pod_wakes_when_a_node_can_have_more() -> None:
    here = alone(ebs=1)
    user, other = pod_with("1", node="a"), pod(node="a")
    for each in (user, other):
        here.told(each)
        here.add(each)
    assert here.reasons(pod_with("2")) == FULL
    here.told(csi_node("a", ebs=0))
    here.told_gone(other)
    assert not here.woken
    here.told_gone(user)
    assert len(here.woken) == 1
    assert here.reasons(pod_with("2")) == FULL
    here.told(csi_node("a", ebs=5))
    assert len(here.woken) == 2
    assert not here.reasons(pod_with("2"))


def test_limits_follow_nodes_that_come_and_go() -> None:
    here = alone(ebs=0)
    here.table.remove_node("a")
    here.node("c", {})
    assert not here.reasons(pod_with("1"))
    here.node("a", {})
    assert here.reasons(pod_with("1")) == FULL
