"""The summary of a pod for printing: status, ready containers and restarts, as kubectl shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from moorage.registry.printing.ages import moment

Printable = Mapping[str, Any]
"""An object that is printed, or a part of one."""
_ENDED = ("Succeeded", "Failed")


class _Restarts:
    """The number of restarts and the time of the last one."""

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last: datetime | None = None

    def add(self, container: Printable) -> None:
        self.count += container.get("restartCount") or 0
        terminated = (container.get("lastState") or {}).get("terminated")
        finished = moment(terminated.get("finishedAt")) if terminated else None
        if finished and (self.last is None or finished > self.last):
            self.last = finished


class PodSummary:
    """What a list shows of a pod."""

    __slots__ = ("last_restart", "ready", "reason", "restarts", "total")

    def __init__(self, pod: Printable) -> None:
        spec, status = pod.get("spec") or {}, pod.get("status") or {}
        conditions = status.get("conditions") or ()
        init_containers = spec.get("initContainers") or ()
        sidecars = {container["name"] for container in init_containers if container.get("restartPolicy") == "Always"}
        self.total = len(spec.get("containers") or ()) + len(sidecars)
        self.ready = 0
        self.reason: str = status.get("reason") or status.get("phase") or ""
        for condition in conditions:
            if condition.get("reason") == "SchedulingGated" and condition.get("type") == "PodScheduled":
                self.reason = "SchedulingGated"

        restarts, sidecar_restarts = _Restarts(), _Restarts()
        waiting_for = self._initialise(
            status.get("initContainerStatuses") or (), sidecars, len(init_containers), restarts, sidecar_restarts
        )
        if waiting_for:
            self.reason = waiting_for
        if not waiting_for or _is_true(conditions, "Initialized"):
            restarts = sidecar_restarts
            self._run(status.get("containerStatuses") or (), conditions, restarts)
        self.restarts = restarts.count
        self.last_restart = restarts.last

        if (pod.get("metadata") or {}).get("deletionTimestamp"):
            if status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif status.get("phase") not in _ENDED:
                self.reason = "Terminating"

    def _initialise(
        self, statuses: Iterable[Printable], sidecars: set[str], total: int, all_: _Restarts, of_sidecars: _Restarts
    ) -> str:
        """The status of the first init container that is not done; empty when all are."""
        for index, container in enumerate(statuses):
            is_sidecar = container.get("name") in sidecars
            all_.add(container)
            if is_sidecar:
                of_sidecars.add(container)
            state = container.get("state") or {}
            terminated = state.get("terminated")
            if terminated is not None and not terminated.get("exitCode"):
                continue
            if is_sidecar and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            if terminated is not None:
                return f"Init:{_ending(terminated)}"
            reason = (state.get("waiting") or {}).get("reason")
            return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{index}/{total}"
        return ""

    def _run(self, statuses: Iterable[Printable], conditions: Iterable[Printable], restarts: _Restarts) -> None:
        """Take the reason from the containers; the first one has precedence."""
        running, failure = False, ""
        for container in reversed(list(statuses)):
            restarts.add(container)
            state = container.get("state") or {}
            reason = (state.get("waiting") or {}).get("reason")
            terminated = state.get("terminated")
            if reason:
                self.reason = reason
            elif terminated is not None:
                self.reason = _ending(terminated)
                failure = self.reason if terminated.get("exitCode") else failure
            elif container.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and _is_true(conditions, "Ready"):
                self.reason = "Running"
            else:
                self.reason = failure or ("NotReady" if running else self.reason)


def _ending(terminated: Printable) -> str:
    """How a container ended."""
    signal = terminated.get("signal")
    return terminated.get("reason") or (f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode', 0)}")


def _is_true(conditions: Iterable[Printable], type_: str) -> bool:
    return any(condition.get("status") == "True" for condition in conditions if condition.get("type") == type_)
