from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import inspect as types

from moorage.api.decode import convert
from moorage.api.kinds import KINDS, Kind
from moorage.api.meta import Data
from moorage.api.node import NodeSelectorTerm
from moorage.api.placementrules import terms_of, tolerations_of
from moorage.api.pod import Toleration
from tests.api.every_field import Place, alternatives, document, places

every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.kind for kind in KINDS])

TOLERATION, TERM = {"key": "mine", "operator": "Exists"}, {"matchCELExpressions": ["true"]}
ALLOCATED = "status.allocation.nodeSelector."
"""What the allocator writes for itself: nobody sets it by hand."""


def holding(kind: Kind, struct: type) -> Iterator[Place]:
    for place in places(kind):
        first = alternatives(place.type)[0]
        if isinstance(first, types.StructType) and first.cls is struct and not place.path.startswith(ALLOCATED):
            yield place


@every_kind
def test_tolerations_are_found_wherever_a_kind_can_hold_them(kind: Kind) -> None:
    for place in holding(kind, Toleration):
        item = convert(document(place.steps, TOLERATION), kind.struct)
        listed = [(path, tolerations) for path, tolerations in tolerations_of(item) if tolerations]
        assert listed == [(place.path.removesuffix("[0]"), (Toleration("mine", "Exists"),))], place.path


@every_kind
def test_terms_are_found_wherever_a_kind_can_hold_them(kind: Kind) -> None:
    for place in holding(kind, NodeSelectorTerm):
        item = convert(document(place.steps, TERM), kind.struct)
        assert list(terms_of(item)) == [(place.path, NodeSelectorTerm(match_cel_expressions=("true",)))], place.path


def test_the_kinds_that_hold_tolerations_and_terms_are_these() -> None:
    templates = {
        "Pod", "PodTemplate", "ReplicationController", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job",
        "CronJob",
    }  # fmt: skip
    claims, inventories = {"ResourceClaim", "ResourceClaimTemplate"}, {"PersistentVolume", "ResourceSlice"}
    assert {kind.kind for kind in KINDS if any(holding(kind, Toleration))} == templates | claims | {"RuntimeClass"}
    assert {kind.kind for kind in KINDS if any(holding(kind, NodeSelectorTerm))} == templates | inventories


@every_kind
def test_an_empty_object_holds_none(kind: Kind) -> None:
    item = kind.struct()
    assert not any(tolerations for _, tolerations in tolerations_of(item))
    assert not list(terms_of(item))


def paths_of(kind: str, data: Data) -> tuple[list[str], list[str]]:
    item = convert(data, next(row.struct for row in KINDS if row.kind == kind))
    return [path for path, _ in tolerations_of(item)], [path for path, _ in terms_of(item)]


def test_each_request_and_each_way_to_satisfy_it_has_its_own_path() -> None:
    requests = [
        {"name": "a", "exactly": {"tolerations": [TOLERATION]}},
        {"name": "b", "firstAvailable": [{"tolerations": [TOLERATION]}, {"tolerations": [TOLERATION]}]},
    ]
    tolerations, terms = paths_of("ResourceClaim", {"spec": {"devices": {"requests": requests}}})
    assert tolerations == [
        "spec.devices.requests[0].exactly.tolerations",
        "spec.devices.requests[1].firstAvailable[0].tolerations",
        "spec.devices.requests[1].firstAvailable[1].tolerations",
    ]
    assert terms == []


def test_every_term_of_a_pod_has_its_own_path() -> None:
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM, TERM]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": TERM}, {"preference": TERM}],
    }
    _, terms = paths_of("Pod", {"spec": {"affinity": {"nodeAffinity": affinity}}})
    here = "spec.affinity.nodeAffinity."
    assert terms == [
        here + "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]",
        here + "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]",
        here + "preferredDuringSchedulingIgnoredDuringExecution[0].preference",
        here + "preferredDuringSchedulingIgnoredDuringExecution[1].preference",
    ]
