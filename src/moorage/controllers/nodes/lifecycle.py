"""Node lifecycle: taints from the conditions that nodes report, and unreachable nodes that stopped reporting."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from moorage.api import kinds
from moorage.api.cluster import Lease
from moorage.api.meta import Data
from moorage.api.node import Node, NodeCondition, Taint
from moorage.api.pod import Pod
from moorage.api.wellknown import (
    TAINT_DISK_PRESSURE,
    TAINT_MEMORY_PRESSURE,
    TAINT_NETWORK_UNAVAILABLE,
    TAINT_NOT_READY,
    TAINT_PID_PRESSURE,
    TAINT_UNREACHABLE,
    TAINT_UNSCHEDULABLE,
)
from moorage.client import ApiError, Missing
from moorage.client.client import STRATEGIC
from moorage.client.clock import timestamp
from moorage.client.events import NORMAL, WARNING
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller, resource_version
from moorage.controllers.frame.pods import ready_condition
from moorage.controllers.frame.settling import Settling
from moorage.controllers.nodes import nodepods
from moorage.controllers.nodes.heartbeats import Heartbeats
from moorage.controllers.nodes.nodepods import index_by_node, set_condition
from moorage.controllers.nodes.zones import Zones
from moorage.match.tolerations import NO_EXECUTE, NO_SCHEDULE

READY = "Ready"
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
TAINT_OF_CONDITION = {
    (READY, FALSE): TAINT_NOT_READY,
    (READY, UNKNOWN): TAINT_UNREACHABLE,
    ("MemoryPressure", TRUE): TAINT_MEMORY_PRESSURE,
    ("DiskPressure", TRUE): TAINT_DISK_PRESSURE,
    ("PIDPressure", TRUE): TAINT_PID_PRESSURE,
    ("NetworkUnavailable", TRUE): TAINT_NETWORK_UNAVAILABLE,
}
_OURS = {
    NO_SCHEDULE: {*TAINT_OF_CONDITION.values(), TAINT_UNSCHEDULABLE},
    NO_EXECUTE: {TAINT_NOT_READY, TAINT_UNREACHABLE},
}
_KUBELETS_CONDITIONS = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that a kubelet sets; that of the network is set by others."""
_LEASES = "kube-node-lease"
_PODS_AT_ONCE = 16
_NODE, _LEASE = kinds.row("v1", "Node"), kinds.row("coordination.k8s.io/v1", "Lease")


class NodeLifecycle(Controller):
    """Keeps the taints of nodes as their conditions require, and sets the conditions of nodes that stopped reporting.

    A heartbeat is a lease that was renewed or a status that was posted. `NoExecute` taints, which empty a node, are
    given out slowly, zone by zone; they are exchanged for each other and taken away at once.
    """

    name = "node-lifecycle-controller"
    component = "node-controller"
    workers = 32
    patience, first_patience = 50.0, 60.0
    """Seconds without a heartbeat after which a node is unreachable, and for a new node until its first status."""
    after_lease = 10.0
    """Seconds after the end of its lease, when that lasts longer, as those of many hollow nodes do."""
    longest_lease = 3600.0
    """No lease counts as longer, whatever its node says."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = context.informers.of(Node)
        self._leases = context.informers.of(Lease)
        self._pods = context.informers.of(Pod)
        self._heartbeats = Heartbeats(context.clock, self._enqueue_node)
        self._settling = Settling(context.clock, self._enqueue_node)
        self._zones = Zones(context.clock, context.registry, self._enqueue_node, self._turned)
        index_by_node(self._pods)
        self._nodes.on_change(self._node_changed)
        self._leases.on_change(self._lease_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        """Reconcile nodes until cancelled."""
        try:
            await super().run()
        finally:
            self._heartbeats.stop()
            self._zones.stop()
            self._settling.stop()

    async def reconcile(self, key: Key) -> None:
        """Give a node the conditions and taints that it should have; the pods of an unreachable node are not ready."""
        _, name = key
        node = self._nodes.get("", name)
        if node is None:
            return
        status = _ready(node)
        if self._heartbeats.is_silent(name) and status != UNKNOWN:
            await self._mark_unknown(node)
            return
        await self._set_taints(node)
        if status == UNKNOWN:
            await self._mark_pods(name)

    def _enqueue_node(self, name: str) -> None:
        self.queue.add(("", name))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._heartbeats.forget(old.metadata.name)
            self._zones.forget(old)
            self._event(old, "RemovingNode", f"Removing Node {old.metadata.name} from Controller")
            return
        if old is None:
            self._event(new, "RegisteredNode", f"Registered Node {new.metadata.name} in Controller")
        if old is None or _heartbeat(old) != _heartbeat(new):
            lease = self._leases.get(_LEASES, new.metadata.name)
            self._heartbeats.beat(new.metadata.name, self._patience(lease) if _ready(new) else self.first_patience)
        self._zones.see(new, ready=_ready(new) == TRUE)
        if old is None or new.metadata.name in self._settling:
            self._settling.see(new.metadata.name)
        else:
            self.enqueue(new)

    def _lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        if new is None or new.metadata.namespace != _LEASES or new.metadata.name not in self._heartbeats:
            return
        if old is None or old.spec.renew_time != new.spec.renew_time:
            self._heartbeats.beat(new.metadata.name, self._patience(new))

    def _patience(self, lease: Lease | None) -> float:
        seconds = lease.spec.lease_duration_seconds if lease is not None else None
        return max(self.patience, min(seconds or 0, self.longest_lease) + self.after_lease)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or (old is not None and old.spec.node_name == new.spec.node_name):
            return
        node = self._nodes.get("", new.spec.node_name)
        if node is not None and _ready(node) == UNKNOWN:
            self.enqueue(node)

    def _turned(self, cut_off: bool) -> None:
        """No node is ready any more (`cut_off`), or one is ready again after none was."""
        if not cut_off:
            self._heartbeats.restart()
        for node in self._nodes:
            if _ready(node) != TRUE:
                self.enqueue(node)

    def _event(self, node: Node, reason: str, message: str) -> None:
        self.recorder.event(node, NORMAL, reason, f"Node {node.metadata.name} event: {message}")

    async def _mark_unknown(self, node: Node) -> None:
        name = node.metadata.name
        if await self._has_renewed(name):
            self._heartbeats.again(name)
            return
        known = {each.type: each for each in node.status.conditions}
        now = timestamp(self.clock.now())
        conditions = [_unknown(node, type_, known.get(type_), now) for type_ in _KUBELETS_CONDITIONS]
        patch = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "status": {"conditions": [each for each in conditions if each]},
        }
        answer = await self.client.patch(_NODE, "", name, patch, subresource="status", form=STRATEGIC)
        if _ready(node) == TRUE:
            self.recorder.event(node, NORMAL, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        await self._seen(answer)

    async def _has_renewed(self, name: str) -> bool:
        """Whether a node's lease was renewed and the informer has not seen it yet."""
        try:
            lease = msgspec.json.decode(await self.client.get(_LEASE, _LEASES, name), type=Lease)
        except Missing:
            return False
        seen = self._leases.get(_LEASES, name)
        return seen is None or seen.spec.renew_time != lease.spec.renew_time

    async def _set_taints(self, node: Node) -> None:
        desired = {(key, NO_SCHEDULE) for key in _no_schedule_keys(node)}
        if key := self._no_execute_key(node):
            desired.add((key, NO_EXECUTE))
        kept = tuple(
            each for each in node.spec.taints
            if each.key not in _OURS.get(each.effect, ()) or (each.key, each.effect) in desired
        )  # fmt: skip
        added = sorted(desired - {(each.key, each.effect) for each in kept})
        if not added and len(kept) == len(node.spec.taints):
            return
        now = self.clock.now().replace(microsecond=0)
        taints = kept + tuple(Taint(key, "", effect, now) for key, effect in added)
        patch = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": msgspec.to_builtins(taints) or None},
        }
        answer = await self.client.patch(_NODE, "", node.metadata.name, patch)
        if any(effect == NO_EXECUTE for _, effect in added):
            self._zones.used(node)
        await self._seen(answer)

    def _no_execute_key(self, node: Node) -> str | None:
        """The NoExecute taint of a node which is not ready, once its zone permits it."""
        status = _ready(node)
        if status in ("", TRUE) or self._zones.cut_off:
            self._zones.withdraw(node)
            return None
        is_tainted = any(each.effect == NO_EXECUTE and each.key in _OURS[NO_EXECUTE] for each in node.spec.taints)
        return TAINT_OF_CONDITION.get((READY, status)) if is_tainted or self._zones.ask(node) else None

    async def _mark_pods(self, name: str) -> None:
        """Set the pods of an unreachable node to not ready: their state is unknown."""
        ready = [each for each in self._pods.by(nodepods.NODE, name) if _is_ready(each)]
        for start in range(0, len(ready), _PODS_AT_ONCE):
            batch = ready[start : start + _PODS_AT_ONCE]
            errors = [each for each in await asyncio.gather(*map(self._mark_pod, batch)) if each is not None]
            if errors:
                raise errors[0]

    async def _mark_pod(self, pod: Pod) -> ApiError | None:
        try:
            with suppress(Missing):
                await set_condition(self.client, pod, self.clock.now(), {"type": READY, "status": FALSE})
                self.recorder.event(pod, WARNING, "NodeNotReady", "Node is not ready")
        except ApiError as error:
            return error
        return None

    async def _seen(self, answer: bytes) -> None:
        await self._nodes.caught_up(resource_version(answer))


def _condition(node: Node, type_: str) -> NodeCondition | None:
    return next((each for each in node.status.conditions if each.type == type_), None)


def _ready(node: Node) -> str:
    """The status of the Ready condition of a node; empty while it has none."""
    condition = _condition(node, READY)
    return condition.status if condition is not None else ""


def _heartbeat(node: Node) -> object:
    condition = _condition(node, READY)
    return condition and (condition.last_heartbeat_time,)


def _is_ready(pod: Pod) -> bool:
    return ready_condition(pod) is not None


def _no_schedule_keys(node: Node) -> Iterable[str]:
    for each in node.status.conditions:
        if key := TAINT_OF_CONDITION.get((each.type, each.status)):
            yield key
    # A node that has not reported its status yet gets no pods.
    if not _ready(node):
        yield TAINT_NOT_READY
    if node.spec.unschedulable:
        yield TAINT_UNSCHEDULABLE


def _unknown(node: Node, type_: str, old: NodeCondition | None, now: str) -> Data | None:
    if old is None:
        created = node.metadata.creation_timestamp
        why = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
        heard = {"lastHeartbeatTime": timestamp(created)} if created else {}
        return {"type": type_, "status": UNKNOWN, **why, **heard, "lastTransitionTime": now}
    if old.status == UNKNOWN:
        return None
    why = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    return {"type": type_, "status": UNKNOWN, **why, "lastTransitionTime": now}
