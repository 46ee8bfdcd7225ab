"""Disks that only one pod may write to, and claims that only one pod may use."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.scheduler.plugins.volumerestrictions import CLAIM_IN_USE, DISK_CONFLICT, VolumeRestrictions
from tests.scheduler.plugin_on_table import Data, PluginOnTable, pod
from tests.scheduler.volumes.storage import claim, pod_with

NODES: dict[str, dict[str, str]] = {"a": {}, "b": {}}
ONE_POD: Data = {"accessModes": ["ReadWriteOncePod"]}


def gce(name: str = "disk", *, read_only: bool = False) -> Data:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def aws(name: str = "disk", *, read_only: bool = False) -> Data:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(name: str = "disk", *, read_only: bool = False) -> Data:
    return {"iscsi": {"iqn": name, "targetPortal": "127.0.0.1:3260", "lun": 0, "readOnly": read_only}}


def rbd(*monitors: str, pool: str = "pool", image: str = "image", read_only: bool = False) -> Data:
    return {"rbd": {"monitors": list(monitors or "ab"), "pool": pool, "image": image, "readOnly": read_only}}


def with_disk(disk: Data, **more: Any) -> Any:
    return pod(volumes=[{"name": "disk", **disk}], **more)


@pytest.mark.parametrize(
    ("wanted", "there", "conflict"),
    [
        (gce(), gce(), True),
        (gce(), gce(read_only=True), True),
        (gce(read_only=True), gce(), True),
        (gce(read_only=True), gce(read_only=True), False),
        (gce(), gce("other"), False),
        (aws(), aws(), True),
        (aws(read_only=True), aws(read_only=True), True),
        (aws(), aws("other"), False),
        (aws(), gce(), False),
        (iscsi(), iscsi(), True),
        (iscsi(read_only=True), iscsi(read_only=True), False),
        (iscsi(), iscsi("other"), False),
        (rbd("a", "b"), rbd("b", "c"), True),
        (rbd("a", "b"), rbd("c"), False),
        (rbd(pool="other"), rbd(), False),
        (rbd(image="other"), rbd(), False),
        (rbd(read_only=True), rbd(read_only=True), False),
        (rbd(read_only=True), rbd(), True),
    ],
)
def test_a_disk_is_written_to_by_one_pod_a_node(wanted: Data, there: Data, conflict: bool) -> None:
    here = PluginOnTable(VolumeRestrictions, NODES)
    here.add(with_disk(there, node="a"))
    assert here.reasons(with_disk(wanted)) == ({"a": (DISK_CONFLICT, True)} if conflict else {})


def test_a_disk_is_free_again_when_all_pods_that_use_it_are_gone() -> None:
    here = PluginOnTable(VolumeRestrictions, NODES)
    first, second = here.add(with_disk(gce(read_only=True), node="a"), with_disk(gce(read_only=True), node="a"))
    assert set(here.reasons(with_disk(gce()))) == {"a"}
    here.table.remove_pod(first)
    assert set(here.reasons(with_disk(gce()))) == {"a"}
    here.told(second.pod)
    here.told_gone(second.pod)
    assert here.woken
    here.table.remove_pod(second)
    assert not here.reasons(with_disk(gce()))


def test_a_claim_for_one_pod_is_used_by_one_pod_anywhere() -> None:
    here = PluginOnTable(VolumeRestrictions, NODES)
    here.told(claim("mine", **ONE_POD))
    here.told(claim("shared"))
    assert not here.reasons(pod_with("mine", "shared"))
    (first,) = here.add(pod_with("mine", "shared", node="a"))
    assert here.reasons(pod_with("mine")) == dict.fromkeys("ab", (CLAIM_IN_USE, True))
    assert not here.reasons(pod_with("shared"))
    here.table.remove_pod(first)
    assert not here.reasons(pod_with("mine"))


def test_a_claim_of_the_same_name_elsewhere_is_another() -> None:
    here = PluginOnTable(VolumeRestrictions, NODES)
    here.told(claim("mine", meta={"namespace": "other"}, **ONE_POD))
    here.told(claim("mine", **ONE_POD))
    here.add(pod_with("mine", node="a", namespace="other"))
    assert not here.reasons(pod_with("mine"))


def test_disk_conflicts_are_told_before_claims_in_use() -> None:
    here = PluginOnTable(VolumeRestrictions, NODES)
    here.told(claim("mine", **ONE_POD))
    here.add(pod_with("mine", node="b"), with_disk(gce(), node="a"))
    both = pod(volumes=[{"name": "d", **gce()}, {"name": "c", "persistentVolumeClaim": {"claimName": "mine"}}])
    assert here.reasons(both) == {"a": (DISK_CONFLICT, True), "b": (CLAIM_IN_USE, True)}


def test_a_pod_whose_claim_is_not_there_waits_for_it() -> None:
    here = PluginOnTable(VolumeRestrictions, NODES)
    assert here.reasons(pod_with("mine")) == {"": ('persistentvolumeclaim "mine" not found', False)}
    here.told(claim("other"))
    assert not here.woken
    here.told(claim("mine"))
    assert len(here.woken) == 1


def test_a_pod_that_waits_for_a_claim_wakes_when_its_user_ends() -> None:
    here = PluginOnTable(VolumeRestrictions, NODES)
    here.told(claim("mine", **ONE_POD))
    users = pod_with("mine", node="a"), pod_with("other", node="a"), pod_with("mine", node="a", namespace="other")
    for user in users:
        here.told(user)
        here.add(user)
    assert here.reasons(pod_with("mine"))
    here.told_gone(users[1])
    here.told_gone(users[2])
    assert not here.woken
    here.told_gone(users[0])
    assert len(here.woken) == 1


def test_pods_without_claims_or_such_disks_are_not_asked_about() -> None:
    here = PluginOnTable(VolumeRestrictions, NODES)
    assert not here.plugin.applies(here.cycle(pod(volumes=[{"name": "tmp", "emptyDir": {}}])).shape)
    assert here.plugin.applies(here.cycle(with_disk(rbd())).shape)
