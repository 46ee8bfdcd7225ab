"""The fields that a snapshot holds: those that components read, without what has nothing to do with placement."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec

from moorage.api import kinds, node, pod, resource, volume
from moorage.api.decode import without_nulls
from moorage.api.kinds import Kind
from moorage.api.manifests import ManifestError
from moorage.api.meta import Condition, Data, Object, ObjectMeta
from moorage.api.workload import ControllerRevision

KINDS = tuple(kind for kind in kinds.KINDS if kind.struct is not Object and kind.kind != "Event")
"""The kinds whose fields components read, and with that all that placement depends on."""

_LEFT_OUT: dict[type, tuple[str, ...]] = {
    Condition: ("message",),
    node.NodeCondition: ("message", "last_heartbeat_time"),
    node.NodeSpec: ("provider_id", "pod_cidr"),
    node.NodeStatus: ("addresses", "node_info"),
    pod.Container: ("command", "args"),
    pod.PodCondition: ("message", "last_probe_time"),
    pod.PodSpec: ("service_account_name",),
    pod.PodStatus: ("message", "host_ip", "pod_ip", "ephemeral_container_statuses"),
    pod.PriorityClass: ("description",),
    resource.DeviceAllocationResult: ("config",),
    resource.DeviceClaim: ("config",),
    resource.DeviceClassSpec: ("config",),
    volume.PersistentVolumeStatus: ("message",),
    volume.StorageClass: ("parameters",),
}
_ANNOTATIONS = frozenset((
    "batch.kubernetes.io/cronjob-scheduled-timestamp", "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-index-failure-count", "batch.kubernetes.io/job-index-ignored-failure-count",
    "controller.kubernetes.io/pod-deletion-cost", "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas", "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation", "kubernetes.io/config.mirror", "kubernetes.io/config.source",
    "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/provisioned-by",
    "resource.kubernetes.io/pod-claim-name", "scheduler.alpha.kubernetes.io/defaultTolerations",
    "scheduler.alpha.kubernetes.io/node-selector", "scheduler.alpha.kubernetes.io/tolerationsWhitelist",
    "storage.alpha.kubernetes.io/migrated-plugins", "storageclass.beta.kubernetes.io/is-default-class",
    "storageclass.kubernetes.io/is-default-class", "volume.beta.kubernetes.io/storage-class",
    "volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
))  # fmt: skip
_OWN_ANNOTATIONS = "moorage.dev/"


class _Annotations(dict[str, str]):
    """Of annotations those that components read."""


class _Volumes(list[Any]):
    """Of a pod's volumes those whose source matters to placement; whoever mounts the others is not kept either."""


class _Revision(dict[str, Any]):
    """The pod template that a ControllerRevision holds."""


class RevisionWithTemplate(ControllerRevision):
    """A ControllerRevision with the template that it holds: a controller compares it with that of its workload."""

    api_version: str = "apps/v1"
    kind: str = "ControllerRevision"
    data: Data | None = None


_REPLACED: dict[tuple[type, str], type] = {
    (ObjectMeta, "annotations"): _Annotations,
    (pod.PodSpec, "volumes"): _Volumes,
    (RevisionWithTemplate, "data"): _Revision,
}


class ReducedPage(NamedTuple):
    """A page of a list, with nothing but the fields of a snapshot."""

    items: bytes
    """A JSON array."""
    size: int
    """How many objects they are."""
    continue_: str
    remaining: int | None
    """How many objects are on the pages that follow, when the server says so."""
    problems: list[ManifestError]


class _PageMeta(msgspec.Struct):
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining: int | None = msgspec.field(default=None, name="remainingItemCount")


class _RawPage(msgspec.Struct):
    metadata: _PageMeta
    items: list[msgspec.Raw] | None = None


def struct_of(kind: Kind) -> type[Object]:
    """What an object of a kind is in memory."""
    return RevisionWithTemplate if kind.struct is ControllerRevision else kind.struct


def reduce_page(kind: Kind, body: bytes) -> ReducedPage:
    """Drop from a list, as an API server answers it, what a snapshot does not hold. Raises msgspec.DecodeError."""
    problems: list[ManifestError] = []
    try:
        page = _page_reader(kind)(body)
        items = page.items or []
    except msgspec.ValidationError:
        page = msgspec.json.decode(body, type=_RawPage)
        items = [item for raw in page.items or () if (item := _one(kind, raw, problems)) is not None]
    return ReducedPage(_encode(items), len(items), page.metadata.continue_ or "", page.metadata.remaining, problems)


def upgrade_page(kind: Kind, version: str, body: bytes) -> bytes:
    """A list of an older version of a kind as one of the version that is known. Raises msgspec.DecodeError."""
    page: Data = msgspec.json.decode(body)
    if kind.upgrade is not None:
        said = {"apiVersion": f"{kind.group}/{version}", "kind": kind.kind}
        page["items"] = [
            kind.upgrade({**item, **said}) | {"apiVersion": kind.api_version} for item in page.get("items") or ()
        ]
    return _encode(page)


def _one(kind: Kind, raw: msgspec.Raw, problems: list[ManifestError]) -> Any:
    try:
        return msgspec.convert(without_nulls(msgspec.json.decode(raw)), reduced(struct_of(kind)), dec_hook=_hook)
    except msgspec.ValidationError as error:
        problems.append(ManifestError(str(error), kind.resource))
        return None


@cache
def _page_reader(kind: Kind) -> Callable[[bytes], Any]:
    items = GenericAlias(list, (reduced(struct_of(kind)),))
    fields: list[Any] = [("metadata", _PageMeta), ("items", items | None, None)]
    return msgspec.json.Decoder(msgspec.defstruct("Page", fields), dec_hook=_hook).decode


@cache
def reduced(struct: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """A struct with the fields of another that a snapshot holds, each of which may be absent or null."""
    left_out = _LEFT_OUT.get(struct, ())
    fields = [
        (each.name, _reduced_type(_REPLACED.get((struct, each.name), each.type)) | None,
         msgspec.field(default=None, name=each.encode_name))
        for each in msgspec.structs.fields(struct) if each.name not in left_out
    ]  # fmt: skip
    return msgspec.defstruct(struct.__name__, fields, omit_defaults=True, gc=False)


def _reduced_type(of: Any) -> Any:
    """The type of a field in a reduced struct. Times stay text, and bounds are for who loads it."""
    origin, arguments = get_origin(of), get_args(of)
    if origin is Annotated:
        return _reduced_type(arguments[0])
    if origin in (Union, UnionType):
        return Union[tuple(_reduced_type(each) for each in arguments)]  # noqa: UP007 - made at run time
    if origin is tuple:
        return GenericAlias(list, (_reduced_type(arguments[0]),))
    if origin is dict:
        return GenericAlias(dict, (str, _reduced_type(arguments[1]) | None))
    if of is datetime:
        return str
    return reduced(of) if isinstance(of, type) and issubclass(of, msgspec.Struct) else of


def _hook(wanted: type, value: Any) -> Any:
    if wanted is _Annotations:
        return _Annotations(
            (key, text) for key, text in value.items() if key in _ANNOTATIONS or key.startswith(_OWN_ANNOTATIONS)
        )
    if wanted is _Volumes:
        kept = [each for each in value if not _SOURCES.isdisjoint(each)]
        return _Volumes(msgspec.convert(each, reduced(pod.Volume), dec_hook=_hook) for each in kept)
    try:
        template = msgspec.convert(value["spec"]["template"], reduced(pod.PodTemplateSpec), dec_hook=_hook)
    except (msgspec.ValidationError, KeyError, TypeError):
        return _Revision()  # that of another controller, about something else
    return _Revision(spec={"template": template})


_SOURCES = frozenset(each.encode_name for each in msgspec.structs.fields(pod.Volume)) - {"name"}
_encode = msgspec.json.Encoder().encode
