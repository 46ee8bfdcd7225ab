"""Objects from before the rules became stricter: they are kept, and named once after the start of a newer server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from moorage.api import kinds
from moorage.api.decode import DecodeError
from moorage.api.kinds import Kind
from moorage.apiserver.base.objects import decode, encode, prefix
from moorage.features import Gates
from moorage.logs import Log
from moorage.registry.judge import RULES, stored_errors
from moorage.registry.table import strategy_of
from moorage.store.protocol import Item, KeyExists, KeyMissing, RevisionConflict, Store

_LOG = Log(__name__)
_SEEN = "/moorage/rules"
"""Where the store says by which edition of the rules its objects were looked at."""
_AT_ONCE = 200
_MOST = 20
_Wrong = tuple[str, tuple[str, str], str]
"""An object that would be refused: its kind, its namespace and name, and why."""


async def name_old_objects(store: Store, gates: Gates) -> None:
    """Look at all objects once for each edition of the rules, and log those that would be refused today."""
    seen = await store.get(_SEEN)
    if seen is not None and decode(seen).get("rules") == RULES:
        return
    found = [wrong for kind in kinds.KINDS for wrong in await _problems(store, kind, gates)]
    if found:
        _LOG.warning(
            "Stored objects would be refused today. They stay and can be changed elsewhere; correct these fields when "
            "you change them next",
            count=len(found),
        )
    for kind, place, error in found[:_MOST]:
        _LOG.warning("Stored object would be refused today", kind=kind, object=place, err=error)
    value = encode({"metadata": {}, "rules": RULES})
    with suppress(KeyExists, KeyMissing, RevisionConflict):  # another server may have been faster
        await (store.update(_SEEN, value, seen.revision) if seen else store.create(_SEEN, value))


async def _problems(store: Store, kind: Kind, gates: Gates) -> list[_Wrong]:
    """What is wrong with the objects of a kind, one line for each; looked at in a thread, a page at a time."""
    found, after, remaining = list[_Wrong](), "", 1
    while remaining:
        page = await store.list(prefix(kind), limit=_AT_ONCE, after=after)
        found += await asyncio.to_thread(_wrong, kind, page.items, gates)
        after, remaining = page.items[-1].key if page.items else "", page.remaining
    return found


def _wrong(kind: Kind, items: Sequence[Item], gates: Gates) -> list[_Wrong]:
    found, strategy = [], strategy_of(kind)
    for item in items:
        data = decode(item)
        strategy.defaults(data, data["metadata"].get("creationTimestamp", ""))
        try:
            errors = [str(error).partition("\n")[0] for error in stored_errors(strategy, data, gates)]
        except DecodeError as error:
            errors = [str(error)]
        if errors:
            place = data["metadata"].get("namespace", ""), data["metadata"]["name"]
            found.append((kind.kind, place, "; ".join(errors)))
    return found
