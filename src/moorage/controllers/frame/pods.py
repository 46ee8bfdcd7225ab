"""What controllers ask of any pod or object: whether it has ended, is being deleted, is ready, and what controls it."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Object, OwnerReference
from moorage.api.pod import Pod, PodCondition

POD = kinds.row("v1", "Pod")
FINISHED = ("Succeeded", "Failed")
"""The phases of pods whose containers have ended for good."""
DISRUPTION_TARGET = "DisruptionTarget"


def is_finished(pod: Pod) -> bool:
    """Whether a pod has ended, well or not."""
    return pod.status.phase in FINISHED


def is_ending(item: Object) -> bool:
    """Whether an object is being deleted."""
    return item.metadata.deletion_timestamp is not None


def condition_of(pod: Pod, type_: str) -> PodCondition | None:
    """One condition of a pod."""
    return next((each for each in pod.status.conditions if each.type == type_), None)


def ready_condition(pod: Pod) -> PodCondition | None:
    """The condition that says that a pod is ready, when it is."""
    return next((each for each in pod.status.conditions if each.type == "Ready" and each.status == "True"), None)


def controller_of(item: Object) -> OwnerReference | None:
    """The owner that controls an object."""
    for reference in item.metadata.owner_references:
        if reference.controller:
            return reference
    return None
