"""Pods whose DisruptionTarget condition was not followed by their deletion: after two minutes it becomes False."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.client import Missing
from moorage.client.clock import timestamp
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import DISRUPTION_TARGET, POD, condition_of, is_ending, is_finished

_STALE_TIMEOUT = timedelta(minutes=2)


class StaleDisruptions(Controller):
    """Sets DisruptionTarget to False on pods that are not deleted two minutes after it was set."""

    name = "stale-disruptions"
    workers = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = context.informers.of(Pod)
        self._pods.on_change(self._changed)

    def _changed(self, _: Pod | None, new: Pod | None) -> None:
        if new is not None and _disrupted_since(new) is not None:
            self.enqueue(new)

    async def reconcile(self, key: Key) -> None:
        """Reset the condition of a pod, or set the timer for it."""
        pod = self._pods.get(*key)
        since = _disrupted_since(pod) if pod is not None else None
        if pod is None or since is None:
            return
        left = (since + _STALE_TIMEOUT - self.clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(key, left)
            return
        with suppress(Missing):
            data: Data = msgspec.json.decode(await self.client.get(POD, *key))
            over = {"type": DISRUPTION_TARGET, "status": "False", "lastTransitionTime": timestamp(self.clock.now())}
            conditions = [over if each["type"] == DISRUPTION_TARGET else each for each in data["status"]["conditions"]]
            version = data["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}}
            await self.client.patch(POD, *key, patch, subresource="status")


def _disrupted_since(pod: Pod) -> datetime | None:
    """Since when a pod that is not being deleted has the condition; one that a kubelet has set does not count."""
    if is_ending(pod) or is_finished(pod):
        return None
    target = condition_of(pod, DISRUPTION_TARGET)
    if target is None or target.status != "True" or target.reason == "TerminationByKubelet":
        return None
    return target.last_transition_time
