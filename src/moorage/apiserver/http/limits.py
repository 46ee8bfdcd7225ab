"""How much one client may ask of the server: sizes, times and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from moorage.apiserver.http.messages import Request


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one server. Sizes are bytes, times are seconds."""

    body_size: int = 3 << 20
    header_size: int = 64 << 10
    """The request line and all headers together."""
    header_count: int = 100
    connections: int = 10_000
    reads: int = 400
    writes: int = 200
    watches: int = 10_000
    handshake_time: float = 10
    header_time: float = 10
    body_time: float = 30
    request_time: float = 60
    """How long a handler may take until it returns its response; a stream has no limit after that."""
    stall_time: float = 60
    """How long a client may leave its responses unread."""
    idle_time: float = 120
    """Longer than the 90 s of Go's clients, so that they never send on a connection that is being closed."""
    linger_time: float = 1
    """How long a refused client may go on sending: closing at once could reset the connection under the response."""


class Lane(Enum):
    """The kinds of requests that have a limit each."""

    READ = "read-only"
    WRITE = "mutating"
    WATCH = "watch"


_READS = frozenset(("GET", "HEAD", "OPTIONS"))


def lane(request: Request) -> Lane:
    """The limit that a request counts against."""
    if request.method not in _READS:
        return Lane.WRITE
    return Lane.WATCH if request.watching else Lane.READ


class InFlight:
    """How many requests of each kind are being served."""

    __slots__ = ("counts", "refused", "rooms")

    def __init__(self, limits: Limits) -> None:
        self.rooms = {Lane.READ: limits.reads, Lane.WRITE: limits.writes, Lane.WATCH: limits.watches}
        self.counts = dict.fromkeys(Lane, 0)
        self.refused = dict.fromkeys(Lane, 0)

    def enter(self, lane: Lane) -> bool:
        """Count one more, if there is room."""
        if self.counts[lane] >= self.rooms[lane]:
            self.refused[lane] += 1
            return False
        self.counts[lane] += 1
        return True

    def leave(self, lane: Lane) -> None:
        """Count one less."""
        self.counts[lane] -= 1
