"""What runs where, in the few fields that the page shows, with a revision for every change."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.requests import CPU, MEMORY, PODS
from moorage.client.informer import Informer, Informers
from moorage.match.reasons import EXPLAINED_COST, departures
from moorage.match.tolerations import NO_EXECUTE, Tolerations
from moorage.page.history import add_owners, happened_before, pending_before
from moorage.page.timeline import Happening, Timeline, owner_of, state_of, waits_for
from moorage.scheduler.scheduler import Scheduler

LOG_MAX = 100_000
"""How many changes are kept; a page that has missed more asks for everything again."""
EVICT_AT = "moorage.dev/evict-at"
_READY = "Ready"
REASON_MAX = 2000
"""Characters of a reason: whoever writes the status of a pod may write a megabyte."""


class NodeRow(msgspec.Struct):
    """What the page shows of a node."""

    name: str
    labels: dict[str, str]
    taints: list[str]
    ready: bool
    cordoned: bool
    usage: list[int]
    """Requested and allocatable: millicores, bytes, pods."""


class PodRow(msgspec.Struct, array_like=True):
    """What the page shows of a pod, as an array, because there are many."""

    key: str
    """Namespace and name: `default/web-1`."""
    node: str
    owner: str
    """The workload that it belongs to: `Deployment/web`; empty for a bare pod."""
    state: str
    priority: int
    created: float
    """Seconds since the epoch."""
    reason: str
    """Why it is not placed, in the scheduler's words; empty otherwise."""
    evict_at: float
    """When it will be evicted, in seconds since the epoch; 0 when it will not."""


class Delta(msgspec.Struct):
    """What has changed between two revisions."""

    revision: int
    nodes: list[NodeRow]
    usage: dict[str, list[int]]
    """Of nodes of which nothing else has changed."""
    gone_nodes: list[str]
    pods: list[PodRow]
    gone_pods: list[str]
    happened: list[Happening]


class Whole(msgspec.Struct):
    """Everything at one revision."""

    epoch: str
    """Revisions of another epoch, before a restart, mean nothing."""
    revision: int
    nodes: list[NodeRow]
    pods: list[PodRow]
    happened: list[Happening]
    pending: list[list[float]]
    """How many pods waited for a node, and when: pairs of seconds since the epoch and a number."""


class ClusterMap:
    """Follows the nodes and pods of a scheduler, and knows what has changed since any recent revision."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.epoch = secrets.token_hex(8)
        self._table = scheduler.table
        self._gates = scheduler.handle.gates
        self._nodes: Informer[Node] = scheduler.handle.informers.of(Node)
        self._pods: Informer[Pod] = scheduler.handle.informers.of(Pod)
        self._log: list[tuple[str, str]] = []
        """What changed: a pod, a node, or the usage of a node, and its name. The revision is the place in the log."""
        self._log_start = 0
        self._clock = scheduler.clock
        self.timeline = Timeline(scheduler.clock)
        self._is_asking = False
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    @property
    def revision(self) -> int:
        """How much has changed so far."""
        return self._log_start + len(self._log)

    async def follow(self, informers: Informers) -> None:
        """Begin to follow the cluster, with what is known of the hour before."""
        now = self._clock.now().timestamp()
        self.timeline.begin_with(await happened_before(informers.client, now))
        await informers.start()
        add_owners(self.timeline.happenings, self._pods)
        self.timeline.begin_with_pending(pending_before(self._pods, now))

    def whole(self) -> Whole:
        """Everything as it is now."""
        return Whole(
            self.epoch, self.revision,
            [self._node_row(node) for node in self._nodes],
            [pod_row(pod) for pod in self._pods],
            self.timeline.last_hour(),
            self.timeline.pending_over_time(),
        )  # fmt: skip

    def since(self, revision: int) -> Delta | None:
        """What has changed since a revision; None when that is too long ago, or never was."""
        if not self._log_start <= revision <= self.revision:
            return None
        changed = dict.fromkeys(self._log[revision - self._log_start :])
        delta = Delta(self.revision, [], {}, [], [], [], self.timeline.since(revision))
        for what, name in changed:
            if what == "pod":
                namespace, _, own = name.partition("/")
                pod = self._pods.get(namespace, own)
                delta.gone_pods.append(name) if pod is None else delta.pods.append(pod_row(pod))
                continue
            node = self._nodes.get("", name)
            if what == "usage":
                if node is not None and ("node", name) not in changed:
                    delta.usage[name] = self._usage(name)
            else:
                delta.gone_nodes.append(name) if node is None else delta.nodes.append(self._node_row(node))
        return delta

    def room(self, name: str) -> dict[str, tuple[int, int]]:
        """Of each resource of a node how much is requested, and how much there is."""
        table = self._table
        row = table.rows.get(name)
        if row is None:
            return {}
        return {
            resource: (int(table.requested[place, row]), int(table.allocatable[place, row]))
            for resource, place in table.resources.items()
        }

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While the scheduler is asked what if, its informers hold what is not so; all of it is undone at the end."""
        self._is_asking = True
        try:
            yield
        finally:
            self._is_asking = False

    def _note(self, what: str, name: str) -> None:
        self._log.append((what, name))
        if len(self._log) > LOG_MAX:
            self._log_start += len(self._log) - LOG_MAX // 2
            del self._log[: -(LOG_MAX // 2)]

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        if self._is_asking or (old is not None and new is not None and _looks_alike(old, new)):
            return
        self._note("node", node.metadata.name)
        if self._nodes.synced.is_set():
            self.timeline.node_changed(old, new, self.revision)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if self._is_asking or (old is not None and new is not None and pod_row(old) == pod_row(new)):
            return
        self._note("pod", f"{pod.metadata.namespace}/{pod.metadata.name}")
        for node in {each.spec.node_name for each in (old, new) if each is not None and each.spec.node_name}:
            self._note("usage", node)
        self.timeline.pod_changed(old, new, self.revision, self._departure, is_news=self._pods.synced.is_set())

    def _departure(self, pod: Pod) -> str:
        """Which taints of its node a pod has to leave, in the words of whoever evicts it; empty when there are none."""
        node = self._nodes.get("", pod.spec.node_name)
        taints = [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE] if node else []
        tolerations = Tolerations(pod.spec.tolerations, self._gates) if taints else None
        return " and ".join(departures(tolerations, self._gates, taints, most=EXPLAINED_COST)) if tolerations else ""

    def _node_row(self, node: Node) -> NodeRow:
        return NodeRow(
            node.metadata.name,
            dict(node.metadata.labels),
            [str(taint) for taint in node.spec.taints],
            is_ready(node),
            node.spec.unschedulable,
            self._usage(node.metadata.name),
        )

    def _usage(self, name: str) -> list[int]:
        table = self._table
        row = table.rows.get(name)
        if row is None:
            return [0] * 6
        places = [table.resources[resource] for resource in (CPU, MEMORY, PODS)]
        return [int(matrix[place, row]) for place in places for matrix in (table.requested, table.allocatable)]


def is_ready(node: Node) -> bool:
    """Whether the kubelet says so."""
    return any(each.type == _READY and each.status == "True" for each in node.status.conditions)


def pod_row(pod: Pod) -> PodRow:
    """What the page shows of a pod."""
    state = state_of(pod)
    return PodRow(
        f"{pod.metadata.namespace}/{pod.metadata.name}",
        pod.spec.node_name,
        owner_of(pod),
        state,
        pod.spec.priority or 0,
        _seconds(pod.metadata.creation_timestamp),
        "" if pod.spec.node_name else waits_for(pod)[:REASON_MAX],
        _evict_at(pod),
    )


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def _evict_at(pod: Pod) -> float:
    text: Any = pod.metadata.annotations.get(EVICT_AT)
    if not text or not pod.spec.node_name:
        return 0.0
    try:
        return msgspec.convert(text, datetime).timestamp()
    except (msgspec.ValidationError, ValueError):  # somebody else's text: no time, or one without a zone in year 1
        return 0.0


def _looks_alike(old: Node, new: Node) -> bool:
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.status.allocatable == new.status.allocatable
        and is_ready(old) == is_ready(new)
    )
