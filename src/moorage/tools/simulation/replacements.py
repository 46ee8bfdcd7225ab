"""Stands in for controllers that are not there: a pod of theirs that is deleted is created again, as it was."""

from __future__ import annotations

import msgspec

from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.client import Exists, Forbidden, Invalid
from moorage.client.events import WARNING
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import POD, controller_of, is_ending, is_finished
from moorage.tools.simulation.loading import complete

_KEPT = ("labels", "annotations", "generateName", "ownerReferences")


class Replacements(Controller):
    """Creates pods again whose owners are not in the snapshot: at once, or once its name is free when it keeps that."""

    name = "replacements"

    def __init__(self, context: Context, absent: set[str]) -> None:
        """`absent` are the uids of the owners."""
        super().__init__(context)
        self._absent = absent
        self._pods = context.informers.of(Pod)
        self._pods.on_change(self._pod_changed)
        self._leaving: dict[Key, Pod] = {}
        """The pods that are to be created again, as they were."""

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        owner, key = controller_of(pod), (pod.metadata.namespace, pod.metadata.name)
        if owner is None or owner.uid not in self._absent:
            return
        left = new is None or is_ending(new)
        if left and old is not None and not is_ending(old) and not is_finished(old):
            self._leaving[key] = old
        if left and key in self._leaving and (new is None or pod.metadata.generate_name):
            self.queue.add(key)

    async def reconcile(self, key: Key) -> None:
        """Create the pod that replaces another."""
        if (pod := self._leaving.get(key)) is None:
            return
        try:
            await self.client.create(POD, _again(pod), key[0])
        except Exists:
            return
        except (Invalid, Forbidden) as error:
            self.recorder.event(pod, WARNING, "FailedCreate", f"Error creating: {error}")
        del self._leaving[key]


def _again(pod: Pod) -> Data:
    data: Data = msgspec.to_builtins(pod)
    metadata = {name: value for name, value in data["metadata"].items() if name in _KEPT}
    if not pod.metadata.generate_name:
        metadata["name"] = pod.metadata.name
    spec = {name: value for name, value in data["spec"].items() if name not in ("nodeName", "priority")}
    complete(spec)
    return {"metadata": metadata, "spec": spec}
