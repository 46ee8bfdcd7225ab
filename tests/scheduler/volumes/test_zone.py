"""Volumes with zone and region labels keep pods in their zone and region."""

from __future__ import annotations

import pytest

from moorage.scheduler.plugins.volumezone import REASON, VolumeZone
from tests.scheduler.plugin_on_table import PluginOnTable, pod
from tests.scheduler.volumes.storage import NOW, claim, pod_with, storage_class, volume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
Labels = dict[str, str]


@pytest.mark.parametrize(
    ("labels", "node", "fits"),
    [
        ({}, {ZONE: "z1"}, True),
        ({ZONE: "z1"}, {ZONE: "z1"}, True),
        ({ZONE: "z1"}, {ZONE: "z2"}, False),
        ({ZONE: "z1"}, {}, True),
        ({ZONE: "z1"}, {"uselessLabel": "none"}, True),
        ({ZONE: "z1"}, {REGION: "r1"}, False),
        ({REGION: "r1"}, {ZONE: "z1", REGION: "r1"}, True),
        ({REGION: "r1", ZONE: "z1"}, {REGION: "r1", ZONE: "z2"}, False),
        ({ZONE: "z1__z2"}, {ZONE: "z2"}, True),
        ({ZONE: "z1__z2"}, {ZONE: "z3"}, False),
        ({ZONE: "z1____z2"}, {ZONE: "z3"}, True),
        ({OLD_ZONE: "z1"}, {OLD_ZONE: "z1"}, True),
        ({OLD_ZONE: "z1"}, {OLD_ZONE: "z2"}, False),
        ({OLD_ZONE: "z1"}, {ZONE: "z1"}, True),
        ({OLD_ZONE: "z1"}, {ZONE: "z2"}, False),
        ({OLD_ZONE: "z1"}, {OLD_ZONE: "z1", ZONE: "z2"}, True),
        ({OLD_REGION: "r1"}, {REGION: "r1"}, True),
        ({ZONE: "z1"}, {OLD_ZONE: "z1"}, False),
    ],
)
def test_a_node_must_be_where_the_volume_is(labels: Labels, node: Labels, fits: bool) -> None:
    here = PluginOnTable(VolumeZone, {"a": node})
    here.told(claim("mine", bound="v"))
    here.told(volume("v", labels=labels))
    assert here.reasons(pod_with("mine")) == ({} if fits else {"a": (REASON, False)})


def test_all_volumes_of_a_pod_count() -> None:
    here = PluginOnTable(VolumeZone, {"a": {ZONE: "z1", REGION: "r1"}, "b": {ZONE: "z2", REGION: "r1"}})
    for name, labels in (("v", {REGION: "r1"}), ("w", {ZONE: "z2"})):
        here.told(claim(f"claim-{name}", bound=name))
        here.told(volume(name, labels=labels))
    assert not here.reasons(pod_with("claim-v"))
    assert here.reasons(pod_with("claim-v", "claim-w")) == {"a": (REASON, False)}


@pytest.mark.parametrize(
    ("storage", "reason"),
    [
        ((), 'persistentvolumeclaim "mine" not found'),
        ((claim("mine", bound="v"),), 'persistentvolume "v" not found'),
        ((claim("mine", None),), "PersistentVolumeClaim had no pv name and storageClass name"),
        ((claim("mine", "other"),), 'storageclass.storage.k8s.io "other" not found'),
        ((claim("mine", NOW), storage_class(NOW, "Immediate")), "PersistentVolume had no name"),
    ],
)
def test_a_pod_waits_while_nobody_knows_where_its_volume_is(storage: tuple[object, ...], reason: str) -> None:
    here = PluginOnTable(VolumeZone, {"a": {ZONE: "z1"}})
    for each in storage:
        here.told(each)  # type: ignore[arg-type]
    assert here.reasons(pod_with("mine")) == {"": (reason, False)}
    here.told(claim("mine", bound="w"))
    assert here.woken


def test_a_claim_that_waits_for_its_pod_is_anywhere() -> None:
    here = PluginOnTable(VolumeZone, {"a": {ZONE: "z1"}})
    here.told(claim("mine"))
    here.told(storage_class())
    assert not here.reasons(pod_with("mine"))
    assert not here.plugin.applies(here.cycle(pod()).shape)


def test_a_pod_wakes_when_its_volume_or_a_node_moves() -> None:
    here = PluginOnTable(VolumeZone, {"a": {ZONE: "z1"}})
    here.told(claim("mine", bound="v"))
    here.told(volume("v", labels={ZONE: "z2"}))
    assert here.reasons(pod_with("mine"))
    here.told(volume("v", labels={ZONE: "z2", "app": "x"}))
    here.told(volume("w", labels={ZONE: "z1"}))
    assert not here.woken
    here.told(volume("v", labels={ZONE: "z3"}))
    assert len(here.woken) == 1
    assert here.reasons(pod_with("mine"))
    here.node("a", {ZONE: "z3"})
    assert len(here.woken) == 2
    assert not here.reasons(pod_with("mine"))
