"""Disruption budgets: how many pods are healthy, how many must be, and how many may be evicted now."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from moorage.api import kinds
from moorage.api.labels import selector_of
from moorage.api.meta import Condition, OwnerReference
from moorage.api.pod import Pod, PodDisruptionBudget
from moorage.api.workload import Deployment, ReplicaSet, ReplicationController, StatefulSet
from moorage.client import Informer, Missing
from moorage.client.client import Data
from moorage.client.clock import timestamp
from moorage.client.events import NORMAL, WARNING
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.timers import Alarms
from moorage.controllers.owners.owner import scaled
from moorage.controllers.owners.podcontrol import controller_of, ready_condition

_BUDGET = kinds.row("policy/v1", "PodDisruptionBudget")
_NAMESPACE = "namespace"
_CONDITION = "DisruptionAllowed"
_DELETION_TIMEOUT = timedelta(minutes=2)
"""How soon a pod whose eviction was allowed must be seen as deleted, or it counts as one that stays."""
_TOGETHER = 0.05
"""How long changes of pods are gathered: in a rolling update each pod changes many times."""
_UNMANAGED = (
    'Pods selected by this PodDisruptionBudget were found to be unmanaged: {}. What is to be expected of them is not '
    'known: to account for them, set ".spec.minAvailable" of the budget to an integer.'
)  # fmt: skip


class _UnknownScale(Exception):
    """It cannot be said how many pods are expected; the message says why."""


_Workload = ReplicationController | ReplicaSet | StatefulSet | Deployment
_Scaled = Informer[ReplicationController] | Informer[ReplicaSet] | Informer[StatefulSet] | Informer[Deployment]


class _Counts(NamedTuple):
    healthy: int
    desired: int
    expected: int

    @property
    def allowed(self) -> int:
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0


class Disruption(Controller):
    """Keeps the status of disruption budgets true, which evictions are allowed by."""

    name = "disruption"
    component = "controllermanager"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._alarms = Alarms(context.clock, self.queue.add)
        self._budgets = context.informers.of(PodDisruptionBudget)
        self._pods = context.informers.of(Pod)
        self._deployments = context.informers.of(Deployment)
        self._scaled: dict[tuple[str, str], _Scaled] = {
            ("", "ReplicationController"): context.informers.of(ReplicationController),
            ("apps", "ReplicaSet"): context.informers.of(ReplicaSet),
            ("apps", "StatefulSet"): context.informers.of(StatefulSet),
            ("apps", "Deployment"): self._deployments,
        }
        self._budgets.index(_NAMESPACE, lambda budget: [budget.metadata.namespace])
        self._pods.index(_NAMESPACE, lambda pod: [pod.metadata.namespace])
        self._budgets.on_change(lambda _, new: self.enqueue(new) if new is not None else None)
        self._pods.on_change(self._pod_changed)
        for informer in self._scaled.values():
            informer.on_change(self._workload_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None and _seen(old) == _seen(new):
            return
        item = new or old
        assert item is not None
        labels = [pod.metadata.labels for pod in (old, new) if pod is not None]
        for budget in self._budgets.by(_NAMESPACE, item.metadata.namespace):
            if any(map(selector_of(budget.spec.selector).matches, labels)):
                self._look(budget)

    def _workload_changed(self, old: _Workload | None, new: _Workload | None) -> None:
        if new is None or (old is not None and old.spec.replicas == new.spec.replicas):
            return
        for budget in self._budgets.by(_NAMESPACE, new.metadata.namespace):
            self._look(budget)

    def _look(self, budget: PodDisruptionBudget) -> None:
        self.queue.add_after((budget.metadata.namespace, budget.metadata.name), _TOGETHER)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        try:
            await super().run()
        finally:
            self._alarms.close()

    async def reconcile(self, key: Key) -> None:
        """Count the pods of one budget."""
        if (budget := self._budgets.get(*key)) is None:
            return
        is_picked = selector_of(budget.spec.selector).matches
        pods = [pod for pod in self._pods.by(_NAMESPACE, key[0]) if is_picked(pod.metadata.labels)]
        if not pods:
            self.recorder.event(budget, NORMAL, "NoPods", "No matching pods found")
        now = self.clock.now()
        disrupted = self._disrupted(budget, pods, now)
        healthy = sum(_is_healthy(pod) and pod.metadata.name not in disrupted for pod in pods)
        try:
            counts = self._counts(budget, pods, healthy)
        except _UnknownScale as error:
            why = f"Failed to calculate the number of expected pods: {error}"
            self.recorder.event(budget, WARNING, "CalculateExpectedPodCountFailed", why)
            await self._fail_safe(budget, str(error))
            return
        await self._write(budget, counts, disrupted)
        if disrupted:
            self._alarms.set(key, (min(disrupted.values()) + _DELETION_TIMEOUT - now).total_seconds() + 1)

    def _disrupted(self, budget: PodDisruptionBudget, pods: list[Pod], now: datetime) -> dict[str, datetime]:
        """Pods that were allowed to be evicted and are not seen as deleted yet, and since when."""
        left = {}
        for pod in pods:
            since = budget.status.disrupted_pods.get(pod.metadata.name)
            if since is None or pod.metadata.deletion_timestamp is not None:
                continue
            if since + _DELETION_TIMEOUT >= now:
                left[pod.metadata.name] = since
            else:
                what = f"{budget.metadata.namespace}/{budget.metadata.name}"
                why = f"Pod was expected by PDB {what} to be deleted but it wasn't"
                self.recorder.event(pod, WARNING, "NotDeleted", why)
        return left

    def _counts(self, budget: PodDisruptionBudget, pods: list[Pod], healthy: int) -> _Counts:
        least, most = budget.spec.min_available, budget.spec.max_unavailable
        if most is not None:
            expected = self._expected(budget, pods)
            return _Counts(healthy, max(0, expected - scaled(most, expected, up=True)), expected)
        if isinstance(least, str):
            expected = self._expected(budget, pods)
            return _Counts(healthy, scaled(least, expected, up=True), expected)
        return _Counts(healthy, least or 0, len(pods) if least is not None else 0)

    def _expected(self, budget: PodDisruptionBudget, pods: list[Pod]) -> int:
        """How many pods the owners of these are told to have, all together."""
        scales: dict[str, int] = {}
        asked = set()
        unmanaged = []
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                unmanaged.append(pod.metadata.name)
            elif owner.uid not in asked:
                asked.add(owner.uid)
                uid, scale = self._scale(pod, owner)
                scales[uid] = scale
        if unmanaged:
            shown = ", ".join(sorted(unmanaged)[:10])
            self.recorder.event(budget, WARNING, "UnmanagedPods", _UNMANAGED.format(shown))
        return sum(scales.values())

    def _scale(self, pod: Pod, owner: OwnerReference) -> tuple[str, int]:
        """Uid and scale of what is in command of a pod: the Deployment above a ReplicaSet, otherwise its owner."""
        namespace = pod.metadata.namespace
        informer = self._scaled.get((owner.api_version.rpartition("/")[0], owner.kind))
        if informer is None:
            kind = kinds.find(owner.api_version, owner.kind)
            what = kind.resource if kind is not None else f"{owner.api_version}/{owner.kind}"
            raise _UnknownScale(f"{what} does not implement the scale subresource")
        found = informer.get(namespace, owner.name)
        if found is None or found.metadata.uid != owner.uid:
            raise _UnknownScale(f'found no controllers for pod "{pod.metadata.name}"')
        above = controller_of(found)
        if owner.kind == "ReplicaSet" and above is not None and above.kind == "Deployment":
            deployment = self._deployments.get(namespace, above.name)
            if deployment is not None and deployment.metadata.uid == above.uid:
                found = deployment
        return found.metadata.uid, 1 if found.spec.replicas is None else found.spec.replicas

    async def _write(self, budget: PodDisruptionBudget, counts: _Counts, disrupted: dict[str, datetime]) -> None:
        old, generation = budget.status, budget.metadata.generation
        status, reason = ("True", "SufficientPods") if counts.allowed > 0 else ("False", "InsufficientPods")
        known = _told(budget)
        is_told = known is not None and (known.status, known.reason, known.observed_generation) == (
            status, reason, generation,
        )  # fmt: skip
        before = (old.current_healthy, old.desired_healthy, old.expected_pods, old.disruptions_allowed)
        if (
            is_told
            and before == (*counts, counts.allowed)
            and old.disrupted_pods == disrupted
            and old.observed_generation == generation
        ):
            return
        gone = {name: None for name in old.disrupted_pods if name not in disrupted}
        await self._patch(budget, {
            "currentHealthy": counts.healthy, "desiredHealthy": counts.desired, "expectedPods": counts.expected,
            "disruptionsAllowed": counts.allowed, "observedGeneration": generation,
            "conditions": self._conditions(budget, status, reason, "", generation),
            **({"disruptedPods": gone if disrupted else None} if gone else {}),
        })  # fmt: skip

    async def _fail_safe(self, budget: PodDisruptionBudget, why: str) -> None:
        """Allow nothing while it is not known what could be allowed."""
        known = _told(budget)
        if not budget.status.disruptions_allowed and known is not None and known.message == why:
            return
        generation = budget.status.observed_generation
        conditions = self._conditions(budget, "False", "SyncFailed", why, generation)
        await self._patch(budget, {"disruptionsAllowed": 0, "conditions": conditions})

    def _conditions(
        self, budget: PodDisruptionBudget, status: str, reason: str, message: str, generation: int
    ) -> list[Data]:
        others = [each for each in budget.status.conditions if each.type != _CONDITION]
        known = _told(budget)
        since = known.last_transition_time if known is not None and known.status == status else None
        ours = {
            "type": _CONDITION, "status": status, "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": timestamp(since or self.clock.now()),
        }  # fmt: skip
        return [*msgspec.to_builtins(others), ours]

    async def _patch(self, budget: PodDisruptionBudget, status: Data) -> None:
        """Write the status unless an eviction was faster, which the numbers then know nothing of."""
        metadata = budget.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "status": status}
        with suppress(Missing):
            answer = await self.client.patch(_BUDGET, metadata.namespace, metadata.name, patch, subresource="status")
            await self._budgets.caught_up(
                msgspec.json.decode(answer, type=PodDisruptionBudget).metadata.resource_version
            )


def _is_healthy(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and ready_condition(pod) is not None


def _told(budget: PodDisruptionBudget) -> Condition | None:
    return next((each for each in budget.status.conditions if each.type == _CONDITION), None)


def _seen(pod: Pod) -> tuple[object, ...]:
    """What a budget sees of a pod."""
    metadata = pod.metadata
    return metadata.labels, _is_healthy(pod), metadata.deletion_timestamp is None, metadata.owner_references
