"""DefaultBinder: binds pods through the API."""

from __future__ import annotations

from moorage.scheduler.framework import Cycle, Plugin


class DefaultBinder(Plugin):
    """Creates the Binding."""

    name = "DefaultBinder"

    async def bind(self, cycle: Cycle, node: str) -> None:
        """Bind the pod of this uid."""
        namespace, name = cycle.pod.key
        await self.handle.client.bind(namespace, name, cycle.pod.uid, node)
