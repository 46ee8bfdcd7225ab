"""Who is served next: priority levels with a share of the seats each, and in a level the users in turn."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.apiserver.base.flows import Flow, PriorityLevel
from moorage.apiserver.base.shares import Seats, Shared, TooMany
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.messages import Reason, Response, status

SHARES: Mapping[PriorityLevel, int] = {
    PriorityLevel.SYSTEM: 30,
    PriorityLevel.WORKLOAD: 65,
    PriorityLevel.CATCH_ALL: 5,
}
"""How many of a hundred seats each level has."""


class FlowControl:
    """What the connections of one server share."""

    def __init__(self, limits: Limits) -> None:
        self.levels = {
            level: Seats(max(1, limits.seats * share // 100), limits.queued) for level, share in SHARES.items()
        }
        self.exempt = 0
        """How many exempt requests are being served."""
        self.streams = 0
        """How many streams are being sent."""
        self.watches = Shared(limits.watches)
        self.memory = Shared(limits.memory)

    @property
    def executing(self) -> dict[PriorityLevel, int]:
        """How many requests are being served, watches not counted."""
        counts = {level: seats.seats.used for level, seats in self.levels.items()}
        return {PriorityLevel.EXEMPT: self.exempt, **counts}


class Place:
    """What a request occupies: nothing, a seat, or, once it is a stream, one of the watches of its user."""

    __slots__ = ("_control", "_flow", "_seated", "_watching")

    def __init__(self, control: FlowControl, flow: Flow) -> None:
        self._control = control
        self._flow = flow
        self._seated = self._watching = False

    def enter(self) -> bool:
        """Take a seat at once, if there is one for this user."""
        level, user = self._flow
        if level is PriorityLevel.EXEMPT:
            self._control.exempt += 1
            self._seated = True
        else:
            self._seated = self._control.levels[level].take(user)
        return self._seated

    async def wait(self) -> bool:
        """Take a seat when it is this user's turn; False when too many of theirs are waiting."""
        try:
            await self._control.levels[self._flow.level].wait(self._flow.user)
        except TooMany:
            return False
        self._seated = True
        return True

    def watch(self) -> bool:
        """Leave the seat and become a watch; False when this user has too many of them."""
        self._rise()
        self._watching = self._flow.exempt or self._control.watches.take(self._flow.user)
        self._control.streams += self._watching
        return self._watching

    def leave(self) -> None:
        """Give everything back."""
        self._rise()
        if self._watching:
            self._watching = False
            self._control.streams -= 1
            if not self._flow.exempt:
                self._control.watches.give_back(self._flow.user)

    def _rise(self) -> None:
        if self._seated:
            self._seated = False
            if self._flow.exempt:
                self._control.exempt -= 1
            else:
                self._control.levels[self._flow.level].leave(self._flow.user)


def too_many_requests(what: str) -> Response:
    """Status 429, which says of what there is too much."""
    message = f"Too many requests, please try again later: {what}"
    return status(429, Reason.TOO_MANY_REQUESTS, message, {"retryAfterSeconds": 1})
