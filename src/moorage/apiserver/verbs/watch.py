"""Watch: every change of some objects, in order, from a revision on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

from moorage.apiserver.base.objects import decoded, prefix
from moorage.apiserver.base.pacing import in_round
from moorage.apiserver.describe.documents import not_acceptable
from moorage.apiserver.http.media import JSON, PLAIN, Form, prefers_yaml
from moorage.apiserver.http.messages import Reason, Refused, Request, Response, status
from moorage.apiserver.request.options import check_watch, flag, number, revision
from moorage.apiserver.request.routes import Route
from moorage.apiserver.request.selection import Selection, selection
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.read import ONE, body_of, convert_out, form_of, formed, reached
from moorage.pace import SLICES
from moorage.store.protocol import Change, Compacted, Item, Watch, WatchEvent

_BOOKMARK_SECONDS, _SOON = 60.0, 0.001
_PIECE = 64 << 10
"""About how many bytes of initial events are sent at a time."""
_AT_ONCE = 0.001
"""For how many seconds a watcher works before it waits for its turn."""
_STREAM = (("Content-Type", "application/json"),)
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


async def watch(backend: Backend, route: Route, request: Request) -> Response:
    """A stream of changes; Refused when the revision to start after is too old."""
    if prefers_yaml(request.headers.get("accept")):
        raise Refused(not_acceptable(JSON))
    form = form_of(request, *ONE)
    selected = selection(route, request)
    check_watch(request)
    initial = flag(request, "sendInitialEvents")
    after = revision(request)
    begin = initial or ("sendInitialEvents" not in request.query and not after)
    if initial:
        await reached(backend.store, after)
    items: list[Item] = []
    if begin or after == 0:
        async with backend.list_turn():
            page = await backend.store.list(prefix(route.kind, route.namespace))
        items, after = (page.items if begin else []), page.revision
    watcher = _Watcher(backend, route, request, selected, form)
    return Response(200, headers=_STREAM, stream=watcher.lines(items, after, mark_end=initial))


def _plain_line(event: WatchEvent) -> bytes:
    return _line(event.change.value, event.item.body)


def _line(change: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (change.encode(), body)


def _piece(lines: Iterator[bytes]) -> tuple[bytes, bool]:
    """Some lines, and whether there may be more."""
    piece: list[bytes] = []
    clock = SLICES.get()
    size, end = 0, clock() + _AT_ONCE
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= _PIECE or clock() >= end:
            return b"".join(piece), True
    return b"".join(piece), False


def _length(made: tuple[bytes, bool]) -> int:
    return len(made[0])


class _Reminder:
    """Lets a watch that waits for changes look at the time: now and then for a bookmark, and at its end."""

    def __init__(self, changes: Watch, end: float) -> None:
        self._changes = changes
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._set()

    def _set(self) -> None:
        left = min(max(self._end - self._loop.time(), _SOON), _BOOKMARK_SECONDS)
        self._timer = self._loop.call_later(left, self._look)

    def _look(self) -> None:
        self._changes.report()
        if self._loop.time() < self._end:
            self._set()

    def cancel(self) -> None:
        """The watch has ended."""
        self._timer.cancel()


class _Watcher:
    def __init__(self, backend: Backend, route: Route, request: Request, selected: Selection, form: Form) -> None:
        self._backend = backend
        self._route = route
        self._request = request
        self._matches = selected.matches
        self._form = form
        self._first = True
        """Whether nothing was sent yet: only the first table has column definitions."""
        self._plain = form == PLAIN and convert_out(route) is None
        self._bookmarks = flag(request, "allowWatchBookmarks")
        self._seconds = number(request, "timeoutSeconds") or random.uniform(1800, 3600)

    async def lines(self, items: list[Item], after: int, *, mark_end: bool) -> AsyncIterator[bytes]:
        """The objects that are there, then the changes, until the time is up."""
        async for piece in self._initial(items, after if mark_end and self._bookmarks else 0):
            yield piece
        items.clear()
        loop = asyncio.get_running_loop()
        marked = loop.time()
        end = marked + self._seconds
        shared = self._plain and self._matches is None
        reminder: _Reminder | None = None
        try:
            async with self._backend.store.watch(prefix(self._route.kind, self._route.namespace), after) as changes:
                reminder = _Reminder(changes, end)
                async for batch in changes:
                    after = batch.revision
                    if shared:
                        if batch:
                            yield await in_round(partial(batch.text, _plain_line), len)
                    else:
                        async for piece in self._pieces(map(self._event_line, batch)):
                            yield piece
                    now = loop.time()
                    if self._bookmarks and now - marked >= _BOOKMARK_SECONDS:
                        marked = now
                        yield self._bookmark(after)
                    if now >= end:
                        return
        except Compacted:
            gone = status(410, Reason.EXPIRED, f"too old resource version: {after}")
            assert isinstance(gone.body, bytes)
            yield _line("ERROR", gone.body.rstrip())
        finally:
            if reminder is not None:
                reminder.cancel()

    async def _initial(self, items: list[Item], mark: int) -> AsyncIterator[bytes]:
        """The objects that are there in pieces, which are made while they are sent."""
        async for piece in self._pieces(self._first_lines(items, mark)):
            yield piece

    def _first_lines(self, items: list[Item], mark: int) -> Iterator[bytes]:
        for item in items:
            yield self._line(Change.ADDED, item) if self._selects(item) else b""
        if mark:
            yield self._bookmark(mark, {_INITIAL_EVENTS_END: "true"})

    async def _pieces(self, lines: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Lines that are costly to make, together where they are short; others are served meanwhile."""
        more = True
        while more:
            piece, more = await in_round(lambda: _piece(lines), _length)
            if piece:
                yield piece

    def _selects(self, item: Item) -> bool:
        return self._matches is None or self._matches(decoded(item))

    def _event_line(self, event: WatchEvent) -> bytes:
        """A change as this watcher sees it: an object that is no longer selected counts as deleted."""
        if self._matches is None:
            return self._line(event.change, event.item)
        now = event.change is not Change.DELETED and self._selects(event.item)
        before = event.previous is not None and self._selects(event.previous)
        if now:
            return self._line(Change.MODIFIED if before else Change.ADDED, event.item)
        return self._line(Change.DELETED, event.item) if before else b""

    def _line(self, change: Change, item: Item) -> bytes:
        if self._plain:
            return _line(change.value, item.body)
        body = body_of(self._route, item, self._form, self._request, headers=self._first)
        self._first = False
        return _line(change.value, body)

    def _bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        kind = self._route.kind
        data = {"kind": kind.kind, "apiVersion": self._route.api_version, "metadata": metadata}
        body = formed(kind, data, str(revision), self._form, self._request, headers=self._first)
        self._first = False
        return _line("BOOKMARK", body)
