"""What every namespace is given: its default service account, and the certificate by which pods know the server."""

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


class _Given(Controller):
    """Sees to it that each namespace has an object. Keys are namespaces."""

    kind: Kind
    given: str

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._namespaces = context.informers.of(Namespace)
        self._namespaces.on_change(lambda _, new: self.enqueue(new) if new is not None else None)
        self._objects = context.informers.kind(self.kind)
        self._objects.on_change(self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        item = new or old
        assert item is not None
        if item.metadata.name == self.given and (new is None or old is not None):
            self.queue.add(("", item.metadata.namespace))

    async def reconcile(self, key: Key) -> None:
        """Create what is missing; a namespace that ends gets nothing any more."""
        namespace = self._namespaces.get(*key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return
        if (found := self._objects.get(namespace.metadata.name, self.given)) is not None:
            await self.refresh(found)
            return
        try:
            await self.client.create(self.kind, self.content(), namespace.metadata.name)
        except (Exists, Missing):
            return
        except Forbidden:
            with suppress(Missing):
                now = msgspec.json.decode(await self.client.get(kinds.of(namespace), *key), type=Namespace)
                if now.metadata.deletion_timestamp is None:
                    raise

    def content(self) -> Data:
        """The object."""
        return {"metadata": {"name": self.given}}

    async def refresh(self, found: Object) -> None:
        """Correct an object that is there."""


class ServiceAccounts(_Given):
    """Gives each namespace the service account that pods have when they name none."""

    name = "serviceaccount"
    kind = kinds.row("v1", "ServiceAccount")
    given = DEFAULT_ACCOUNT


class RootCA(_Given):
    """Gives each namespace the certificate of the authority that signed the server's own."""

    name = "root-ca-certificate-publisher"
    kind = kinds.row("v1", "ConfigMap")
    given = ROOT_CA

    def __init__(self, context: Context, certificate: str) -> None:
        super().__init__(context)
        self._certificate = certificate

    def content(self) -> Data:
        """The config map."""
        return {"metadata": {"name": ROOT_CA}, "data": {"ca.crt": self._certificate}}

    async def refresh(self, found: Object) -> None:
        """Put the certificate back when somebody changed it, or when it is another one since."""
        metadata = found.metadata
        with suppress(Missing):
            data = msgspec.json.decode(await self.client.get(self.kind, metadata.namespace, metadata.name))
            if data.get("data") != {"ca.crt": self._certificate}:
                await self.client.update(self.kind, {**data, "data": {"ca.crt": self._certificate}})


def root_ca(certificate: str) -> Callable[[Context], Controller]:
    """What makes the controller that hands out a certificate."""
    return lambda context: RootCA(context, certificate)
