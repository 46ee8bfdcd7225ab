"""Who may use the page: tokens that are exchanged once for a secret, which a page sends with every request."""

from __future__ import annotations

import secrets
from collections import OrderedDict

TOKENS_MAX = 16
"""How many tokens wait to be exchanged; the oldest makes room for a new one."""
SESSIONS_MAX = 256
"""How many pages are open; the one that was opened first makes room for a new one."""


class Sessions:
    """The tokens in addresses that were printed, and the secrets of the pages that are open.

    No cookie: cookies do not know ports, and every other program's page on this machine is the same site.
    """

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, None] = OrderedDict()
        self._secrets: OrderedDict[str, None] = OrderedDict()

    def token(self) -> str:
        """A new token, which one page may exchange."""
        return _add(self._tokens, TOKENS_MAX)

    def exchange(self, token: str) -> str | None:
        """The secret of a new page; None when the token was exchanged already, or never was one."""
        if not _forget(self._tokens, token):
            return None
        return _add(self._secrets, SESSIONS_MAX)

    def knows(self, secret: str) -> bool:
        """Whether a request comes from a page that is open."""
        return _find(self._secrets, secret) is not None


def _add(kept: OrderedDict[str, None], most: int) -> str:
    new = secrets.token_urlsafe(32)
    kept[new] = None
    while len(kept) > most:
        kept.popitem(last=False)
    return new


def _find(kept: OrderedDict[str, None], given: str) -> str | None:
    """The text itself, compared in constant time with each that is kept."""
    wanted = given.encode(errors="replace")
    return next((each for each in kept if secrets.compare_digest(each.encode(), wanted)), None)


def _forget(kept: OrderedDict[str, None], given: str) -> bool:
    found = _find(kept, given)
    if found is not None:
        del kept[found]
    return found is not None
