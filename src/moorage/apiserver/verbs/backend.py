"""What every verb works on: the store, the rules of admission, users and their rights, the clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from weakref import WeakValueDictionary

from moorage.apiserver.access.accounttokens import ServiceAccountTokens
from moorage.apiserver.access.authentication import Authenticator
from moorage.apiserver.access.rbac import Rbac
from moorage.apiserver.base.offload import FLOW
from moorage.apiserver.base.recipes import Recipes
from moorage.apiserver.base.shares import Seats
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs.admission import Admission
from moorage.apiserver.verbs.stencils import Stencils
from moorage.client.clock import Clock, timestamp
from moorage.store.protocol import Store

_LISTS = 4
"""How many times all objects of a kind are read before others are served."""
_NEVER, _SECOND = datetime.min.replace(tzinfo=UTC), timedelta(seconds=1)


@dataclass(slots=True, kw_only=True)
class Backend:
    """The parts of one API server that its verbs share."""

    store: Store
    admission: Admission
    authenticator: Authenticator
    accounts: ServiceAccountTokens
    rbac: Rbac
    clock: Clock
    metrics: Callable[[], Awaitable[bytes]]
    """All metrics of the server in Prometheus' text form."""
    stencils: Stencils = field(default_factory=Stencils)
    recipes: Recipes = field(default_factory=Recipes)
    charging: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """By namespace: held by the one write that is being charged to its quotas."""
    lists: Seats = field(default_factory=lambda: Seats(_LISTS, 1_000_000))
    _second: tuple[datetime, datetime, str] = (_NEVER, _NEVER, "")
    """The second that was spelt last: when it begins, when it ends, and as objects have it."""

    @asynccontextmanager
    async def list_turn(self) -> AsyncIterator[None]:
        """A turn of reading all objects of a kind: users take turns, and after some of them others are served."""
        async with self.lists.turn(FLOW.get()):
            yield
            await asyncio.sleep(0)

    def now(self) -> datetime:
        """The time, in whole seconds as objects have it."""
        return self.clock.now().replace(microsecond=0)

    def timestamp(self) -> str:
        """The same as objects spell it."""
        begin, end, text = self._second
        now = self.clock.now()
        if not begin <= now < end:
            begin = now.replace(microsecond=0)
            text = timestamp(begin)
            self._second = begin, begin + _SECOND, text
        return text


RouteHandler = Callable[[Backend, Route, Request], Awaitable[Response]]
"""Answers the requests of a route. A request that it does not take raises Refused."""
