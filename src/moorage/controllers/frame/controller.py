"""The base of every controller: what it is given, and the workers that reconcile keys, each key one at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from moorage.api.labels import LabelMatcher
from moorage.api.meta import Object
from moorage.client import Client, Informers
from moorage.client.clock import Clock
from moorage.client.errors import is_race
from moorage.client.events import Recorder
from moorage.client.informer import Key
from moorage.client.workqueue import RETRIES, WorkQueue, work
from moorage.controllers.frame.gradual import Gradual
from moorage.features import Gates
from moorage.logs import Log

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_LOG = Log(__name__)


def _new_registry() -> CollectorRegistry:
    from prometheus_client import CollectorRegistry  # slow to import, and most commands expose nothing

    return CollectorRegistry()


@dataclass(slots=True)
class Context:
    """What all controllers of a process share."""

    client: Client
    informers: Informers
    recorder: Recorder
    gates: Gates
    clock: Clock = field(default_factory=Clock)
    registry: CollectorRegistry = field(default_factory=_new_registry)
    deadlines: dict[str, dict[str, datetime]] = field(default_factory=dict)
    """When pods must leave that may stay for a time: by their uid, and by the controller that evicts them."""
    attached: bool = False
    """Whether another controller manager evicts: then only pods and claims with rules in annotations are judged."""
    rule_namespaces: LabelMatcher | None = None
    """The labels of the namespaces whose pods may have rules; None is all."""
    gradual: Gradual = field(default_factory=Gradual)
    """What all controllers do at a change that may take long."""


def resource_version(answer: bytes) -> str:
    """The revision of an object that the server has answered with."""
    return msgspec.json.decode(answer, type=Object).metadata.resource_version


def attached_name(source: str) -> str:
    """The source of the events of a controller beside another controller manager, whose own has the plain name."""
    return f"moorage-{source}"


class Controller:
    """Reconciles objects: brings the cluster nearer to what each of them specifies.

    The constructor asks for informers and registers handlers, before anything is read. `run` begins when the
    informers have read everything, and goes on until it is cancelled.
    """

    name = ""
    component = ""
    """The source of its events, as in Kubernetes; its name when empty."""
    workers = 4
    retries = RETRIES

    def __init__(self, context: Context) -> None:
        self.context = context
        self.client = context.client
        self.clock = context.clock
        source = self.component or self.name
        self.recorder = context.recorder.named(attached_name(source) if context.attached else source)
        self.queue: WorkQueue[Key] = WorkQueue(context.clock, self.retries)

    async def reconcile(self, key: Key) -> None:
        """Reconcile one object; when this raises, the key is retried with back-off."""
        raise NotImplementedError

    def enqueue(self, item: Object) -> None:
        """Reconcile an object soon."""
        self.queue.add((item.metadata.namespace, item.metadata.name))

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until an object changes or a timer ends."""
        return self.queue.is_idle

    async def run(self) -> None:
        """Reconcile until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self.workers):
                    tasks.create_task(work(self.queue, self.reconcile, self.failed))
        finally:
            self.queue.close()

    def failed(self, key: Key, error: Exception) -> None:
        """Log that a key could not be reconciled; a conflict is no reason to warn: the retry has the newer object."""
        trace, benign = not hasattr(error, "code"), is_race(error)
        _LOG.warning("Reconciling failed", trace=trace, benign=benign, controller=self.name, object=key, err=error)
