"""Device taint eviction: pods leave when a device that they hold gets a NoExecute taint that nothing tolerates."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import msgspec

from moorage.api import kinds
from moorage.api.cluster import Namespace
from moorage.api.meaning import tolerations_of_result
from moorage.api.node import Taint
from moorage.api.pod import Pod, Toleration
from moorage.api.resource import (
    Device,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from moorage.api.rules import COVER, DEVICE_TOLERATIONS
from moorage.client.client import STRATEGIC
from moorage.client.clock import timestamp
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, resource_version
from moorage.controllers.frame.pods import controller_of, is_finished
from moorage.controllers.nodes.devicetaintstatus import IN_PROGRESS, Impact, eviction_condition
from moorage.controllers.nodes.evictions import EvictingController, EvictionCause, Reasons, shortened
from moorage.controllers.nodes.taints import LONGEST, SeenTaints, TolerationErrors, TolerationFailures
from moorage.match.deferral import NotReady, deferring
from moorage.match.evaluations import Parked
from moorage.match.reasons import EXPLAINED_COST, Complaint
from moorage.match.tolerations import NO_EXECUTE, Tolerations
from moorage.registry.pod.attached import rules_refusal

_CAUSE = EvictionCause(
    subsystem="device_taint_eviction_controller",
    reason="DeletionByDeviceTaintManager",
    message="Device Taint manager: deleting due to NoExecute taint",
    event="DeviceTaintManagerEviction",
    marking="Marking for deletion",
    cancelling="Cancelling deletion",
)
_RULE = kinds.row("resource.k8s.io/v1", "DeviceTaintRule")
_DEVICE, _POOL = "device", "pool"
_STATUS_SECONDS = 10.0
_KEPT = 4096
_AT_A_TIME = 256


class _Judgement(NamedTuple):
    """How many seconds tolerations leave beside a taint (None is for good), and what keeps them from an answer."""

    grace: int | None
    unanswered: TolerationFailures


class _Exposure(NamedTuple):
    """A taint that ends the use of a device, when, and the rule that it comes from."""

    due: datetime
    grace: int
    result: DeviceRequestAllocationResult
    tolerations: tuple[Toleration, ...]
    taint: Taint
    rule: DeviceTaintRule | None


class DeviceTaintEviction(EvictingController):
    """Evicts the pods that hold tainted devices, and writes the status of DeviceTaintRules.

    Keys are pods, and rules (which have no namespace). The seconds of tolerations count from when the taint was added;
    the smallest of all tolerations that match counts, unless one of them tolerates for good.
    """

    name = "device-taint-eviction-controller"
    cause = _CAUSE

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._gates = context.gates.for_eviction()
        self._claims = context.informers.of(ResourceClaim)
        self._slices = context.informers.of(ResourceSlice)
        self._rules = context.informers.of(DeviceTaintRule)
        self._device_taints = SeenTaints(context.clock)
        self._rule_taints = SeenTaints(context.clock)
        self._tainted: dict[str, frozenset[str]] = {}
        self._stale_pools: set[str] = set()
        self._evicted: Counter[str] = Counter()
        self._toleration_errors = TolerationErrors(context.registry, _CAUSE.subsystem)
        self._judgements = lru_cache(maxsize=_KEPT)(self._judge)
        self._parked = Parked(self.queue.add)
        """The pods and rules with tolerations that take long to be evaluated."""
        self._explained = lru_cache(maxsize=_KEPT)(self._explain)
        self._claims.index(_DEVICE, lambda claim: [_id(each) for each in _devices_of(claim)])
        self._slices.index(_POOL, lambda item: [_pool(item)])
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claim_changed)
        self._slices.on_change(self._slice_changed)
        self._slices.on_batch(self._settle_pools)
        self._rules.on_change(self._rule_changed)
        self._namespaces = context.informers.of(Namespace)
        self._namespaces.on_change(self._namespace_changed)

    async def reconcile(self, key: Key) -> None:
        """Judge a pod, or write the status of a rule."""
        namespace, name = key
        try:
            if not namespace:
                rule = self._rules.get("", name)
                if rule is not None and not self.context.attached:
                    await self._write_status(rule)
            elif pod := self._pods.get(namespace, name):
                self._settle(pod)
        except NotReady as later:
            self._parked.park(key, later.work)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or new.metadata.deletion_timestamp is not None:
            if gone := new or old:
                self._evictions.forget(gone)
        elif new.spec.resource_claims and (old is None or _uses(old) != _uses(new)):
            self.enqueue(new)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is None or new is None or old.status != new.status or _rules(old) != _rules(new):
            self._judge_users(each for each in (old, new) if each is not None)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        is_asked = self.context.rule_namespaces is not None
        if is_asked and new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            self._judge_users(each for each in self._claims if each.metadata.namespace == new.metadata.name)

    def _allows_rules(self, claim: ResourceClaim) -> bool:
        """Whether its namespace allows the rules of a claim. One that has not been seen yet is asked when it is."""
        name = claim.metadata.namespace
        namespace = self._namespaces.get("", name)
        return namespace is None or not rules_refusal(namespace, name, (), self.context.rule_namespaces)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        self._stale_pools.update(_pool(each) for each in (old, new) if each is not None)

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        rules = [each for each in (old, new) if each is not None]
        self._rule_taints.update(rules[-1].metadata.uid, [new.spec.taint] if new else ())
        if new is None:
            self._evicted.pop(rules[-1].metadata.uid, None)
        else:
            self.enqueue(new)
        selected = (claim for claim in self._claims if any(_selects(rule, claim) for rule in rules))
        self._judge_users(selected)

    def _settle_pools(self) -> None:
        """Find the devices whose taints changed, in the newest generation of each pool that changed."""
        for pool in self._stale_pools:
            devices = dict(self._published(pool))
            tainted = frozenset(name for name, each in devices.items() if any(map(_evicts, each.taints)))
            for name in tainted | self._tainted.get(pool, frozenset()):
                taints = devices[name].taints if name in tainted else ()
                if self._device_taints.update(name, taints):
                    self._judge_users(list(self._claims.by(_DEVICE, name)))
            self._tainted[pool] = tainted
            if not devices:
                del self._tainted[pool]
        self._stale_pools.clear()

    def _published(self, pool: str) -> Iterator[tuple[str, Device]]:
        """The devices of a pool, by their full names."""
        slices = list(self._slices.by(_POOL, pool))
        newest = max((each.spec.pool.generation for each in slices), default=0)
        for each in slices:
            if each.spec.pool.generation == newest:
                yield from ((f"{pool}/{device.name}", device) for device in each.spec.devices)

    def _judge_users(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            for user in claim.status.reserved_for:
                if user.resource == "pods" and not user.api_group:
                    self.queue.add((claim.metadata.namespace, user.name))

    def _settle(self, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is not None:
            return
        exposures = self._exposures(pod)
        if not exposures:
            self._evictions.cancel(pod)
            return
        rules = tuple(sorted({each.rule.metadata.name for each in exposures if each.rule is not None}))
        self._evictions.plan(pod, min(each.due for each in exposures), rules)
        for rule in rules:
            self.queue.add_after(("", rule), _STATUS_SECONDS)

    def _claims_of(self, pod: Pod) -> Iterator[ResourceClaim]:
        """The claims that a pod uses now; none when it is not on a node or has finished."""
        if not pod.spec.node_name or is_finished(pod):
            return
        generated = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
        for use in pod.spec.resource_claims:
            claim = self._claims.get(pod.metadata.namespace, use.resource_claim_name or generated.get(use.name) or "")
            if claim is None or all(each.uid != pod.metadata.uid for each in claim.status.reserved_for):
                continue
            owner = controller_of(claim)
            if use.resource_claim_name or (owner is not None and owner.uid == pod.metadata.uid):
                yield claim

    def _exposures(self, pod: Pod) -> list[_Exposure]:
        """The taints on the devices of a pod that end their use."""
        counts_from, exposures = self._evictions.counts_from(pod), []
        held = ((claim, each) for claim in self._claims_of(pod) for each in _devices_of(claim))
        for claim, result in held:
            tolerations = tolerations_of_result(claim, result, rules_count=self._allows_rules(claim))
            if self.context.attached and tolerations == result.tolerations:
                continue
            for taint, since, rule in self._taints_on(result):
                grace, unanswered = self._judged(tolerations, taint)
                self._toleration_errors.note(unanswered, taint)
                if grace is not None:
                    due = max(since, counts_from) + timedelta(seconds=min(grace, LONGEST)) if grace else since
                    exposures.append(_Exposure(due, grace, result, tolerations, taint, rule))
        return exposures

    def _taints_on(
        self, result: DeviceRequestAllocationResult
    ) -> Iterator[tuple[Taint, datetime, DeviceTaintRule | None]]:
        """The taints on a device, since when, and the rule that each comes from."""
        yield from ((taint, since, None) for taint, since in self._device_taints.of(_id(result)).items())
        for rule in self._rules:
            if _matches(rule, result):
                taints = self._rule_taints.of(rule.metadata.uid)
                yield from ((taint, since, rule) for taint, since in taints.items())

    def _why(self, pod: Pod) -> str:
        try:
            with deferring():
                exposures = sorted(self._exposures(pod), key=attrgetter("due"))
                return shortened(" and ".join(map(self._sentence, exposures)))
        except NotReady:
            return ""

    def _sentence(self, exposure: _Exposure) -> str:
        why = self._explained(exposure.tolerations, exposure.taint, exposure.grace)
        return f"device {_id(exposure.result)}: {why}"

    def _explain(self, tolerations: tuple[Toleration, ...], taint: Taint, grace: int) -> str:
        compiled = Tolerations(tolerations, self._gates)
        return Complaint(compiled, self._gates, most=EXPLAINED_COST).departure(taint, grace)

    def _judged(self, tolerations: tuple[Toleration, ...], taint: Taint) -> _Judgement:
        with deferring():
            return self._judgements(tolerations, taint)

    def _judge(self, tolerations: tuple[Toleration, ...], taint: Taint) -> _Judgement:
        compiled = Tolerations(tolerations, self._gates)
        return _Judgement(compiled.device_grace_seconds(taint), compiled.unanswered(taint))

    def _note_evicted(self, because: Reasons) -> None:
        for name in because:
            if rule := self._rules.get("", name):
                self._evicted[rule.metadata.uid] += 1
                self.queue.add_after(("", name), _STATUS_SECONDS)

    async def _write_status(self, rule: DeviceTaintRule) -> None:
        metadata, now = rule.metadata, self.clock.now()
        old = next((each for each in rule.status.conditions if each.type == IN_PROGRESS), None)
        if old is not None and old.observed_generation == metadata.generation and old.last_transition_time is not None:
            wait = _STATUS_SECONDS - (now - old.last_transition_time).total_seconds()
            if 0 < wait <= _STATUS_SECONDS:
                self.queue.add_after(("", metadata.name), wait)
                return
        condition = eviction_condition(rule.spec.taint.effect, await self._impact(rule))
        condition |= {"observedGeneration": metadata.generation, "lastTransitionTime": timestamp(now)}
        if old is not None and (old.status, old.reason, old.message, old.observed_generation) == (
            condition["status"], condition["reason"], condition["message"], condition["observedGeneration"],
        ):  # fmt: skip
            return
        patch = {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}}
        answer = await self.client.patch(_RULE, "", metadata.name, patch, subresource="status", form=STRATEGIC)
        await self._rules.caught_up(resource_version(answer))

    async def _impact(self, rule: DeviceTaintRule) -> Impact:
        """What a rule does, or would do if it evicted."""
        taint = msgspec.structs.replace(rule.spec.taint, effect=NO_EXECUTE)
        published = sum(
            _matches_device(rule, each.spec.driver, each.spec.pool.name, name.rpartition("/")[2])
            for pool, each in {_pool(each): each for each in self._slices}.items()
            for name, _ in self._published(pool)
        )
        allocated, pods = 0, set[Key]()
        for number, claim in enumerate(list(self._claims), 1):
            selected = [each for each in _devices_of(claim) if _matches(rule, each)]
            allocated += len(selected)
            tolerated = (tolerations_of_result(claim, each) for each in selected)
            if any(self._judged(tolerations, taint).grace is not None for tolerations in tolerated):
                pods.update(self._users(claim))
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
        return Impact(
            published, allocated, len(pods), len({namespace for namespace, _ in pods}),
            self._evicted[rule.metadata.uid],
        )  # fmt: skip

    def _users(self, claim: ResourceClaim) -> Iterator[Key]:
        for user in claim.status.reserved_for:
            pod = self._pods.get(claim.metadata.namespace, user.name)
            if pod is None or pod.metadata.deletion_timestamp is not None:
                continue
            if any(each is claim for each in self._claims_of(pod)):
                yield pod.metadata.namespace, pod.metadata.name


def _evicts(taint: Taint) -> bool:
    return taint.effect == NO_EXECUTE


def _devices_of(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    allocation = claim.status.allocation
    return allocation.devices.results if allocation is not None else ()


def _id(result: DeviceRequestAllocationResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"


def _pool(item: ResourceSlice) -> str:
    return f"{item.spec.driver}/{item.spec.pool.name}"


def _rules(claim: ResourceClaim) -> tuple[str | None, ...]:
    return tuple(claim.metadata.annotations.get(name) for name in (DEVICE_TOLERATIONS, COVER))


def _uses(pod: Pod) -> tuple[object, ...]:
    return pod.spec.node_name, pod.status.resource_claim_statuses


def _selects(rule: DeviceTaintRule, claim: ResourceClaim) -> bool:
    return any(_matches(rule, each) for each in _devices_of(claim))


def _matches(rule: DeviceTaintRule, result: DeviceRequestAllocationResult) -> bool:
    return _matches_device(rule, result.driver, result.pool, result.device)


def _matches_device(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    """A rule without a selector picks no device; each field that it sets must be the same."""
    selector = rule.spec.device_selector
    if selector is None:
        return False
    pairs = (selector.driver, driver), (selector.pool, pool), (selector.device, device)
    return all(required is None or required == actual for required, actual in pairs)
