"""Watch: every change of some objects, in order, from a revision on."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

from moorage.apiserver.base.objects import decoded, prefix
from moorage.apiserver.describe.documents import not_acceptable
from moorage.apiserver.http.media import JSON, PLAIN, Form, prefers_yaml
from moorage.apiserver.http.messages import Reason, Refused, Request, Response, status
from moorage.apiserver.request.options import check_watch, flag, number, revision
from moorage.apiserver.request.routes import Route
from moorage.apiserver.request.selection import Selection, selection
from moorage.apiserver.verbs.read import ONE, body_of, form_of, formed, reached
from moorage.store.protocol import Batch, Change, Compacted, Item, Store, WatchEvent

_BOOKMARK_SECONDS = 60.0
_KEPT_LINES = 4096
_STREAM = (("Content-Type", "application/json"),)
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Watches:
    """Answers watches. What a change looks like to a plain watcher is worked out once for all of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lines: dict[int, bytes] = {}

    async def watch(self, route: Route, request: Request) -> Response:
        """A stream of changes; Refused when the revision to start after is too old."""
        if prefers_yaml(request.headers.get("accept")):
            raise Refused(not_acceptable(JSON))
        wanted = form_of(request, *ONE)
        chosen = selection(route, request)
        check_watch(request)
        initial = flag(request, "sendInitialEvents")
        after = revision(request)
        begin = initial or ("sendInitialEvents" not in request.query and not after)
        if initial:
            await reached(self._store, after)
        items: list[Item] = []
        if begin or after == 0:
            page = await self._store.list(prefix(route.kind, route.namespace))
            items, after = (page.items if begin else []), page.revision
        watcher = _Watcher(self, route, request, chosen, wanted)
        return Response(200, headers=_STREAM, stream=watcher.lines(items, after, told=initial))

    def line(self, event: WatchEvent) -> bytes:
        """A change as a plain watcher gets it."""
        line = self._lines.get(event.revision)
        if line is None:
            if len(self._lines) >= _KEPT_LINES:
                self._lines.clear()
            line = _line(event.change.value, event.item.body)
            self._lines[event.revision] = line
        return line

    @property
    def store(self) -> Store:
        """Where the changes happen."""
        return self._store


def _line(change: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (change.encode(), body)


class _Watcher:
    def __init__(self, watches: Watches, route: Route, request: Request, chosen: Selection, wanted: Form) -> None:
        self._watches = watches
        self._route = route
        self._request = request
        self._matches = chosen.matches
        self._wanted = wanted
        self._first = True
        """Whether nothing was sent yet: only the first table has the heads of its columns."""
        self._plain = wanted == PLAIN and route.kind.group != "events.k8s.io"
        self._bookmarks = flag(request, "allowWatchBookmarks")
        self._seconds = number(request, "timeoutSeconds") or random.uniform(1800, 3600)

    async def lines(self, items: list[Item], after: int, *, told: bool) -> AsyncIterator[bytes]:
        """What is there, then what happens, until the time is up."""
        begun = [self._shown(Change.ADDED, item) for item in items if self._selects(item)]
        if told and self._bookmarks:
            begun.append(self._bookmark(after, {_INITIAL_EVENTS_END: "true"}))
        if begun:
            yield b"".join(begun)
        end = time.monotonic() + self._seconds
        marked = time.monotonic()
        waiting: asyncio.Future[Batch] | None = None
        try:
            async with self._watches.store.watch(prefix(self._route.kind, self._route.namespace), after) as batches:
                following = aiter(batches)
                while (left := end - time.monotonic()) > 0:
                    # The same wait goes on after a bookmark: to cancel it would end the watch.
                    waiting = waiting or asyncio.ensure_future(anext(following))
                    done, _ = await asyncio.wait({waiting}, timeout=min(left, _BOOKMARK_SECONDS))
                    if done:
                        batch, waiting = waiting.result(), None
                        after = batch.revision
                        if told_now := b"".join(filter(None, map(self._told, batch))):
                            yield told_now
                    if self._bookmarks and time.monotonic() - marked >= _BOOKMARK_SECONDS:
                        marked = time.monotonic()
                        yield self._bookmark(after)
        except StopAsyncIteration:
            return
        except Compacted:
            gone = status(410, Reason.EXPIRED, f"too old resource version: {after}")
            assert isinstance(gone.body, bytes)
            yield _line("ERROR", gone.body.rstrip())
        finally:
            if waiting is not None:
                waiting.cancel()

    def _selects(self, item: Item) -> bool:
        return self._matches is None or self._matches(decoded(item))

    def _told(self, event: WatchEvent) -> bytes:
        """A change as this watcher sees it: an object that ceases to be selected is as good as deleted."""
        if self._matches is None:
            return self._watches.line(event) if self._plain else self._shown(event.change, event.item)
        now = event.change is not Change.DELETED and self._selects(event.item)
        before = event.previous is not None and self._selects(event.previous)
        if now:
            return self._shown(Change.MODIFIED if before else Change.ADDED, event.item)
        return self._shown(Change.DELETED, event.item) if before else b""

    def _shown(self, change: Change, item: Item) -> bytes:
        if self._plain:
            return _line(change.value, item.body)
        body = body_of(self._route, item, self._wanted, self._request, headers=self._first)
        self._first = False
        return _line(change.value, body)

    def _bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        kind = self._route.kind
        data = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        body = formed(kind, data, str(revision), self._wanted, self._request, headers=self._first)
        self._first = False
        return _line("BOOKMARK", body)
