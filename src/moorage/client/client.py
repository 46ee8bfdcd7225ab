"""The client of the API: objects by kind, namespace and name."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.client import errors
from moorage.client.transport import Transport

MERGE, STRATEGIC, JSON_PATCH = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
)
_APPLY = "application/apply-patch+yaml"
_PODS = kinds.row("v1", "Pod")
_Read = TypeVar("_Read")
_PAGE_SIZE = 5000
MAX_LINE = 8 << 20
"""How many bytes an event of a watch may have: twice as many as the largest object."""
_LONGEST_SPACE, _SHOWN = 100, 80
_PLAIN = re.compile(r"[-.a-z0-9]+", re.ASCII)
"""A name that needs no quoting in a path."""


class Listing(NamedTuple):
    """Objects as they were at one revision."""

    items: list[msgspec.Raw]
    revision: str


class _EventLine(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class ObjectEvent:
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

    __slots__ = ("_decoded", "_reader", "object", "type")

    def __init__(self, line: _EventLine) -> None:
        self.type = line.type
        self.object = line.object
        self._reader: Callable[[msgspec.Raw], Any] | None = None
        self._decoded: Any = None

    def decoded(self, reader: Callable[[msgspec.Raw], _Read]) -> _Read:
        """The object as a reader decodes it, the same one for all watches in this process that use this reader."""
        if self._reader is not reader:
            self._decoded = reader(self.object)
            self._reader = reader
        decoded: _Read = self._decoded
        return decoded


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_encode = msgspec.json.Encoder().encode
_read_list = msgspec.json.Decoder(_List).decode
_read_line = msgspec.json.Decoder(_EventLine).decode
_SHARED = 1 << 20
_LATEST: deque[tuple[bytes, Sequence[ObjectEvent]]] = deque(maxlen=8)
"""The last chunks that watches in this process have read. Those on our own server get the same chunks, one by one."""


def path(kind: Kind, namespace: str = "", name: str = "", subresource: str = "", version: str = "") -> str:
    """The path of the objects of a kind, or of one of them, or of a subresource of it."""
    where = _collection(kind.group, version or kind.version, kind.plural, namespace if kind.namespaced else "")
    if name:
        where += "/" + (name if _PLAIN.fullmatch(name) else quote(name, safe=":"))
    return f"{where}/{subresource}" if subresource else where


@lru_cache(maxsize=1024)
def _collection(group: str, version: str, plural: str, namespace: str) -> str:
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{f'/apis/{group}' if group else '/api'}/{version}{within}/{plural}"


class Client:
    """Reads and writes objects. Bodies are JSON; answers are returned as bytes, for callers to decode what they need.

    Every method raises an ApiError of `client.errors`.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        """What carries the requests."""
        self.page_size = _PAGE_SIZE
        """How many objects of a list are asked for at once."""
        self.absent: set[str] = set()
        """The resources that are taken for empty, so that it is said once, whoever follows them."""
        self._versions: dict[str, str] = {}
        """The versions in which the server has kinds, where they differ from ours."""

    async def get(self, kind: Kind, namespace: str, name: str) -> bytes:
        """An object."""
        return await self._request("GET", self._path(kind, namespace, name))

    async def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        """All objects of a kind (in a namespace), as of one revision."""
        items: list[msgspec.Raw] = []
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(self.page_size)}
        while True:
            try:
                body = await self._page(kind, namespace, query)
            except errors.Expired:
                if "continue" not in query:
                    raise
                # The pages took longer than their revision is remembered: one page has no such trouble.
                items, query["limit"], query["continue"] = [], "", ""
                continue
            page = _read(_read_list, body)
            items += page.items or ()
            if not page.metadata.continue_:
                return Listing(items, page.metadata.resource_version)
            query["continue"] = page.metadata.continue_

    async def page(
        self, kind: Kind, namespace: str = "", *, limit: int, continue_: str = "", version: str = "", fields: str = ""
    ) -> bytes:
        """A page of the objects of a kind, as the server answers it. Raises Expired when `continue_` is too old.

        An older version of the kind is asked for by its name, and answered as it is.
        """
        query = {"limit": str(limit), "continue": continue_, "fieldSelector": fields}
        if version:
            return await self._request("GET", _target(path(kind, namespace, version=version), query))
        return await self._page(kind, namespace, query)

    async def _page(self, kind: Kind, namespace: str, query: Mapping[str, str]) -> bytes:
        while True:
            try:
                return await self._request("GET", _target(self._path(kind, namespace), query))
            except errors.Missing:
                if not self._try_next_version(kind):
                    raise

    async def watch(
        self, kind: Kind, namespace: str = "", *, after: str, fields: str = ""
    ) -> AsyncGenerator[Sequence[ObjectEvent], None]:
        """The events after a revision, in batches as they arrive, until the server ends the watch. Raises Expired."""
        query = {
            "watch": "true", "resourceVersion": after, "allowWatchBookmarks": "true", "fieldSelector": fields,
        }  # fmt: skip
        async with (
            self.transport.stream(_target(self._path(kind, namespace), query)) as chunks,
            aclosing(_whole_lines(chunks)) as batches,
        ):
            async for text in batches:
                batch = _events_of(text)
                for number, event in enumerate(batch):
                    if event.type == "ERROR":
                        if number:
                            yield batch[:number]
                        status = _read(errors.read_status, bytes(event.object))
                        raise errors.of(status.code, bytes(event.object))
                if batch:
                    yield batch

    async def create(self, kind: Kind, data: Mapping[str, Any], namespace: str = "") -> bytes:
        """Create an object; apiVersion and kind are filled in."""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **data}
        return await self._request("POST", path(kind, namespace), _encode(body))

    async def update(self, kind: Kind, data: Mapping[str, Any], *, subresource: str = "") -> bytes:
        """Replace an object (or its status); its resourceVersion, when given, must still be the current one."""
        metadata = data["metadata"]
        where = self._path(kind, metadata.get("namespace", ""), metadata["name"], subresource)
        return await self._request("PUT", where, _encode(data))

    async def patch(
        self, kind: Kind, namespace: str, name: str, patch: Any, *, subresource: str = "", form: str = MERGE
    ) -> bytes:
        """Change a part of an object, or of its subresource."""
        return await self._request("PATCH", self._path(kind, namespace, name, subresource), _encode(patch), form)

    async def apply(
        self, kind: Kind, data: Mapping[str, Any], manager: str, *, force: bool = False, dry_run: bool = False
    ) -> bytes:
        """Server-side apply: what a manager wants of an object. Raises Conflict with its causes unless forced."""
        metadata = data["metadata"]
        query = {
            "fieldManager": manager, "fieldValidation": "Strict",
            "force": "true" if force else "", "dryRun": "All" if dry_run else "",
        }  # fmt: skip
        where = self._path(kind, metadata.get("namespace", ""), metadata["name"])
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **data}
        return await self._request("PATCH", _target(where, query), _encode(body), _APPLY)

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace: int | None = None,
        propagation: str = "",
        revision: str = "",
    ) -> bytes:
        """Delete an object; raises Conflict when a uid or revision is given and the object has another by now."""
        options: Data = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions := _without_empty({"uid": uid, "resourceVersion": revision}):
            options["preconditions"] = preconditions
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if propagation:
            options["propagationPolicy"] = propagation
        return await self._request("DELETE", self._path(kind, namespace, name), _encode(options))

    async def post(self, kind: Kind, namespace: str, name: str, subresource: str, data: Mapping[str, Any]) -> bytes:
        """Post to a subresource of an object: a binding, an eviction, a token request."""
        return await self._request("POST", self._path(kind, namespace, name, subresource), _encode(data))

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Assign a pod to a node. Raises Conflict when it is assigned already, or was replaced by another pod."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.post(_PODS, namespace, name, "binding", body)

    async def close(self) -> None:
        """Release everything."""
        await self.transport.close()

    def _path(self, kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
        version = self._versions.get(kind.resource, "") if self._versions else ""
        return path(kind, namespace, name, subresource, version)

    def _try_next_version(self, kind: Kind) -> bool:
        """Ask for a kind in its next version from now on; after the last one in its own again, which is False."""
        versions = ("", *kind.alike_versions, "")
        following = versions[versions.index(self._versions.get(kind.resource, "")) + 1]
        if following:
            self._versions[kind.resource] = following
        else:
            self._versions.pop(kind.resource, None)
        return bool(following)

    async def _request(
        self, method: str, target: str, body: bytes = b"", content_type: str = "application/json"
    ) -> bytes:
        answer = await self.transport.request(method, target, body, content_type if body else "")
        if answer.status >= 300:
            raise errors.of(answer.status, answer.body, answer.retry_after)
        if not answer.body.startswith(b"{") and not answer.body[:_LONGEST_SPACE].lstrip().startswith(b"{"):
            raise _unreadable(f"it is no object: {answer.body[:_SHOWN].decode(errors='replace')}")
        return answer.body


async def _whole_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The lines of a stream, those that end in one chunk together. Raises Unavailable when one does not end."""
    begun: list[bytes] = []
    size = 0
    async for chunk in chunks:
        if not size and chunk.endswith(b"\n"):  # whole lines, as our own server sends them
            yield chunk
            continue
        first = chunk.find(b"\n")
        if size + (len(chunk) if first < 0 else first) > MAX_LINE:
            raise errors.Unavailable(502, "BadGateway", f"an event of the watch is longer than {MAX_LINE >> 20} MiB")
        lines, newline, rest = chunk.rpartition(b"\n")
        if newline:
            yield b"".join((*begun, lines, newline))
            begun, size = [], 0
        begun.append(rest)
        size += len(rest)


def _events_of(text: bytes) -> Sequence[ObjectEvent]:
    """The events in some lines. Raises Unavailable when one of them is none."""
    for known, events in tuple(_LATEST):
        if known is text:
            return events
    events = [ObjectEvent(_read(_read_line, line)) for line in text.split(b"\n") if line]
    if len(text) <= _SHARED:
        _LATEST.append((text, events))
    return events


def _read(reader: Callable[[bytes], _Read], body: bytes) -> _Read:
    try:
        return reader(body)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _unreadable(str(error)) from None


def _unreadable(why: str) -> errors.Unavailable:
    """The error for an answer that no API server gives, but a proxy in front of it while the server is away."""
    return errors.Unavailable(502, "BadGateway", f"the answer cannot be read: {why}")


def _target(where: str, query: Mapping[str, str]) -> str:
    parameters = _without_empty(query)
    return f"{where}?{urlencode(parameters)}" if parameters else where


def _without_empty(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text}
