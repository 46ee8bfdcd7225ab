"""The selector of the services and the workload that a pod belongs to."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.api.cluster import Service
from moorage.api.labels import NOTHING, LabelMatcher, Requirement, SelectorError, from_struct, size_of
from moorage.api.meta import LabelSelector
from moorage.api.pod import Pod
from moorage.api.workload import ReplicaSet, ReplicationController, StatefulSet
from moorage.bounded import Bounded
from moorage.client import Informer, Informers

_BY_LABEL = "by a label that they select"
_SELECTORS_MAX, _SELECTORS_BYTES, _CONDITION_BYTES = 4096, 16 << 20, 300


class PodOwners:
    """The services, replica sets, replication controllers and stateful sets of pods."""

    def __init__(self, informers: Informers) -> None:
        self._services = informers.of(Service)
        self._services.index(_BY_LABEL, _labels_of)
        self._workloads: dict[
            tuple[str, str], Informer[ReplicaSet] | Informer[ReplicationController] | Informer[StatefulSet]
        ] = {
            ("v1", "ReplicationController"): informers.of(ReplicationController),
            ("apps/v1", "ReplicaSet"): informers.of(ReplicaSet),
            ("apps/v1", "StatefulSet"): informers.of(StatefulSet),
        }
        self._known: Bounded[tuple[str, ...], tuple[LabelSelector | None, LabelMatcher]] = Bounded(
            _SELECTORS_MAX, _SELECTORS_BYTES
        )

    def selector(self, pod: Pod) -> LabelMatcher | None:
        """What picks the pods that belong to the same, the same object as long as it says the same; None: nothing."""
        metadata = pod.metadata
        chosen: dict[str, str] = {}
        if len(self._services):
            for label in metadata.labels.items():
                for service in self._services.by(_BY_LABEL, _place(metadata.namespace, *label)):
                    chosen |= _picked(service, metadata.labels)
        owned, uid = self._workload_selector(pod)
        if not chosen and owned is None:
            return None
        key = (metadata.namespace, uid, *(f"{name}={value}" for name, value in chosen.items()))
        known = self._known.get(key)
        if known is None or known[0] != owned:
            known = owned, _merged(chosen, owned)
            self._known.put(key, known, _CONDITION_BYTES * (1 + len(chosen) + size_of(owned)))
        return known[1] if known[1].requirements else None

    def _workload_selector(self, pod: Pod) -> tuple[LabelSelector | None, str]:
        for owner in pod.metadata.owner_references:
            if owner.controller:
                informer = self._workloads.get((owner.api_version, owner.kind))
                workload = informer.get(pod.metadata.namespace, owner.name) if informer else None
                return (workload.spec.selector, owner.uid) if workload else (None, "")
        return None, ""


def _labels_of(service: Service) -> Sequence[str]:
    """A service is found by one of the labels that it selects."""
    label = next(iter((service.spec.selector or {}).items()), None)
    return [_place(service.metadata.namespace, *label)] if label else ()


def _place(namespace: str, name: str, value: str) -> str:
    return f"{namespace}/{name}={value}"


def _picked(service: Service, labels: dict[str, str]) -> dict[str, str]:
    """The labels that a service selects, when it picks the pod."""
    selector = service.spec.selector or {}
    return selector if selector.items() <= labels.items() else {}


def _merged(chosen: dict[str, str], owned: LabelSelector | None) -> LabelMatcher:
    requirements = [Requirement(name, "=", (value,)) for name, value in chosen.items()]
    try:
        selector = from_struct(owned, trusted=True)
    except SelectorError:
        selector = NOTHING
    return LabelMatcher([*requirements, *selector.requirements])
