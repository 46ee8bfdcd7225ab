"""The table of kinds: one row for each sort of object; a new kind is a row, not a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from moorage.api import cluster, node, pod, resource, volume, workload
from moorage.api.meta import Object
from moorage.api.pod import PodSpec


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of object: how it is named, where it lives, how it is read."""

    group: str
    version: str
    kind: str
    plural: str
    struct: type[Object]
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    older_versions: tuple[str, ...] = ()
    """Versions that are read too, through `upgrade`."""
    upgrade: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    pod_spec: str = ""
    """The path of the pod specification that objects of this kind hold, empty when they hold none."""

    @property
    def api_version(self) -> str:
        """Group and version as objects spell them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def pod_spec_of(self, item: Object) -> PodSpec | None:
        """The pod specification inside of an object of this kind."""
        if not self.pod_spec:
            return None
        spec: PodSpec = attrgetter(_ATTRIBUTES.get(self.pod_spec, self.pod_spec))(item)
        return spec


_TEMPLATE = "spec.template.spec"
_CRON_TEMPLATE = "spec.jobTemplate.spec.template.spec"
_ATTRIBUTES = {_CRON_TEMPLATE: "spec.job_template.spec.template.spec"}
_OLDER_DEVICES = ("v1alpha3", "v1alpha4", "v1beta1", "v1beta2")


def _device(kind: str, plural: str, struct: type[Object], *, namespaced: bool = False) -> Kind:
    return Kind(
        "resource.k8s.io", "v1", kind, plural, struct,
        namespaced=namespaced, older_versions=_OLDER_DEVICES, upgrade=resource.to_v1,
    )  # fmt: skip


KINDS = (
    Kind("", "v1", "Namespace", "namespaces", cluster.Namespace, ("ns",), namespaced=False),
    Kind("", "v1", "Node", "nodes", node.Node, ("no",), namespaced=False),
    Kind("", "v1", "Pod", "pods", pod.Pod, ("po",), pod_spec="spec"),
    Kind("", "v1", "PersistentVolume", "persistentvolumes", volume.PersistentVolume, ("pv",), namespaced=False),
    Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", volume.PersistentVolumeClaim, ("pvc",)),
    Kind("", "v1", "Event", "events", cluster.Event, ("ev",)),
    Kind("apps", "v1", "Deployment", "deployments", workload.Deployment, ("deploy",), pod_spec=_TEMPLATE),
    Kind("apps", "v1", "ReplicaSet", "replicasets", workload.ReplicaSet, ("rs",), pod_spec=_TEMPLATE),
    Kind("apps", "v1", "StatefulSet", "statefulsets", workload.StatefulSet, ("sts",), pod_spec=_TEMPLATE),
    Kind("apps", "v1", "DaemonSet", "daemonsets", workload.DaemonSet, ("ds",), pod_spec=_TEMPLATE),
    Kind("batch", "v1", "Job", "jobs", workload.Job, pod_spec=_TEMPLATE),
    Kind("batch", "v1", "CronJob", "cronjobs", workload.CronJob, ("cj",), pod_spec=_CRON_TEMPLATE),
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", pod.PodDisruptionBudget, ("pdb",)),
    Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", pod.PriorityClass, ("pc",), namespaced=False),
    Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", volume.StorageClass, ("sc",), namespaced=False),
    Kind("coordination.k8s.io", "v1", "Lease", "leases", cluster.Lease),
    _device("ResourceSlice", "resourceslices", resource.ResourceSlice),
    _device("ResourceClaim", "resourceclaims", resource.ResourceClaim, namespaced=True),
    _device("ResourceClaimTemplate", "resourceclaimtemplates", resource.ResourceClaimTemplate, namespaced=True),
    _device("DeviceClass", "deviceclasses", resource.DeviceClass),
    _device("DeviceTaintRule", "devicetaintrules", resource.DeviceTaintRule),
)


def _spellings(kind: Kind) -> Iterator[tuple[str, str]]:
    yield kind.api_version, kind.kind
    for version in kind.older_versions:
        yield f"{kind.group}/{version}", kind.kind


_BY_NAME = {spelling: kind for kind in KINDS for spelling in _spellings(kind)}
_BY_STRUCT = {kind.struct: kind for kind in KINDS}


def find(api_version: str, kind: str) -> Kind | None:
    """The row of a kind, by what an object says of itself."""
    return _BY_NAME.get((api_version, kind))


def of(item: Object) -> Kind:
    """The row of an object that was decoded by this table."""
    return _BY_STRUCT[type(item)]
