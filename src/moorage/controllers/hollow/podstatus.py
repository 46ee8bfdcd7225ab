"""The status of a pod as a kubelet writes it: running, ended, or rejected."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

import msgspec

from moorage.api.meta import Data
from moorage.api.pod import Container, Pod
from moorage.bounded import remember_short
from moorage.client.clock import timestamp
from moorage.controllers.hollow.overrides import is_missing

_KILLED, _TERMINATED = 137, 143
DEADLINE = "DeadlineExceeded"
PREEMPTED, PREEMPTED_MESSAGE = "Preempting", "Preempted in order to admit critical pod"
_DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


class ConditionState(NamedTuple):
    """Status, reason and message of a condition."""

    status: str
    reason: str = ""
    message: str = ""


_TRUE, _FALSE = ConditionState("True"), ConditionState("False")


def running(pod: Pod, host: str, address: str, now: datetime) -> Data:
    """The status of a pod whose containers run, but for those that wait for an image."""
    states = {
        "PodScheduled": _TRUE,
        "PodReadyToStartContainers": _TRUE,
        "Initialized": _TRUE,
        "Ready": _readiness(pod),
        "ContainersReady": _containers_readiness(pod),
    }
    started = timestamp(pod.status.start_time or now)
    restart_count = restarts(pod)
    state = {"running": {"startedAt": started}}
    containers = [
        _waiting(each) if is_missing(each.image) else _container(pod, each, state, restart_count)
        for each in pod.spec.containers
    ]
    return {
        "phase": _phase(pod),
        "observedGeneration": pod.metadata.generation,
        "startTime": started,
        "hostIP": host, "hostIPs": [{"ip": host}], "podIP": address, "podIPs": [{"ip": address}],
        "conditions": _conditions(pod, states, timestamp(now)),
        "containerStatuses": containers,
        **_init_containers(pod, state, started),
        **_ephemeral_containers(pod, timestamp(now)),
    }  # fmt: skip


def restarted(pod: Pod, code: int, now: datetime) -> Data:
    """What changes in a status when the containers have failed and were started again."""
    count, moment = restarts(pod), timestamp(now)
    state = {"running": {"startedAt": moment}}
    containers = []
    for each in pod.spec.containers:
        ended = _ended(pod, each, code, count, moment)
        containers.append(_container(pod, each, state, count + 1, last=ended))
    return {"containerStatuses": containers}


def finished(pod: Pod, code: int, now: datetime, **more: ConditionState) -> Data:
    """The status of a pod whose containers have ended with a code, and more conditions."""
    phase, reason = ("Failed", "PodFailed") if code else ("Succeeded", "PodCompleted")
    not_ready = ConditionState("False", reason)
    states = {"PodReadyToStartContainers": _FALSE, "Ready": not_ready, "ContainersReady": not_ready}
    status: Data = {"phase": phase, "observedGeneration": pod.metadata.generation}
    moment = timestamp(now)
    if pod.status.start_time is not None:
        count = restarts(pod)
        states["Initialized"] = ConditionState("True", "" if code else reason)
        containers = pod.spec.containers
        ended = [
            _container(pod, each, _ended(pod, each, code, count, moment), count, runs=False) for each in containers
        ]
        status["containerStatuses"] = ended
        status |= _init_containers(pod, None, moment)
        status |= _ephemeral_containers(pod, moment, run=False)
    status["conditions"] = _conditions(pod, states | more, moment)
    return status


def stopped(pod: Pod, now: datetime) -> Data:
    """The status of a pod that was stopped: a server ends well, a task is interrupted and has failed."""
    serves = pod.spec.restart_policy == "Always" and pod.status.start_time is not None
    return finished(pod, 0 if serves else _TERMINATED, now)


def overdue(pod: Pod, now: datetime) -> Data:
    """The status of a pod that was ended because its active deadline has passed."""
    return {**finished(pod, _KILLED, now), "reason": DEADLINE, "message": _DEADLINE_MESSAGE}


def preempted(pod: Pod, now: datetime) -> Data:
    """The status of a pod that was preempted by a critical one."""
    disrupted = ConditionState(
        "True", "TerminationByKubelet", "Pod was preempted by Kubelet to accommodate a critical pod."
    )
    status = finished(pod, _KILLED, now, DisruptionTarget=disrupted)
    return {**status, "reason": PREEMPTED, "message": PREEMPTED_MESSAGE}


def rejected(pod: Pod, reason: str, message: str, now: datetime) -> Data:
    """The status of a pod that a node rejects."""
    return {
        "phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}",
        "observedGeneration": pod.metadata.generation, "startTime": timestamp(now),
    }  # fmt: skip


def is_current(pod: Pod) -> bool:
    """Whether the status of an admitted pod is up to date with the pod."""
    status = pod.status
    if status.phase != _phase(pod) or status.observed_generation < pod.metadata.generation:
        return False
    expected = _readiness(pod)
    ready = next((each for each in status.conditions if each.type == "Ready"), None)
    return ready is not None and (ready.status, ready.reason, ready.message) == expected


def is_waiting(pod: Pod) -> bool:
    """Whether a pod has containers whose images cannot be pulled."""
    return any(is_missing(each.image) for each in pod.spec.containers)


def _phase(pod: Pod) -> str:
    """The phase of an admitted pod: one that has run is not pending any more."""
    return "Pending" if is_waiting(pod) and pod.status.phase != "Running" else "Running"


def restarts(pod: Pod) -> int:
    """How often the containers of a pod were started again."""
    return max((each.restart_count for each in pod.status.container_statuses), default=0)


def _containers_readiness(pod: Pod) -> ConditionState:
    waiting = " ".join(each.name for each in pod.spec.containers if is_missing(each.image))
    return (
        ConditionState("False", "ContainersNotReady", f"containers with unready status: [{waiting}]")
        if waiting
        else _TRUE
    )


def _readiness(pod: Pod) -> ConditionState:
    if is_waiting(pod):
        return _containers_readiness(pod)
    if not pod.spec.readiness_gates:
        return _TRUE
    known = {each.type: each.status for each in pod.status.conditions}
    missing = []
    for gate in pod.spec.readiness_gates:
        status = known.get(gate.condition_type)
        if status is None:
            missing.append(f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.')
        elif status != "True":
            name = gate.condition_type
            missing.append(f'the status of pod readiness gate "{name}" is not "True", but {status}')
    return ConditionState("False", "ReadinessGatesNotReady", ", ".join(missing)) if missing else _TRUE


def _conditions(pod: Pod, states: Mapping[str, ConditionState], now: str) -> list[Data]:
    """All conditions of a pod: those of the kubelet as they are now, those of others as they were."""
    others = {each.type: each for each in pod.status.conditions}
    conditions = []
    for type_, state in states.items():
        old = others.pop(type_, None)
        since = old.last_transition_time if old is not None and old.status == state.status else None
        condition: Data = {
            "type": type_, "status": state.status, "lastTransitionTime": timestamp(since) if since else now,
            "observedGeneration": pod.metadata.generation,
        }  # fmt: skip
        if state.reason:
            condition["reason"] = state.reason
        if state.message:
            condition["message"] = state.message
        conditions.append(condition)
    return conditions + [msgspec.to_builtins(each) for each in others.values()]


def _container(
    pod: Pod, container: Container, state: Data, count: int, *, runs: bool = True, last: Data | None = None
) -> Data:
    return {
        "name": container.name, "image": container.image, "imageID": _image_id(container.image),
        "containerID": _container_id(pod, container, count),
        "ready": runs, "started": runs, "restartCount": count,
        "state": state, "lastState": last or {},
    }  # fmt: skip


def _waiting(container: Container) -> Data:
    waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{container.image}"'}
    return {
        "name": container.name, "image": container.image, "imageID": "", "ready": False, "started": False,
        "restartCount": 0, "state": {"waiting": waiting}, "lastState": {},
    }  # fmt: skip


def _ended(pod: Pod, container: Container, code: int, count: int, now: str) -> Data:
    ended = {
        "exitCode": code, "reason": "Error" if code else "Completed",
        "startedAt": timestamp(pod.status.start_time) if pod.status.start_time else now, "finishedAt": now,
        "containerID": _container_id(pod, container, count),
    }  # fmt: skip
    return {"terminated": ended}


def _init_containers(pod: Pod, state: Data | None, now: str) -> Data:
    """The statuses of init containers: completed, but a sidecar is as `state` says, ended if None."""
    statuses = []
    for each in pod.spec.init_containers:
        done = _ended(pod, each, 0, 0, now)
        if each.restart_policy == "Always":
            statuses.append(_container(pod, each, state or done, 0, runs=state is not None))
        else:
            statuses.append({**_container(pod, each, done, 0, runs=False), "ready": True})
    return {"initContainerStatuses": statuses} if statuses else {}


def _ephemeral_containers(pod: Pod, now: str, *, run: bool = True) -> Data:
    """The statuses of ephemeral containers: each runs from when it was first seen."""
    known = {each["name"]: each for each in pod.status.ephemeral_container_statuses}
    statuses = []
    for each in pod.spec.ephemeral_containers:
        if is_missing(each.image):
            statuses.append(_waiting(each))
        elif run and each.name in known:
            statuses.append(known[each.name])
        else:
            state = {"running": {"startedAt": now}} if run else _ended(pod, each, _TERMINATED, 0, now)
            statuses.append(_container(pod, each, state, 0, runs=False))
    return {"ephemeralContainerStatuses": statuses} if statuses else {}


def _container_id(pod: Pod, container: Container, count: int) -> str:
    return f"hollow://{sha256(f'{pod.metadata.uid}/{container.name}/{count}'.encode()).hexdigest()}"


@remember_short(4096)
def _image_id(image: str) -> str:
    if "@" in image:
        return image
    name = image[: image.rfind(":")] if image.rfind(":") > image.rfind("/") else image
    return f"{name}@sha256:{sha256(image.encode()).hexdigest()}"
