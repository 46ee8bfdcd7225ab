"""The life of a pod on a hollow node: what is to be done about it now, or when there will be something to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from math import isfinite

from moorage.api.pod import Pod
from moorage.controllers.hollow import statuses, wishes
from moorage.controllers.hollow.commands import course_of
from moorage.controllers.owners.podcontrol import controller_of

_TASK_SECONDS = 1.0
_PAUSES, _LONGEST_PAUSE = (10, 20, 40, 80, 160), 300
_NEVER = datetime.max.replace(tzinfo=UTC)
OVER = ("Succeeded", "Failed")


class Step(Enum):
    """Something that a kubelet does about a pod."""

    ADMIT = "let it in and start it, or refuse it"
    REPORT = "say how it is, because what is said is out of date"
    FINISH = "its containers end by themselves"
    RESTART = "its containers have failed and start again"
    KILL = "it has run longer than it may"
    STOP = "it is to be deleted: stop its containers, then let go of it"
    LET_GO = "it is to be deleted and has stopped"


def plan(pod: Pod, now: datetime) -> Step | datetime | None:
    """What to do about a pod, or when to ask again, or None when there is nothing to do until it changes."""
    over = pod.status.phase in OVER
    if pod.metadata.deletion_timestamp is not None:
        if over:
            return Step.LET_GO if pod.metadata.deletion_grace_period_seconds else None
        stops = _stops(pod)
        return Step.STOP if stops is None or stops <= now else stops
    if over:
        return None
    if pod.status.start_time is None or (pod.status.phase == "Pending" and not statuses.is_waiting(pod)):
        return Step.ADMIT
    ends = _ends(pod, pod.status.start_time)
    if ends is not None and ends[0] <= now:
        return ends[1]
    if not statuses.is_current(pod):
        return Step.REPORT
    return ends[0] if ends is not None else None


def _stops(pod: Pod) -> datetime | None:
    """When the containers of a pod that is being deleted have stopped; None is at once."""
    takes, given = _sleeps(pod) + wishes.stop_seconds(pod), pod.metadata.deletion_grace_period_seconds or 0
    if not takes or not given or pod.metadata.deletion_timestamp is None:
        return None
    return _later(pod.metadata.deletion_timestamp, -max(0.0, given - takes))


def _sleeps(pod: Pod) -> int:
    """How many seconds the hooks of a pod sleep before its containers are told to stop."""
    hooks = [each.lifecycle.pre_stop for each in pod.spec.containers if each.lifecycle is not None]
    return max((hook.sleep.seconds for hook in hooks if hook is not None and hook.sleep is not None), default=0)


def _ends(pod: Pod, started: datetime) -> tuple[datetime, Step] | None:
    """When a pod that runs will end, and how."""
    ends = []
    deadline = pod.spec.active_deadline_seconds
    if deadline is not None:
        ends.append((_later(started, deadline), Step.KILL))
    runs = None if statuses.is_waiting(pod) else _runs(pod)
    if runs is not None:
        again = wishes.exit_code(pod) and pod.spec.restart_policy == "OnFailure"
        # No container says when it was last started: it follows from how often it was, pauses included.
        restarts = statuses.restarts(pod)
        seconds = (restarts + 1) * runs + _pauses(restarts)
        ends.append((_later(started, seconds), Step.RESTART if again else Step.FINISH))
    return min(ends, key=lambda end: end[0]) if ends else None


def _later(moment: datetime, seconds: float) -> datetime:
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return _NEVER


def _runs(pod: Pod) -> float | None:
    """How many seconds the containers of a pod run; None when they run for ever."""
    if pod.spec.restart_policy == "Always":
        return None
    told = wishes.run_seconds(pod)
    if told is not None:
        return told
    if wishes.EXIT_CODE in pod.metadata.annotations:
        return _TASK_SECONDS
    if (course := course_of(pod)) is not None:
        return max(course.seconds, _TASK_SECONDS) if isfinite(course.seconds) else None
    owner = controller_of(pod)
    return _TASK_SECONDS if owner is not None and owner.kind == "Job" else None


def _pauses(restarts: int) -> int:
    """How long a kubelet has waited before some restarts: not before the first, then twice as long each time."""
    growing = _PAUSES[: max(0, restarts - 1)]
    return sum(growing) + _LONGEST_PAUSE * max(0, restarts - 1 - len(_PAUSES))
