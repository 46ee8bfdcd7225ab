"""The hollow kubelet: one controller that renews node leases and writes node and pod statuses for all hollow nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import msgspec
from prometheus_client import Counter

from moorage.api.meta import Data, Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client import Missing
from moorage.client.events import NORMAL, WARNING
from moorage.client.informer import Key
from moorage.client.priority import let_others_go_first
from moorage.client.workqueue import RETRIES
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import POD, is_finished
from moorage.controllers.frame.settling import Settling
from moorage.controllers.hollow import overrides, podstatus
from moorage.controllers.hollow.addresses import Addresses
from moorage.controllers.hollow.admission import Need, Refusal, need_of, refusals
from moorage.controllers.hollow.containerevents import ContainerEvents
from moorage.controllers.hollow.nodeleases import NodeLeases
from moorage.controllers.hollow.nodestatus import (
    NODE,
    NODE_NETWORK,
    internal_address,
    lost_resources,
    missing_labels,
    missing_status,
    turns,
)
from moorage.controllers.hollow.podlifecycle import PodAction, next_action
from moorage.controllers.hollow.preemption import Guest, NoRoom, is_critical, victims
from moorage.features import Gates
from moorage.match.deferral import NotReady, deferring
from moorage.match.evaluations import Parked

_IN_FLIGHT = 32
_PATIENCE = 0.3
"""For how many seconds each batch of writes lets more urgent work go first."""
_POD_NETWORK = "10.128.0.0/9"


class HollowNodes(Controller):
    """Plays the kubelet of every node that has no real one.

    A key is a pod's, or a node's when its namespace is empty. Every write has the resourceVersion that it was decided
    by, so that no change of others is lost.
    """

    name = "hollow-nodes"
    component = "kubelet"
    retries = replace(RETRIES, last=10.0)

    def __init__(self, context: Context, gates: Gates | None = None) -> None:
        """With gates of their own, as kubelets have them, or with those of the controllers."""
        super().__init__(context)
        self._gates = context.gates if gates is None else gates
        self._nodes = context.informers.of(Node)
        self._pods = context.informers.of(Pod)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)
        self._settling = Settling(context.clock, lambda name: self.queue.add(("", name)))
        self._rejections = Counter(
            "kubelet_admission_rejections_total", "Pods that hollow kubelets have rejected.", ("reason",),
            registry=context.registry,
        )  # fmt: skip
        self._leases = NodeLeases(self.client, self.clock, self._nodes.__len__)
        self._container_events = ContainerEvents(self._pods.get, self.recorder, self.clock)
        self._parked = Parked(self.queue.add)
        """The pods whose expressions take long to be evaluated."""
        self._up: set[str] = set()
        """The nodes that run."""
        self._lost: dict[str, frozenset[str]] = {}
        """Resources that were removed from the capacity of nodes, and are still allocatable."""
        self._guests: dict[str, dict[Key, Need | None]] = {}
        """The pods of each node, and what they take once they are admitted."""
        self._node_addresses, self._pod_addresses = Addresses(NODE_NETWORK), Addresses(_POD_NETWORK)
        self._actions: dict[PodAction, Callable[[Pod, datetime], Awaitable[None]]] = {
            PodAction.ADMIT: self._admit,
            PodAction.REPORT: self._report,
            PodAction.FINISH: self._finish,
            PodAction.RESTART: self._restart,
            PodAction.KILL: self._kill,
            PodAction.STOP: self._stop,
            PodAction.LET_GO: self._let_go,
        }

    async def run(self) -> None:
        """Run all hollow nodes until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._leases.run())
                tasks.create_task(self._container_events.run())
                tasks.create_task(self._work())
        finally:
            self.queue.close()
            self._settling.stop()
            await self._parked.stop()

    async def _work(self) -> None:
        while True:
            batch = [await self.queue.take()]
            while len(self.queue) and len(batch) < _IN_FLIGHT:
                batch.append(await self.queue.take())
            await asyncio.gather(*(self._attempt(key) for key in batch))
            await let_others_go_first(_PATIENCE)

    async def _attempt(self, key: Key) -> None:
        try:
            await self.reconcile(key)
        except Exception as error:  # noqa: BLE001 - one key's trouble must not end the others' work
            self.failed(key, error)
            self.queue.retry(key)
        else:
            self.queue.forget(key)
        finally:
            self.queue.done(key)

    async def reconcile(self, key: Key) -> None:
        """Take the next action for a node or a pod."""
        namespace, name = key
        with suppress(Missing):
            if not namespace:
                await self._keep_up(name)
            elif (pod := self._pods.get(namespace, name)) and pod.spec.node_name in self._up:
                now = self.clock.now()
                step = self.next_action(pod, now)
                if isinstance(step, PodAction):
                    await self._actions[step](pod, now)
                elif step is not None:
                    self.queue.add_at(key, step)

    def next_action(self, pod: Pod, now: datetime) -> PodAction | datetime | None:
        """What to do with a pod of a node that runs, or when to ask again."""
        return next_action(pod, now)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        name = node.metadata.name
        if new is None or not overrides.is_alive(new):
            self._leases.stop(name)
            self._up.discard(name)
            if new is None:
                self._node_addresses.release(("", name))
                self._lost.pop(name, None)
            return
        if old is not None:
            if lost := lost_resources(old, new):
                self._lost[name] = self._lost.get(name, frozenset()) | lost
            for turn in turns(old, new):
                self._event(new, name, NORMAL, turn, f"Node {name} status is now: {turn}")
        if address := internal_address(new):
            self._node_addresses.hold(("", name), address)
        if old is None or name in self._settling:
            self._settling.see(name)
        elif name not in self._up or missing_labels(new) or missing_status(new, address, self.clock.now()):
            self.queue.add(("", name))

    async def _keep_up(self, name: str) -> None:
        """Start a node, or add what its labels and status lack."""
        node = self._nodes.get("", name)
        if node is None or not overrides.is_alive(node):
            return
        if name not in self._leases:
            await self._leases.start(node)
        revision = node.metadata.resource_version
        if labels := missing_labels(node):
            patch = {"metadata": {"labels": labels, "resourceVersion": revision}}
            changed = await self.client.patch(NODE, "", name, patch)
            revision = msgspec.json.decode(changed, type=Node).metadata.resource_version
        lost = self._lost.get(name, frozenset())
        if status := missing_status(node, self._node_addresses.of(("", name)), self.clock.now(), lost):
            data = {"metadata": {"resourceVersion": revision}, "status": status}
            await self.client.patch(NODE, "", name, data, subresource="status")
        if name in self._lost:
            self._lost[name] -= lost
        # The node may have been frozen meanwhile: then its lease is not renewed any more.
        if name not in self._up and name in self._leases:
            self._up.add(name)
            for key in self._guests.get(name, ()):
                self.queue.add(key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if not pod.spec.node_name:
            return
        key = _key(pod)
        step = self.next_action(pod, self.clock.now()) if new is not None else None
        if step is None and (new is None or is_finished(pod)):
            self._leave(pod.spec.node_name, key)
            return
        guests = self._guests.setdefault(pod.spec.node_name, {})
        if guests.setdefault(key, None) is None and step is not PodAction.ADMIT:
            guests[key] = need_of(pod.spec)
            if pod.status.pod_ip and not pod.spec.host_network:
                self._pod_addresses.hold(key, pod.status.pod_ip)
        if isinstance(step, datetime):
            self.queue.add_at(key, step)
        elif step is not None and pod.spec.node_name in self._up:
            self.queue.add(key)

    def _leave(self, node: str, key: Key) -> None:
        self.queue.cancel(key)
        self._parked.forget(key)
        self._pod_addresses.release(key)
        guests = self._guests.get(node, {})
        guests.pop(key, None)
        if not guests:
            self._guests.pop(node, None)

    async def _admit(self, pod: Pod, now: datetime) -> None:
        name, key = pod.spec.node_name, _key(pod)
        node = self._nodes.get("", name)
        if node is None:
            return
        need = need_of(pod.spec)
        try:
            rejections = await self._lasting_refusals(pod, need, node)
        except NotReady as later:
            self._parked.park(key, later.work)
            return
        if refused := await self._after_preemption(pod, rejections, now):
            self._rejections.labels(refused.reason).inc()
            self._event(pod, name, WARNING, refused.reason, refused.message)
            await self._write(pod, podstatus.rejected(pod, refused.reason, refused.message, now))
            return
        if key not in self._guests.get(name, {}):
            return
        self._guests[name][key] = need
        for mistake in overrides.mistakes(pod):
            self._event(pod, name, WARNING, "InvalidAnnotation", mistake)
        await self._report(pod, now)

    async def _lasting_refusals(self, pod: Pod, need: Need, node: Node) -> list[Refusal]:
        """Why a node rejects a pod. The informer may lag behind the scheduler: before it does, it is read once more."""
        if not self._refusals(pod, need, node):
            return []
        node = msgspec.json.decode(await self.client.get(NODE, "", node.metadata.name), type=Node)
        return self._refusals(pod, need, node)

    def _refusals(self, pod: Pod, need: Need, node: Node) -> list[Refusal]:
        others = [taken for _, taken in self._others(pod)]
        with deferring():
            return list(refusals(pod, need, node, others, self._gates))

    def _others(self, pod: Pod) -> list[tuple[Key, Need]]:
        own, guests = _key(pod), self._guests.get(pod.spec.node_name, {})
        return [(key, taken) for key, taken in guests.items() if taken is not None and key != own]

    async def _after_preemption(self, pod: Pod, rejections: list[Refusal], now: datetime) -> Refusal | None:
        """Why a pod is rejected after all: for a critical one that lacks resources, others are preempted."""
        if not rejections or not is_critical(pod):
            return rejections[0] if rejections else None
        lasting = [each for each in rejections if not each.resource]
        if lasting:
            return lasting[0]
        others = ((self._pods.get(*key), need) for key, need in self._others(pod))
        guests = [Guest(other, need.amounts) for other, need in others if other is not None]
        try:
            chosen = victims(pod, guests, {each.resource: each.missing for each in rejections})
        except NoRoom as error:
            problem = f"preemption: error finding a set of pods to preempt: {error}"
            message = f"Unexpected error while attempting to recover from admission failure: {problem}"
            return Refusal("UnexpectedAdmissionError", message)
        for victim, _ in chosen:
            self._event(victim, pod.spec.node_name, WARNING, podstatus.PREEMPTED, podstatus.PREEMPTED_MESSAGE)
            await self._write(victim, podstatus.preempted(victim, now))
        return None

    async def _report(self, pod: Pod, now: datetime) -> None:
        host = self._node_addresses.of(("", pod.spec.node_name))
        address = host if pod.spec.host_network else self._pod_addresses.of(_key(pod))
        await self._write(pod, podstatus.running(pod, host, address, now))
        if pod.status.phase == "Pending":
            self._container_events.started(pod, now)

    async def _finish(self, pod: Pod, now: datetime) -> None:
        await self._write(pod, podstatus.finished(pod, overrides.exit_code(pod), now))

    async def _restart(self, pod: Pod, now: datetime) -> None:
        await self._write(pod, podstatus.restarted(pod, overrides.exit_code(pod), now))
        self._container_events.started(pod, now)

    async def _kill(self, pod: Pod, now: datetime) -> None:
        status = podstatus.overdue(pod, now)
        self._event(pod, pod.spec.node_name, NORMAL, status["reason"], status["message"])
        await self._write(pod, status)

    async def _stop(self, pod: Pod, now: datetime) -> None:
        await self._write(pod, podstatus.stopped(pod, now))
        if pod.metadata.deletion_grace_period_seconds:
            await self._let_go(pod, now)

    async def _let_go(self, pod: Pod, _: datetime) -> None:
        metadata = pod.metadata
        await self.client.delete(POD, metadata.namespace, metadata.name, uid=metadata.uid, grace=0)

    def _event(self, about: Object, node: str, type_: str, reason: str, message: str) -> None:
        self.recorder.named(self.component, node).event(about, type_, reason, message)

    async def _write(self, pod: Pod, status: Data) -> None:
        metadata = pod.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "status": status}
        await self.client.patch(POD, metadata.namespace, metadata.name, patch, subresource="status")


def _key(pod: Pod) -> Key:
    return pod.metadata.namespace, pod.metadata.name
