"""The progress of a rollout, as the status of its Deployment reports it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from moorage.api.meta import Data
from moorage.api.workload import Deployment, ReplicaSet
from moorage.client.informer import Key
from moorage.controllers.owners.replicas import desired_replicas
from moorage.controllers.workloads import rollouts
from moorage.controllers.workloads.rollouts import AVAILABLE, PROGRESSING

_FAILURE = "ReplicaFailure"
_DONE, _OVERDUE, _PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"


@dataclass(slots=True)
class DeploymentRollout:
    """A Deployment as it was read, its ReplicaSets, and the status that is to be written."""

    deployment: Deployment
    data: Data
    new: ReplicaSet | None
    old: list[ReplicaSet]
    status: Data = field(init=False)
    """The status as it was read."""
    conditions: list[Data] = field(init=False)
    collisions: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.status = self.data.get("status") or {}
        self.conditions = list(self.status.get("conditions") or ())
        self.collisions = self.status.get("collisionCount")

    @property
    def key(self) -> Key:
        """Which Deployment it is."""
        return self.deployment.metadata.namespace, self.deployment.metadata.name

    @property
    def sets(self) -> list[ReplicaSet]:
        """All ReplicaSets."""
        return [*self.old, self.new] if self.new is not None else self.old

    def put(self, fresh: ReplicaSet) -> None:
        """Replace a ReplicaSet that was changed."""
        uid = fresh.metadata.uid
        self.old = [fresh if each.metadata.uid == uid else each for each in self.old]
        if self.new is not None and self.new.metadata.uid == uid:
            self.new = fresh

    def set_condition(self, now: datetime, type_: str, status: str, reason: str, message: str) -> None:
        """Set a condition."""
        self.conditions = rollouts.with_condition(self.conditions, type_, status, reason, message, now)

    def note_pause(self, now: datetime) -> None:
        """Set the condition of a paused or resumed Deployment, so that a pause does not count as lack of progress."""
        reason = (rollouts.condition(self.conditions, PROGRESSING) or {}).get("reason")
        if not rollouts.has_deadline(self.deployment) or reason == _OVERDUE:
            return
        if self.deployment.spec.paused and reason != _PAUSED:
            self.set_condition(now, PROGRESSING, "Unknown", _PAUSED, "Deployment is paused")
        elif reason == _PAUSED and not self.deployment.spec.paused:
            self.set_condition(now, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed")

    def note_progress(self, now: datetime) -> None:
        """Set the conditions for the progress of the rollout and for failures that its ReplicaSets report."""
        if rollouts.has_deadline(self.deployment):
            self._note_progress(now)
        else:
            self.conditions = rollouts.without(self.conditions, PROGRESSING)
        newest_first = [self.new, *self.old] if self.new is not None else self.old
        failures = [each for item in newest_first for each in item.status.conditions if each.type == _FAILURE]
        if failures:
            self.set_condition(now, _FAILURE, failures[0].status, failures[0].reason, failures[0].message)
        else:
            self.conditions = rollouts.without(self.conditions, _FAILURE)

    def _note_progress(self, now: datetime) -> None:
        counts, current = self.counts(), rollouts.condition(self.conditions, PROGRESSING) or {}
        overdue = rollouts.deadline(self.deployment, self.conditions)
        if current.get("reason") == _DONE and counts["replicas"] == counts["updatedReplicas"]:
            return
        if rollouts.is_complete(self.deployment, counts):
            self.set_condition(now, PROGRESSING, "True", _DONE, f"{self._subject} has successfully progressed.")
        elif rollouts.has_progressed(self.status, counts):
            # Progress is dated anew each time, though the condition stays what it is.
            self.conditions = rollouts.without(self.conditions, PROGRESSING)
            self.set_condition(now, PROGRESSING, "True", "ReplicaSetUpdated", f"{self._subject} is progressing.")
            if current.get("status") == "True":
                self.conditions[-1]["lastTransitionTime"] = current["lastTransitionTime"]
        elif overdue is not None and overdue < now:
            self.set_condition(now, PROGRESSING, "False", _OVERDUE, f"{self._subject} has timed out progressing.")

    @property
    def _subject(self) -> str:
        if self.new is not None:
            return f'ReplicaSet "{self.new.metadata.name}"'
        return f'Deployment "{self.deployment.metadata.name}"'

    def counts(self) -> dict[str, int]:
        """How many pods there are."""
        statuses = [each.status for each in self.sets]
        available = sum(each.available_replicas for each in statuses)
        return {
            "observedGeneration": self.deployment.metadata.generation,
            "replicas": sum(each.replicas for each in statuses),
            "updatedReplicas": self.new.status.replicas if self.new is not None else 0,
            "readyReplicas": sum(each.ready_replicas for each in statuses),
            "availableReplicas": available,
            "unavailableReplicas": max(0, sum(map(desired_replicas, self.sets)) - available),
        }

    def changed_status(self, now: datetime) -> Data:
        """The fields of the status that have changed; a count of zero is left out."""
        counts = self.counts()
        if counts["availableReplicas"] >= rollouts.fewest(self.deployment):
            text = "Deployment has minimum availability."
            self.set_condition(now, AVAILABLE, "True", "MinimumReplicasAvailable", text)
        else:
            text = "Deployment does not have minimum availability."
            self.set_condition(now, AVAILABLE, "False", "MinimumReplicasUnavailable", text)
        status: Data = {
            **{name: count or None for name, count in counts.items()},
            "terminatingReplicas": sum(each.status.terminating_replicas or 0 for each in self.sets),
            "collisionCount": self.collisions,
            "conditions": self.conditions,
        }
        return {name: value for name, value in status.items() if self.status.get(name) != value}
