"""The table of kinds: a row for each kind of object, which routing, discovery and decoding use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, cast

from msgspec.structs import replace

from moorage.api import cluster, node, pod, quota, resource, resourceversions, volume, workload
from moorage.api.meta import Data, Object, ObjectMeta
from moorage.api.pod import PodSpec


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object: its names, group and version, its struct and its subresources."""

    group: str
    version: str
    kind: str
    plural: str
    struct: type[Object] = Object
    """The struct with the fields that components read; plain Object when they read none."""
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    older_versions: tuple[str, ...] = ()
    """Older versions that are served too, and converted by `upgrade` and `downgrade`."""
    alike_versions: tuple[str, ...] = ()
    """Older versions with the same fields, which other servers may serve instead."""
    upgrade: Callable[[Data], Data] | None = None
    """Converts an object of an older version to the one that is stored."""
    downgrade: Callable[[Data, str], Data] | None = None
    """Converts a stored object to the older version that is given."""
    pod_spec: str = ""
    """The path of the pod specification that objects of this kind hold, empty when they hold none."""

    @property
    def api_version(self) -> str:
        """Group and version as objects spell them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The name of one, as it stands in a command."""
        return self.kind.lower()

    @property
    def resource(self) -> str:
        """The name that messages use: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def pod_spec_of(self, item: Object) -> PodSpec | None:
        """The pod specification inside of an object of this kind."""
        if not self.pod_spec:
            return None
        return _POD_SPECS[self.pod_spec](item)

    @property
    def pod_metadata(self) -> str:
        """The path of the metadata that stand beside that pod specification."""
        return f"{self.pod_spec.removesuffix('spec')}metadata" if self.pod_spec else ""

    def pod_metadata_of(self, item: Object) -> ObjectMeta | None:
        """The metadata beside the pod specification inside of an object of this kind: those of its pods."""
        return _POD_METADATA[self.pod_spec](item) if self.pod_spec else None

    def with_pod_spec(self, item: Object, spec: PodSpec) -> Object:
        """An object of this kind with another pod specification."""
        return cast(Object, _with(item, _POD_SPEC_PATHS[self.pod_spec], spec))


def _with(holder: Any, path: tuple[str, ...], value: object) -> Any:
    first, *rest = path
    return replace(holder, **{first: _with(getattr(holder, first), tuple(rest), value) if rest else value})


_TEMPLATE = "spec.template.spec"
_CRON_TEMPLATE = "spec.jobTemplate.spec.template.spec"
_POD_SPEC_PATHS = {
    "spec": ("spec",),
    "template.spec": ("template", "spec"),
    _TEMPLATE: ("spec", "template", "spec"),
    _CRON_TEMPLATE: ("spec", "job_template", "spec", "template", "spec"),
}
_POD_SPECS: dict[str, Callable[[Object], PodSpec]] = {
    name: attrgetter(".".join(path)) for name, path in _POD_SPEC_PATHS.items()
}
_POD_METADATA: dict[str, Callable[[Object], ObjectMeta]] = {
    name: attrgetter(".".join((*path[:-1], "metadata"))) for name, path in _POD_SPEC_PATHS.items()
}
_OLDER_DEVICES: dict[str, Any] = {
    "older_versions": resourceversions.OLDER_VERSIONS,
    "upgrade": resourceversions.to_v1,
    "downgrade": resourceversions.from_v1,
}


_STATUS, _SCALE, _ALL = ("status",), ("status", "scale"), ("all",)
_POD_SUBRESOURCES = (
    "status", "binding", "eviction", "ephemeralcontainers", "resize", "log", "exec", "attach", "portforward", "proxy",
)  # fmt: skip


def _core(kind: str, plural: str, struct: type[Object] = Object, *short_names: str, **more: Any) -> Kind:
    return Kind("", "v1", kind, plural, struct, short_names, **more)


def _workload(group: str, kind: str, struct: type[Object], *short_names: str, **more: Any) -> Kind:
    more = {"subresources": _SCALE, "pod_spec": _TEMPLATE, **more}
    return Kind(group, "v1", kind, f"{kind.lower()}s", struct, short_names, categories=_ALL, **more)


def _device(kind: str, struct: type[Object], **more: Any) -> Kind:
    plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    more = {"namespaced": False, **_OLDER_DEVICES, **more}
    return Kind("resource.k8s.io", "v1", kind, plural, struct, **more)


def _cluster_wide(
    group: str, kind: str, plural: str, struct: type[Object] = Object, *short_names: str, **more: Any
) -> Kind:
    return Kind(group, "v1", kind, plural, struct, short_names, namespaced=False, **more)


KINDS = (
    _core("Namespace", "namespaces", cluster.Namespace, "ns", namespaced=False, subresources=("status", "finalize")),
    _core("Node", "nodes", node.Node, "no", namespaced=False, subresources=_STATUS),
    _core("Pod", "pods", pod.Pod, "po", categories=_ALL, subresources=_POD_SUBRESOURCES, pod_spec="spec"),
    _core("PersistentVolume", "persistentvolumes", volume.PersistentVolume, "pv", namespaced=False,
          subresources=_STATUS),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", volume.PersistentVolumeClaim, "pvc", subresources=_STATUS),
    _core("ConfigMap", "configmaps", Object, "cm"),
    _core("Secret", "secrets"),
    _core("Service", "services", cluster.Service, "svc", categories=_ALL, subresources=_STATUS),
    _core("ServiceAccount", "serviceaccounts", Object, "sa", subresources=("token",)),
    _core("Event", "events", cluster.Event, "ev"),
    _core("PodTemplate", "podtemplates", pod.PodTemplate, pod_spec="template.spec"),
    _core("LimitRange", "limitranges", quota.LimitRange, "limits"),
    _core("ResourceQuota", "resourcequotas", quota.ResourceQuota, "quota", subresources=_STATUS),
    _workload("", "ReplicationController", workload.ReplicationController, "rc"),
    _workload("apps", "Deployment", workload.Deployment, "deploy"),
    _workload("apps", "ReplicaSet", workload.ReplicaSet, "rs"),
    _workload("apps", "StatefulSet", workload.StatefulSet, "sts"),
    _workload("apps", "DaemonSet", workload.DaemonSet, "ds", subresources=_STATUS),
    Kind("apps", "v1", "ControllerRevision", "controllerrevisions", workload.ControllerRevision),
    _workload("batch", "Job", workload.Job, subresources=_STATUS),
    _workload("batch", "CronJob", workload.CronJob, "cj", subresources=_STATUS, pod_spec=_CRON_TEMPLATE),
    _cluster_wide("node.k8s.io", "RuntimeClass", "runtimeclasses", pod.RuntimeClass),
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", pod.PodDisruptionBudget, ("pdb",),
         subresources=_STATUS),
    _cluster_wide("scheduling.k8s.io", "PriorityClass", "priorityclasses", pod.PriorityClass, "pc"),
    _cluster_wide("storage.k8s.io", "StorageClass", "storageclasses", volume.StorageClass, "sc"),
    _cluster_wide("storage.k8s.io", "CSINode", "csinodes", volume.CSINode),
    _cluster_wide("storage.k8s.io", "CSIDriver", "csidrivers", volume.CSIDriver),
    _cluster_wide("storage.k8s.io", "VolumeAttachment", "volumeattachments", volume.VolumeAttachment,
                  subresources=_STATUS),
    Kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", volume.CSIStorageCapacity),
    Kind("coordination.k8s.io", "v1", "Lease", "leases", cluster.Lease),
    Kind("events.k8s.io", "v1", "Event", "events", short_names=("ev",)),
    Kind("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    _cluster_wide("rbac.authorization.k8s.io", "ClusterRole", "clusterroles"),
    _cluster_wide("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings"),
    _device("ResourceSlice", resource.ResourceSlice),
    _device("ResourceClaim", resource.ResourceClaim, namespaced=True, subresources=_STATUS),
    _device("ResourceClaimTemplate", resource.ResourceClaimTemplate, namespaced=True),
    _device("DeviceClass", resource.DeviceClass),
    _device("DeviceTaintRule", resource.DeviceTaintRule, subresources=_STATUS, alike_versions=("v1beta2", "v1alpha3")),
)  # fmt: skip


BINDING = _core("Binding", "bindings")
"""It is created to assign a pod to a node, and never stored."""

REVIEWS = (
    Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False),
    Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False),
    Kind("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews"),
    Kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False),
    Kind("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False),
    Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False),
)
"""Questions that are asked by creating them; nothing of them is kept."""


def _spellings(kind: Kind) -> Iterator[tuple[str, str]]:
    yield kind.api_version, kind.kind
    for version in kind.older_versions:
        yield f"{kind.group}/{version}", kind.kind


_BY_NAME = {spelling: kind for kind in KINDS for spelling in _spellings(kind)}
_BY_STRUCT = {kind.struct: kind for kind in KINDS if kind.struct is not Object}


_UNKNOWN = Kind("", "v1", "Object", "objects")


def find(api_version: str, kind: str) -> Kind | None:
    """The row of a kind by the apiVersion and kind of an object, None when there is none."""
    return _BY_NAME.get((api_version, kind))


def row(api_version: str, kind: str) -> Kind:
    """The row of a kind that is known to exist."""
    return _BY_NAME[api_version, kind]


def of(item: Object) -> Kind:
    """The row of a decoded object, by its struct or by its own apiVersion and kind."""
    return _BY_STRUCT.get(type(item)) or _BY_NAME.get((item.api_version, item.kind)) or _UNKNOWN
