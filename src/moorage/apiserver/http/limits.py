"""How much clients may ask of the server: sizes, times and numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one server. Sizes are bytes, times are seconds."""

    body_size: int = 3 << 20
    header_size: int = 64 << 10
    """The request line and all headers together."""
    header_count: int = 100
    connections: int = 10_000
    strangers: int = 1_000
    """How many clients may be connected that have not said yet who they are; the oldest makes room for a new one."""
    watches: int = 10_000
    seats: int = 240
    """How many requests are served at the same time, not counting exempt ones and watches."""
    queued: int = 1_000
    """How many requests of each priority level may wait for a seat."""
    memory: int = 128 << 20
    """What all connections together may hold: requests that are received or served, and responses that are unread."""
    handshake_time: float = 10
    header_time: float = 10
    body_time: float = 30
    queue_time: float = 15
    """How long a request may wait for a seat."""
    request_time: float = 60
    """How long a handler may take until it returns its response; a stream has no limit after that."""
    stall_time: float = 60
    """How long a client may leave its responses unread."""
    idle_time: float = 120
    """Longer than the 90 s of Go's clients, so that they never send on a connection that is being closed."""
    linger_time: float = 1
    """How long a refused client may go on sending: closing at once could reset the connection under the response."""
    retry_time: float = 1
    """How long nothing is read from a client that was told to come again later."""
