"""The expiry of Events: one that was not updated for an hour is deleted, as in Kubernetes."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from moorage.api import kinds
from moorage.apiserver.base.objects import prefix
from moorage.client.clock import Clock
from moorage.store.protocol import Item, KeyMissing, RevisionConflict, Store

_EVENTS = prefix(kinds.row("v1", "Event"))
_KEPT_SECONDS = 3600.0
_AT_ONCE = 64


class Expiry:
    """Deletes old Events. Their age follows from the revisions that it notes over time, not from timestamps."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()
        """When which revision was the latest."""

    async def look(self) -> None:
        """Delete the Events that are too old by now."""
        now, old = self._clock.monotonic(), 0
        self._marks.append((now, await self._store.revision()))
        while self._marks[0][0] <= now - _KEPT_SECONDS:
            _, old = self._marks.popleft()
        if old:
            items = (await self._store.list(_EVENTS)).items
            expired = [item for item in items if item.revision <= old]
            for start in range(0, len(expired), _AT_ONCE):
                await asyncio.gather(*map(self._remove, expired[start : start + _AT_ONCE]))

    async def _remove(self, item: Item) -> None:
        # It may have been repeated at this moment, or removed by another server.
        with suppress(RevisionConflict, KeyMissing):
            await self._store.delete(item.key, item.revision)
