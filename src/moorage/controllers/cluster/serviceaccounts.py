"""Objects of every namespace: the default service account, and the root certificate of the API server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from moorage.api import kinds
from moorage.api.cluster import Namespace
from moorage.api.kinds import Kind
from moorage.api.meta import Data, Object
from moorage.client import Exists, Forbidden, Missing
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller

DEFAULT_ACCOUNT, ROOT_CA = "default", "kube-root-ca.crt"


class _ObjectPerNamespace(Controller):
    """Creates an object in each namespace. Keys are namespaces."""

    kind: Kind
    object_name: str

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._namespaces = context.informers.of(Namespace)
        self._namespaces.on_change(lambda _, new: self.enqueue(new) if new is not None else None)
        self._objects = context.informers.kind(self.kind)
        self._objects.on_change(self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        item = new or old
        assert item is not None
        if item.metadata.name == self.object_name and (new is None or old is not None):
            self.queue.add(("", item.metadata.namespace))

    async def reconcile(self, key: Key) -> None:
        """Create the object if it is missing, unless the namespace is terminating."""
        namespace = self._namespaces.get(*key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return
        if (item := self._objects.get(namespace.metadata.name, self.object_name)) is not None:
            await self.refresh(item)
            return
        try:
            await self.client.create(self.kind, self.content(), namespace.metadata.name)
        except (Exists, Missing):
            return
        except Forbidden:
            with suppress(Missing):
                current = msgspec.json.decode(await self.client.get(kinds.of(namespace), *key), type=Namespace)
                if current.metadata.deletion_timestamp is None:
                    raise

    def content(self) -> Data:
        """The object."""
        return {"metadata": {"name": self.object_name}}

    async def refresh(self, item: Object) -> None:
        """Correct an object that is there."""


class ServiceAccounts(_ObjectPerNamespace):
    """Gives each namespace the service account that pods have when they name none."""

    name = "serviceaccount"
    kind = kinds.row("v1", "ServiceAccount")
    object_name = DEFAULT_ACCOUNT


class RootCA(_ObjectPerNamespace):
    """Gives each namespace the certificate of the authority that signed the server's own."""

    name = "root-ca-certificate-publisher"
    kind = kinds.row("v1", "ConfigMap")
    object_name = ROOT_CA

    def __init__(self, context: Context, certificate: str) -> None:
        super().__init__(context)
        self._certificate = certificate

    def content(self) -> Data:
        """The config map."""
        return {"metadata": {"name": ROOT_CA}, "data": {"ca.crt": self._certificate}}

    async def refresh(self, item: Object) -> None:
        """Write the certificate when somebody changed it, or when it is a new one."""
        metadata = item.metadata
        with suppress(Missing):
            data = msgspec.json.decode(await self.client.get(self.kind, metadata.namespace, metadata.name))
            if data.get("data") != {"ca.crt": self._certificate}:
                await self.client.update(self.kind, {**data, "data": {"ca.crt": self._certificate}})


def root_ca(certificate: str) -> Callable[[Context], Controller]:
    """A constructor of the controller that publishes a certificate."""
    return lambda context: RootCA(context, certificate)
