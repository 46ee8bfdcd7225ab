"""Disruption budgets: how many pods are healthy, how many must be, and how many may be evicted now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

import msgspec

from moorage.api import kinds
from moorage.api.labels import Labels, anchor, picks, selector_of, size_of
from moorage.api.meta import Condition, Data, OwnerReference
from moorage.api.pod import Pod, PodDisruptionBudget
from moorage.api.workload import Deployment, ReplicaSet, ReplicationController, StatefulSet
from moorage.client import Informer, Missing
from moorage.client.clock import timestamp
from moorage.client.events import NORMAL, WARNING
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller, resource_version
from moorage.controllers.frame.pods import controller_of, ready_condition
from moorage.controllers.frame.podsbylabel import LabelPair, PodsByLabel
from moorage.controllers.owners.replicas import desired_replicas, scaled

_BUDGET = kinds.row("policy/v1", "PodDisruptionBudget")
_NAMESPACE = "namespace"
_ANCHOR = "anchor"
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
    """How many pods are expected is not known; the message says why."""


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
    """Keeps the status of PodDisruptionBudgets up to date, by which evictions are allowed."""

    name = "disruption"
    component = "controllermanager"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
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
        self._budgets.index(_ANCHOR, _anchor)
        self._by_label = PodsByLabel(self._pods)
        self._budgets.on_change(lambda _, new: self.enqueue(new) if new is not None else None)
        self._pods.on_change(self._pod_changed)
        for informer in self._scaled.values():
            informer.on_change(self._workload_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._by_label.change(old, new)
        if not len(self._budgets) or (old is not None and new is not None and _relevant(old) == _relevant(new)):
            return
        for pod in (old, new):
            if pod is not None:
                self._enqueue_budgets(pod.metadata.namespace, pod.metadata.labels)

    def _enqueue_budgets(self, namespace: str, labels: Labels) -> None:
        """Count again for the budgets of pods with some labels."""
        if not self._budgets.count(_NAMESPACE, namespace):
            return
        key = _BUDGET.kind, namespace, frozenset(labels.items())
        self.context.gradual.add(key, partial(self._budgets_of, namespace, labels))

    def _budgets_of(self, namespace: str, labels: Labels) -> Iterator[int]:
        for place in (_place(namespace), *(_place(namespace, label) for label in labels.items())):
            for budget in list(self._budgets.by(_ANCHOR, place)):
                if picks(budget.spec.selector, labels):
                    self._enqueue_later(budget)
                yield 1 + size_of(budget.spec.selector)

    def _workload_changed(self, old: _Workload | None, new: _Workload | None) -> None:
        if new is None or (old is not None and old.spec.replicas == new.spec.replicas):
            return
        if old is None:
            # The pods that it has or will have are those of its template.
            self._enqueue_budgets(new.metadata.namespace, new.spec.template.metadata.labels)
            return
        for budget in self._budgets.by(_NAMESPACE, new.metadata.namespace):
            self._enqueue_later(budget)

    def _enqueue_later(self, budget: PodDisruptionBudget) -> None:
        self.queue.add_after((budget.metadata.namespace, budget.metadata.name), _TOGETHER)

    async def reconcile(self, key: Key) -> None:
        """Count the pods of one budget."""
        if (budget := self._budgets.get(*key)) is None:
            return
        pods = self._by_label.matching(key[0], selector_of(budget.spec.selector))
        if not pods:
            self.recorder.event(budget, NORMAL, "NoPods", "No matching pods found")
        now = self.clock.now()
        disrupted = self._disrupted(budget, pods, now)
        healthy = sum(_is_healthy(pod) and pod.metadata.name not in disrupted for pod in pods)
        try:
            counts = self._counts(budget, pods, healthy)
        except _UnknownScale as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            self.recorder.event(budget, WARNING, "CalculateExpectedPodCountFailed", message)
            await self._fail_safe(budget, str(error))
            return
        await self._write(budget, counts, disrupted)
        if disrupted:
            self.queue.add_after(key, (min(disrupted.values()) + _DELETION_TIMEOUT - now).total_seconds() + 1)

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
                name = f"{budget.metadata.namespace}/{budget.metadata.name}"
                message = f"Pod was expected by PDB {name} to be deleted but it wasn't"
                self.recorder.event(pod, WARNING, "NotDeleted", message)
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
        """How many replicas the owners of these pods specify, all together."""
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
        """Uid and scale of the workload of a pod: the Deployment of a ReplicaSet, otherwise its owner."""
        namespace = pod.metadata.namespace
        informer = self._scaled.get((owner.api_version.rpartition("/")[0], owner.kind))
        if informer is None:
            kind = kinds.find(owner.api_version, owner.kind)
            resource = kind.resource if kind is not None else f"{owner.api_version}/{owner.kind}"
            raise _UnknownScale(f"{resource} does not implement the scale subresource")
        workload = informer.get(namespace, owner.name)
        if workload is None or workload.metadata.uid != owner.uid:
            raise _UnknownScale(f'found no controllers for pod "{pod.metadata.name}"')
        above = controller_of(workload)
        if owner.kind == "ReplicaSet" and above is not None and above.kind == "Deployment":
            deployment = self._deployments.get(namespace, above.name)
            if deployment is not None and deployment.metadata.uid == above.uid:
                workload = deployment
        return workload.metadata.uid, desired_replicas(workload)

    async def _write(self, budget: PodDisruptionBudget, counts: _Counts, disrupted: dict[str, datetime]) -> None:
        old, generation = budget.status, budget.metadata.generation
        status, reason = ("True", "SufficientPods") if counts.allowed > 0 else ("False", "InsufficientPods")
        known = _condition(budget)
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

    async def _fail_safe(self, budget: PodDisruptionBudget, message: str) -> None:
        """Allow nothing while it is not known what could be allowed."""
        known = _condition(budget)
        if not budget.status.disruptions_allowed and known is not None and known.message == message:
            return
        generation = budget.status.observed_generation
        conditions = self._conditions(budget, "False", "SyncFailed", message, generation)
        await self._patch(budget, {"disruptionsAllowed": 0, "conditions": conditions})

    def _conditions(
        self, budget: PodDisruptionBudget, status: str, reason: str, message: str, generation: int
    ) -> list[Data]:
        others = [each for each in budget.status.conditions if each.type != _CONDITION]
        known = _condition(budget)
        since = known.last_transition_time if known is not None and known.status == status else None
        ours = {
            "type": _CONDITION, "status": status, "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": timestamp(since or self.clock.now()),
        }  # fmt: skip
        return [*msgspec.to_builtins(others), ours]

    async def _patch(self, budget: PodDisruptionBudget, status: Data) -> None:
        """Write the status, unless an eviction has changed it meanwhile, which the numbers do not include."""
        metadata = budget.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "status": status}
        with suppress(Missing):
            answer = await self.client.patch(_BUDGET, metadata.namespace, metadata.name, patch, subresource="status")
            await self._budgets.caught_up(resource_version(answer))


def _anchor(budget: PodDisruptionBudget) -> list[str]:
    return [_place(budget.metadata.namespace, anchor(budget.spec.selector))]


def _place(namespace: str, label: LabelPair | None = None) -> str:
    return f"{namespace}/{label[0]}={label[1]}" if label is not None else f"{namespace}/"


def _is_healthy(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and ready_condition(pod) is not None


def _condition(budget: PodDisruptionBudget) -> Condition | None:
    return next((each for each in budget.status.conditions if each.type == _CONDITION), None)


def _relevant(pod: Pod) -> tuple[object, ...]:
    """The parts of a pod that a budget depends on."""
    metadata = pod.metadata
    return metadata.labels, _is_healthy(pod), metadata.deletion_timestamp is None, metadata.owner_references
