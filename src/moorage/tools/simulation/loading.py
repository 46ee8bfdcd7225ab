"""Fills a store with the objects of a snapshot, as they are: with their uids, owners, status and times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data, Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.wellknown import SYSTEM_PRIORITIES, TAINT_NOT_READY
from moorage.apiserver.base.objects import encode, key
from moorage.apiserver.bootstrap import NAMESPACES, bootstrap
from moorage.client.clock import timestamp
from moorage.controllers.frame.pods import controller_of
from moorage.controllers.hollow.nodestatus import missing_labels, missing_status
from moorage.controllers.hollow.podstatus import running
from moorage.features import Gates
from moorage.registry.table import strategy_of
from moorage.store.history import History
from moorage.store.memory import MemoryStore
from moorage.store.protocol import HEAD, Item
from moorage.tools.admission import ManifestAdmission
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.simulation.between import Between

_NAMESPACE = kinds.row("v1", "Namespace")
_PRIORITY_CLASS = kinds.row("scheduling.k8s.io/v1", "PriorityClass")
_NOT_LOADED = ("Event", "Lease")
_POD = kinds.row("v1", "Pod")
_NOT_KEPT = ("managedFields", "resourceVersion")
_LONG_AGO = "1970-01-01T00:00:00Z"
_UNKNOWN = "not-in-the-snapshot"
"""The image of a container of which no image is known."""
_NO_ADDRESS = "192.0.2.1"


@dataclass(slots=True)
class LoadedSnapshot:
    """A cluster as a store holds it, before anything happens, and what had to be assumed for it."""

    items: dict[str, Item] = field(default_factory=dict)
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    """The time at which it was taken: that of its latest object."""
    found: set[str] = field(default_factory=set)
    """The uids of the pods that have been started."""
    absent: set[str] = field(default_factory=set)
    """The uids of owners that are not in the snapshot, or of kinds that are not ours."""
    absent_owners: dict[str, int] = field(default_factory=dict)
    """How many pods have such an owner, by its kind."""
    schedulers: set[str] = field(default_factory=set)
    """The names of the schedulers that pods and templates name."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """The objects that the API server would not take, and why."""
    assumptions: list[str] = field(default_factory=list)

    async def store(self) -> MemoryStore:
        """A new store that holds all of it, and what every cluster begins with."""
        history = History(len(self.items) + 1)
        store = MemoryStore(dict(self.items), history)
        await bootstrap(store)
        return store


def load(cluster: Cluster, gates: Gates) -> LoadedSnapshot:
    """The objects of a cluster as they are stored; what was written by hand is made into objects by the registry."""
    return _Loading(cluster, gates).loaded()


class _Loading:
    def __init__(self, cluster: Cluster, gates: Gates) -> None:
        self._cluster = cluster
        self._admission = ManifestAdmission(cluster.items, gates, is_complete=cluster.is_complete)
        self._snapshot = LoadedSnapshot()
        self._uids: set[str] = set()
        self._objects: list[Object] = []
        self._pods = _PodForm()
        self._hollow = 0

    def loaded(self) -> LoadedSnapshot:
        snapshot = self._snapshot
        items = [
            item for item in self._cluster.items if not item.within and kinds.of(item.object).kind not in _NOT_LOADED
        ]
        times = [each for item in items if (each := item.object.metadata.creation_timestamp) is not None]
        snapshot.start = max(times, default=snapshot.start)
        for item in items:
            self._load(item)
        for kind, name, data in self._stand_ins(items):
            self._put(kind, "", name, encode(data))
        self._restore()
        for thing in self._objects:
            self._note_owner(thing)
        if self._hollow:
            nodes = f"{self._hollow} node{'s' if self._hollow > 1 else ''}"
            snapshot.assumptions.append(f"{nodes} without a status: taken for ready, with 16 CPU and 64Gi unless given")
        for kind_name, count in snapshot.absent_owners.items():
            pods = f"{count} pod{'s' if count > 1 else ''}"
            snapshot.assumptions.append(f"{pods} of a {kind_name} that is not here: assumed to be replaced as they are")
        return snapshot

    def _load(self, item: ClusterObject) -> None:
        thing, document = item.object, item.document
        kind, metadata = kinds.of(thing), thing.metadata
        if document is not None and not metadata.uid:
            data = self._admitted(item)
            if data is None:
                return
            thing = msgspec.convert(data, kind.struct)
            metadata = thing.metadata
            if isinstance(thing, Node):
                data = self._ready(data, document.data)
            elif isinstance(thing, Pod) and thing.spec.node_name:
                now = timestamp(self._snapshot.start)
                data["status"] = running(thing, _NO_ADDRESS, _NO_ADDRESS, self._snapshot.start) | {"startTime": now}
                self._snapshot.found.add(metadata.uid)
            value = encode(data)
        elif isinstance(thing, Pod):
            value = self._pods.stored(thing, document.data if document is not None else None)
        else:
            value = _stored(kind, thing, document.data if document is not None else None)
        namespace = metadata.namespace or "default" if kind.namespaced else ""
        self._put(kind, namespace, metadata.name, value)
        self._uids.add(metadata.uid)
        self._objects.append(thing)
        if isinstance(thing, Pod) and (thing.status.start_time is not None or thing.status.phase == "Running"):
            self._snapshot.found.add(metadata.uid)

    def _restore(self) -> None:
        """Put in what stands between workloads and their pods."""
        between = Between(self._objects)
        for workload in between.workloads:
            metadata = workload.metadata
            stored = self._snapshot.items[key(kinds.of(workload), metadata.namespace or "default", metadata.name)]
            for kind, data in between.of(workload, msgspec.json.decode(stored.value)):
                self._put(kind, data["metadata"]["namespace"], data["metadata"]["name"], encode(data))
                self._uids.add(data["metadata"]["uid"])

    def _admitted(self, item: ClusterObject) -> Data | None:
        trial = self._admission.trial(item)
        if trial.stored is None:
            reasons = [str(each) for each in (*trial.refusals, *([trial.unreadable] if trial.unreadable else ()))]
            self._snapshot.refused.append((item.name, "; ".join(reasons)))
            return None
        data: Data = msgspec.json.decode(msgspec.json.encode(trial.stored))
        data["metadata"]["creationTimestamp"] = timestamp(self._snapshot.start)
        return data

    def _ready(self, data: Data, written: Data) -> Data:
        """A node of a manifest as its kubelet would report it: ready, and with room for pods."""
        kept = (written.get("spec") or {}).get("taints") or ()
        is_kept = any(taint.get("key") == TAINT_NOT_READY for taint in kept)
        spec = data["spec"]
        if not is_kept:
            spec["taints"] = [taint for taint in spec["taints"] if taint["key"] != TAINT_NOT_READY]
        node = msgspec.convert(data, Node)
        if labels := missing_labels(node):
            data["metadata"]["labels"] = {**labels, **data["metadata"].get("labels", {})}
        status = data.setdefault("status", {})
        missing = missing_status(node, _NO_ADDRESS, self._snapshot.start)
        self._hollow += "capacity" in missing
        for name, value in missing.items():
            status[name] = {**value, **status.get(name, {})} if isinstance(value, dict) else value
        return data

    def _put(self, kind: Kind, namespace: str, name: str, value: bytes) -> None:
        where = key(kind, namespace, name)
        known = self._snapshot.items.get(where)
        revision = known.revision if known else len(self._snapshot.items) + 2
        self._snapshot.items[where] = Item(where, value, revision)

    def _stand_ins(self, items: Iterable[ClusterObject]) -> Iterator[tuple[Kind, str, Data]]:
        """Namespaces and priority classes that objects name and that are not in the snapshot."""
        namespaces, priorities = set[str](), dict[str, int]()
        for item in items:
            kind = kinds.of(item.object)
            if kind.namespaced:
                namespaces.add(item.object.metadata.namespace or "default")
            spec = kind.pod_spec_of(item.object)
            if spec is not None and spec.scheduler_name:
                self._snapshot.schedulers.add(spec.scheduler_name)
            if spec is not None and (name := spec.priority_class_name):
                priorities[name] = spec.priority or priorities.get(name, 0)
        for name in sorted(namespaces - set(NAMESPACES)):
            if key(_NAMESPACE, "", name) not in self._snapshot.items:
                status = {"status": {"phase": "Active"}, "spec": {"finalizers": ["kubernetes"]}}
                yield _NAMESPACE, name, _object(_NAMESPACE, name, labels={"kubernetes.io/metadata.name": name}) | status
        for name, value in priorities.items():
            if key(_PRIORITY_CLASS, "", name) not in self._snapshot.items and name not in SYSTEM_PRIORITIES:
                self._snapshot.assumptions.append(f"PriorityClass {name} is not here: its value is taken for {value}")
                policy = {"value": value, "preemptionPolicy": "PreemptLowerPriority"}
                yield _PRIORITY_CLASS, name, _object(_PRIORITY_CLASS, name) | policy

    def _note_owner(self, thing: Object) -> None:
        for owner in thing.metadata.owner_references:
            if owner.uid not in self._uids:
                self._snapshot.absent.add(owner.uid)
        controller = controller_of(thing)
        if isinstance(thing, Pod) and controller is not None and controller.uid in self._snapshot.absent:
            counts = self._snapshot.absent_owners
            counts[controller.kind] = counts.get(controller.kind, 0) + 1


def _object(kind: Kind, name: str, **metadata: Data) -> Data:
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    return {**head, "metadata": {"name": name, "uid": f"assumed-{kind.singular}-{name}", **metadata}}


def _stored(kind: Kind, thing: Object, data: Data | None) -> bytes:
    """The bytes that are stored for an object that was stored elsewhere."""
    if data is None:
        data = msgspec.to_builtins(thing)
        complete(_inner(data, kind.pod_spec))
    elif kind.upgrade is not None and data.get("apiVersion") != kind.api_version:
        data = kind.upgrade(data)
    metadata = {name: value for name, value in data["metadata"].items() if name != "managedFields"}
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    strategy = strategy_of(kind)
    if strategy.first_generation:
        metadata.setdefault("generation", strategy.first_generation)
    data = {**data, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    strategy.defaults(data, _LONG_AGO)
    if isinstance(thing, Node) and not any(each.type == "Ready" for each in thing.status.conditions):
        status = data.setdefault("status", {})
        status["conditions"] = [*status.get("conditions", ()), {"type": "Ready", "status": "True"}]
    return encode(data)


def _inner(data: Data, path: str) -> Data:
    for name in path.split(".") if path else ():
        data = data.get(name) or {}
    return data if path else {}


def complete(spec: Data) -> None:
    """Put into a pod specification what is required and was not read of a cluster, because no placement needs it."""
    for part in ("containers", "initContainers"):
        for container in spec.get(part, ()):
            container.setdefault("image", _UNKNOWN)
    for volume in spec.get("volumes", ()):
        if volume.keys() <= {"name"}:
            volume["emptyDir"] = {}


class _PodForm:
    """Pods as they are stored. There are many, and few specifications: the defaults of each are set once."""

    def __init__(self) -> None:
        self._specs: dict[bytes, bytes] = {}

    def stored(self, pod: Pod, data: Data | None) -> bytes:
        """The bytes that are stored for a pod that was stored elsewhere."""
        namespace = pod.metadata.namespace or "default"
        if data is None:
            written = msgspec.json.encode(msgspec.structs.replace(pod.spec, node_name=""))
            metadata = msgspec.json.encode(
                msgspec.structs.replace(pod.metadata, resource_version="", namespace=namespace)
            )
            status = msgspec.json.encode(pod.status)
        else:
            written = msgspec.json.encode({name: each for name, each in data["spec"].items() if name != "nodeName"})
            kept = data["metadata"].items()
            metadata = msgspec.json.encode(
                {"namespace": namespace} | {name: each for name, each in kept if name not in _NOT_KEPT}
            )
            status = msgspec.json.encode(data.get("status") or {})
        spec = self._specs.get(written)
        if spec is None:
            spec = self._specs[written] = self._default(written)
        node = b'"nodeName":%b,' % msgspec.json.encode(pod.spec.node_name) if pod.spec.node_name else b""
        return b'%b",%b,"apiVersion":"v1","kind":"Pod","spec":{%b%b,"status":%b}' % (
            HEAD, metadata[1:], node, spec[1:], status,
        )  # fmt: skip

    def _default(self, written: bytes) -> bytes:
        spec: Data = msgspec.json.decode(written)
        complete(spec)
        account = spec.setdefault("serviceAccountName", "default")
        spec.setdefault("serviceAccount", account)
        data = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec, "status": {}}
        strategy_of(_POD).defaults(data, _LONG_AGO)
        return msgspec.json.encode(data["spec"])
