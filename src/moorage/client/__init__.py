"""How components meet: one client, in the same process or over HTTPS, and what is built on it."""

from moorage.client.client import Client
from moorage.client.errors import (
    ApiError,
    Conflict,
    Exists,
    Expired,
    Forbidden,
    Invalid,
    Missing,
    TooManyRequests,
    Unavailable,
)
from moorage.client.informer import Informer, Informers

__all__ = [
    "ApiError",
    "Client",
    "Conflict",
    "Exists",
    "Expired",
    "Forbidden",
    "Informer",
    "Informers",
    "Invalid",
    "Missing",
    "TooManyRequests",
    "Unavailable",
]
