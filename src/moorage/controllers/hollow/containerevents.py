"""Events about containers that were started, written when there is time for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from moorage.api.pod import Container, Pod
from moorage.client.clock import Clock
from moorage.client.events import NORMAL, WARNING, Recorder
from moorage.client.informer import Key
from moorage.controllers.hollow.overrides import is_missing

_AT_ONCE, _PAUSE = 25, 1.0
_WAITING = 2000
_CONTAINERS = 100
"""Of how many containers of a pod events tell."""
_STEPS = (
    (NORMAL, "Pulled", 'Container image "{image}" already present on machine and can be accessed by the pod'),
    (NORMAL, "Created", "Container created"),
    (NORMAL, "Started", "Container started"),
)
_VAIN_STEPS = (
    (WARNING, "Failed", 'Failed to pull image "{image}": not found'),
    (NORMAL, "BackOff", 'Back-off pulling image "{image}"'),
)


class _Start(NamedTuple):
    pod: Key
    uid: str
    moment: datetime


class ContainerEvents:
    """Records Pulled, Created and Started events, or those of a failed pull, for each container of a pod.

    Twenty-five pods a second are some 75 events, written together, a few hundredths of a core: in a wave of pods their
    events come later, with the time of the start, and pods do not wait for them. When too many wait, the newest are
    left out.
    """

    def __init__(self, pod: Callable[[str, str], Pod | None], recorder: Recorder, clock: Clock) -> None:
        self._pod = pod
        self._recorder = recorder
        self._clock = clock
        self._starts: asyncio.Queue[_Start] = asyncio.Queue(_WAITING)

    def started(self, pod: Pod, now: datetime) -> None:
        """The containers of a pod were started, or started again."""
        with suppress(asyncio.QueueFull):
            self._starts.put_nowait(_Start((pod.metadata.namespace, pod.metadata.name), pod.metadata.uid, now))

    async def run(self) -> None:
        """Record events, those that have waited longest first, for ever."""
        while True:
            recorded = self._record(await self._starts.get())
            for _ in range(min(_AT_ONCE - 1, self._starts.qsize())):
                if recorded >= _CONTAINERS:
                    await asyncio.sleep(0)
                    recorded = 0
                recorded += self._record(self._starts.get_nowait())
            await self._clock.sleep(_PAUSE)

    def _record(self, start: _Start) -> int:
        """Record the events of one pod. Returns of how many containers they tell."""
        pod = self._pod(*start.pod)
        if pod is None or pod.metadata.uid != start.uid:
            return 0
        recorder = self._recorder.named(self._recorder.source.component, pod.spec.node_name)
        parts = list(islice(_parts(pod), _CONTAINERS))
        for part, container in parts:
            for type_, reason, text in _VAIN_STEPS if is_missing(container.image) else _STEPS:
                recorder.event(pod, type_, reason, text.format(image=container.image), part=part, at=start.moment)
        return len(parts)


def _parts(pod: Pod) -> Iterable[tuple[str, Container]]:
    """The containers of a pod in the order in which they are started, and where each stands in it."""
    for each in pod.spec.init_containers:
        yield f"spec.initContainers{{{each.name}}}", each
    for each in pod.spec.containers:
        yield f"spec.containers{{{each.name}}}", each
