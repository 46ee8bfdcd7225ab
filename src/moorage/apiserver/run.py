"""An API server from its data directory: certificates, tokens, store, index, and the address it listens on."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from moorage.apiserver.access import certificates, credentials
from moorage.apiserver.access.accounttokens import ServiceAccountTokens
from moorage.apiserver.access.authentication import Authenticator
from moorage.apiserver.access.certificates import CertificateError
from moorage.apiserver.access.credentials import SharedFiles
from moorage.apiserver.access.rbac import Rbac
from moorage.apiserver.access.tokens import TokenError, Tokens
from moorage.apiserver.accessindex import AccessIndex
from moorage.apiserver.app import App
from moorage.apiserver.audit.log import AuditLog, AuditSettings
from moorage.apiserver.base.users import MASTERS, User
from moorage.apiserver.bootstrap import bootstrap, keep_own_service
from moorage.apiserver.datadir import claim, exposed
from moorage.apiserver.eventexpiry import Expiry
from moorage.apiserver.http.listener import Server
from moorage.apiserver.local import LocalTransport
from moorage.apiserver.oldobjects import name_old_objects
from moorage.apiserver.periodic import PeriodicTasks
from moorage.client import Client
from moorage.client.clock import Clock
from moorage.features import Gates
from moorage.logs import Log
from moorage.store import EtcdFiles, open_store
from moorage.store.protocol import Store, StoreError

KUBECONFIG = "kubeconfig"
"""The file in the data directory that says how to reach the server."""
_LOG = Log(__name__)
_EXPIRY_SECONDS, _SERVICE_SECONDS, _OLD_OBJECTS_SECONDS = 60.0, 10.0, 3600.0
_NOTHING_SHARED = SharedFiles()


@dataclass(slots=True)
class APIServer:
    """A running server."""

    url: str
    kubeconfig: Path
    token: str
    """The token in it; empty when no token is for a user who may do everything."""
    trusted: str
    """The certificate to trust; empty when only the system's authorities may know it."""
    store: Store
    _server: Server
    _index: AccessIndex
    _tasks: PeriodicTasks
    _app: App
    _audit: AuditLog | None

    def client(self, component: str) -> Client:
        """A client for a component in the same process, which may do everything."""
        return Client(self.transport(component))

    def transport(self, component: str) -> LocalTransport:
        """What carries the requests of such a client."""
        return LocalTransport(self._app, User(component, (MASTERS,)), component)

    @contextmanager
    def measuring(self, component: str, registry: CollectorRegistry) -> Iterator[None]:
        """Serve the metrics of a component in the same process, while it runs."""
        others = self._app.metrics.others
        others[component] = registry
        try:
            yield
        finally:
            del others[component]

    async def stop(self, grace: float = 10) -> None:
        """Finish the requests that have begun, then close the store."""
        await self._server.stop(grace)
        await self._tasks.stop()
        await self._index.stop()
        await self.store.close()
        if self._audit is not None:
            await asyncio.to_thread(self._audit.close)


class CannotStart(Exception):
    """The server cannot start; the sentence says why."""


async def start(
    directory: Path,
    address: str,
    gates: Gates,
    bind: str,
    port: int,
    *,
    etcd_files: EtcdFiles = (None, None, None),
    advertise: str = "",
    shared: SharedFiles = _NOTHING_SHARED,
    clock: Clock | None = None,
    audit: AuditSettings | None = None,
    plugins: frozenset[str] = frozenset(),
) -> APIServer:
    """Start a server on a data directory and the store at an address. Raises CannotStart."""
    try:
        claim(directory)
        store = await open_store(address, directory, etcd_files)
    except (StoreError, OSError) as error:
        raise CannotStart(_sentence(error, str(directory))) from None
    try:
        endpoint = Endpoint(bind, port, advertise)
        return await _started(directory, store, gates, endpoint, shared, clock, audit, plugins)
    except (StoreError, CertificateError, TokenError, OSError) as error:
        await store.close()
        raise CannotStart(_sentence(error, f"{bind}:{port}")) from None


def _sentence(error: Exception, place: str) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    # What Python says of an address repeats the address; a name that is not resolved has a negative number.
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
    remedy = ": stop what listens there, or choose another port" if error.errno == errno.EADDRINUSE else ""
    return f"{place}: {reason}{remedy}"


class Endpoint(NamedTuple):
    """Where a server listens, and the address that it advertises, if any."""

    bind: str
    port: int
    advertise: str = ""

    def url(self, port: int) -> str:
        """Where clients reach the server; on this machine when it listens on all addresses and none is advertised."""
        host = self.advertise or {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.bind, self.bind)
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


async def _started(
    directory: Path,
    store: Store,
    gates: Gates,
    place: Endpoint,
    shared: SharedFiles,
    clock: Clock | None,
    audit: AuditSettings | None,
    plugins: frozenset[str],
) -> APIServer:
    own = credentials.prepare(directory, place.bind, place.advertise, shared)
    if remedy := exposed(directory):
        _LOG.warning("Permissions are too open", remedy=remedy)
    rbac = Rbac()
    index = AccessIndex(store, rbac)
    accounts = ServiceAccountTokens(own.signing_key, index.exists, others=own.verifying_keys)
    authenticator = Authenticator(Tokens(own.users), accounts, own.client_authorities)
    audit_log = AuditLog(audit) if audit else None
    app = App(store, gates, authenticator, accounts, rbac, clock, audit_log, plugins)
    server = Server(app.handle, app.authenticate, own.tls, place.bind, place.port, refused=app.refused)
    app.metrics.follow(server.control)
    await bootstrap(store)
    await index.start()
    file, admin = directory / KUBECONFIG, own.admin_token
    try:
        await server.start()
        url = place.url(server.port)
        _write_kubeconfig(file, certificates.kubeconfig(url, own.trusted.encode(), admin).encode())
    except OSError:
        await server.stop(0)
        await index.stop()
        raise
    _LOG.info("Serving securely", url=url, gates=str(gates))
    clock = clock or Clock()
    tasks = PeriodicTasks(clock)
    tasks.start("removing old events", Expiry(store, clock).look, _EXPIRY_SECONDS)
    tasks.start("looking for old objects", partial(name_old_objects, store, gates), _OLD_OBJECTS_SECONDS)
    tasks.start("keeping the service of the API server", partial(keep_own_service, store), _SERVICE_SECONDS)
    return APIServer(url, file, admin, own.trusted, store, server, index, tasks, app, audit_log)


def _write_kubeconfig(file: Path, content: bytes) -> None:
    """Write a kubeconfig, unless it is there. On a full disk that of an earlier start has to do."""
    if file.exists() and file.read_bytes() == content:
        return
    try:
        certificates.write_private(file, content)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not file.exists():
            raise
        _LOG.warning("Kubeconfig not written: it may name another address", file=file, err=error.strerror)
