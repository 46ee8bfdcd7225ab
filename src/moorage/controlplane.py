"""A whole control plane in one process: the API server, the scheduler, the controllers, and hollow nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from moorage.api import kinds
from moorage.apiserver.access.credentials import SharedFiles
from moorage.apiserver.audit.log import AuditSettings
from moorage.apiserver.run import APIServer, start
from moorage.client import Client, Exists, Unavailable
from moorage.client.clock import Clock
from moorage.client.leases import CONTROLLERS_LEASE, SCHEDULER_LEASE, LeadershipLost, LeaseTerms, identity, lead
from moorage.controllers.cluster.serviceaccounts import root_ca
from moorage.controllers.hollow import HollowNodes, ensure_nodes
from moorage.controllers.run import CONTROLLERS, Make, prepare
from moorage.controllers.storage.provisioner import PROVISIONER
from moorage.features import NONE_ON, Gates
from moorage.logs import COMPONENT, Log
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from moorage.store import SQLITE, EtcdFiles

_LOG = Log(__name__)
_RESTART_SECONDS = 1.0
_LEASES = {"scheduler": SCHEDULER_LEASE, "controllers": CONTROLLERS_LEASE}
_SELDOM = 5.0
"""Seconds between renewals that nobody competes with: each is a write to the disk of a server that may be idle."""
_OWNER = "moorage-up"
"""Who holds the leases of a data directory."""
_STORAGE_CLASS = kinds.row("storage.k8s.io/v1", "StorageClass")
_STANDARD = {
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
}


@dataclass(slots=True)
class Settings:
    """The options of a control plane."""

    directory: Path
    store: str = "sqlite"
    bind: str = "127.0.0.1"
    port: int = 6443
    apiserver_gates: Gates = NONE_ON
    scheduler_gates: Gates = NONE_ON
    controllers_gates: Gates = NONE_ON
    kubelet_gates: Gates | None = None
    """Those of the hollow kubelets; by default those of the controllers."""
    etcd_files: EtcdFiles = (None, None, None)
    advertise: str = ""
    shared: SharedFiles = field(default_factory=SharedFiles)
    plugins: frozenset[str] = frozenset()
    """The admission plugins that are on though they are off by default."""
    scheduling: Configuration = field(default_factory=Configuration)
    nodes: int = 3
    """How many hollow nodes there are to begin with."""
    clock: Clock = field(default_factory=Clock)
    audit: AuditSettings | None = None


async def furnish(client: Client, nodes: int, clock: Clock | None = None) -> None:
    """Create what people expect to find in a new cluster: hollow nodes and a default storage class."""
    with suppress(Exists):
        await client.create(_STORAGE_CLASS, _STANDARD)
    await ensure_nodes(client, nodes, clock)


class ControlPlane:
    """A control plane that runs."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(
        cls, settings: Settings, before: Callable[[APIServer], Awaitable[None]] | None = None
    ) -> ControlPlane:
        """Start everything: the API server, then what is to be done before the others, then the others.

        Raises CannotStart when the API server cannot.
        """
        server = await start(
            settings.directory, settings.store, settings.apiserver_gates, settings.bind, settings.port,
            etcd_files=settings.etcd_files, advertise=settings.advertise, shared=settings.shared, clock=settings.clock,
            audit=settings.audit,
            plugins=settings.plugins,
        )  # fmt: skip
        plane = cls(server)
        if before is not None:
            await before(server)

        async def schedule(client: Client) -> None:
            scheduler = Scheduler(client, settings.scheduler_gates, settings.scheduling, clock=settings.clock)
            with server.measuring("scheduler", scheduler.metrics.registry):
                await scheduler.run()

        async def control(client: Client) -> None:
            gates, kubelet_gates = settings.controllers_gates, settings.kubelet_gates or settings.controllers_gates
            makers: list[Make] = [*CONTROLLERS, partial(HollowNodes, gates=kubelet_gates)]
            if server.trusted:
                makers.append(root_ca(server.trusted))
            controllers = prepare(client, gates, makers, kubelet_gates=kubelet_gates, clock=settings.clock)
            with server.measuring("controllers", controllers.context.registry):
                await controllers.run()

        try:
            await furnish(server.client("moorage"), settings.nodes, settings.clock)
        except Unavailable as error:
            _LOG.warning("Not all hollow nodes are created", err=error)
        # Nobody else can have this data directory: a lease of the same name is left from a process that was killed.
        is_owner = settings.store == SQLITE
        holder = _OWNER if is_owner else identity()
        for name, work, lease in (
            ("scheduler", schedule, SCHEDULER_LEASE),
            ("controllers", control, CONTROLLERS_LEASE),
        ):
            terms = LeaseTerms(lease, retry_period=_SELDOM, owns_store=True) if is_owner else LeaseTerms(lease)
            plane.run(name, work, terms, holder)
        return plane

    def run(self, component: str, work: Callable[[Client], Awaitable[None]], lease: LeaseTerms, holder: str) -> None:
        """Keep a component running while its lease is held; one that fails is logged and restarted."""
        client = self.server.client(f"moorage-{component}")

        async def keep_running() -> None:
            COMPONENT.set(component)
            while True:
                try:
                    await lead(client, lease, holder, Clock(), lambda: work(client))
                except LeadershipLost:
                    pass
                except Exception:  # noqa: BLE001 - the log has it, and the others go on
                    _LOG.exception("Component failed and is started again")
                await asyncio.sleep(_RESTART_SECONDS)

        self._tasks.append(asyncio.create_task(keep_running(), name=component))

    async def stop(self) -> None:
        """Stop everything, the API server last."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        await self.server.stop()
