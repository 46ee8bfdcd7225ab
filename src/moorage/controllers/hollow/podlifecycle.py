"""The lifecycle of a pod on a hollow node: the next action, or when there will be one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from math import isfinite

from moorage.api.pod import Pod
from moorage.client.backoff import Backoff
from moorage.controllers.frame.pods import controller_of, is_finished
from moorage.controllers.hollow import overrides, podstatus
from moorage.controllers.hollow.commands import course_of

_TASK_SECONDS = 1.0
_RESTARTS, _GROWING = Backoff(first=10.0, last=300.0), 5
"""How long a kubelet waits before it starts containers again that failed, and how often that grows."""
_NEVER = datetime.max.replace(tzinfo=UTC)


class PodAction(Enum):
    """Something that a kubelet does with a pod."""

    ADMIT = "let it in and start it, or refuse it"
    REPORT = "say how it is, because what is said is out of date"
    FINISH = "its containers end by themselves"
    RESTART = "its containers have failed and start again"
    KILL = "it has run longer than it may"
    STOP = "it is to be deleted: stop its containers, then let go of it"
    LET_GO = "it is to be deleted and has stopped"


def next_action(pod: Pod, now: datetime) -> PodAction | datetime | None:
    """What to do with a pod, or when to ask again, or None when there is nothing to do until it changes."""
    over = is_finished(pod)
    if pod.metadata.deletion_timestamp is not None:
        if over:
            return PodAction.LET_GO if pod.metadata.deletion_grace_period_seconds else None
        stops = _stops(pod)
        return PodAction.STOP if stops is None or stops <= now else stops
    if over:
        return None
    if pod.status.start_time is None or (pod.status.phase == "Pending" and not podstatus.is_waiting(pod)):
        return PodAction.ADMIT
    ends = _ends(pod, pod.status.start_time)
    if ends is not None and ends[0] <= now:
        return ends[1]
    if not podstatus.is_current(pod):
        return PodAction.REPORT
    return ends[0] if ends is not None else None


def _stops(pod: Pod) -> datetime | None:
    """When the containers of a pod that is being deleted have stopped; None is at once."""
    needed, grace = _sleeps(pod) + overrides.stop_seconds(pod), pod.metadata.deletion_grace_period_seconds or 0
    if not needed or not grace or pod.metadata.deletion_timestamp is None:
        return None
    return _later(pod.metadata.deletion_timestamp, -max(0.0, grace - needed))


def _sleeps(pod: Pod) -> int:
    """How many seconds the hooks of a pod sleep before its containers are told to stop."""
    hooks = [each.lifecycle.pre_stop for each in pod.spec.containers if each.lifecycle is not None]
    return max((hook.sleep.seconds for hook in hooks if hook is not None and hook.sleep is not None), default=0)


def _ends(pod: Pod, started: datetime) -> tuple[datetime, PodAction] | None:
    """When a pod that runs will end, and how."""
    ends = []
    deadline = pod.spec.active_deadline_seconds
    if deadline is not None:
        ends.append((_later(started, deadline), PodAction.KILL))
    runs = None if podstatus.is_waiting(pod) else _runs(pod)
    if runs is not None:
        again = overrides.exit_code(pod) and pod.spec.restart_policy == "OnFailure"
        # When a container was last started follows from the number of restarts and their back-off.
        restarts = podstatus.restarts(pod)
        seconds = (restarts + 1) * runs + _pauses(restarts)
        ends.append((_later(started, seconds), PodAction.RESTART if again else PodAction.FINISH))
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
    seconds = overrides.run_seconds(pod)
    if seconds is not None:
        return seconds
    if overrides.EXIT_CODE in pod.metadata.annotations:
        return _TASK_SECONDS
    if (course := course_of(pod)) is not None:
        return max(course.seconds, _TASK_SECONDS) if isfinite(course.seconds) else None
    owner = controller_of(pod)
    return _TASK_SECONDS if owner is not None and owner.kind == "Job" else None


def _pauses(restarts: int) -> float:
    """How long a kubelet has waited before some restarts: not before the first, then twice as long each time."""
    growing = sum(_RESTARTS.delay(number) for number in range(1, min(restarts - 1, _GROWING) + 1))
    return growing + _RESTARTS.last * max(0, restarts - 1 - _GROWING)
