"""An API in memory that tells of changes only when it is asked to, and loses answers when it is told to."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.pod import Pod
from moorage.client import Client, Conflict, Informers, Missing, Unavailable

Data = dict[str, Any]
Key = tuple[str, str, str]
_DELETED = "2026-01-01T00:00:00Z"
_STRUCTS = {kind.kind: kind.struct for kind in kinds.KINDS}


class InMemoryAPI:
    """Objects by kind, namespace and name, as JSON data; every change waits until `tell` passes it on."""

    def __init__(self) -> None:
        self.objects: dict[Key, Data] = {}
        self.news: deque[tuple[str, Data]] = deque()
        self.informers: list[Informers] = []
        self.bindings: list[tuple[str, str]] = []
        """Every pod that was bound, by uid, and where."""
        self.trouble: Callable[[str, Key], str] = lambda *_: ""
        """What goes wrong with a write (its verb and object): nothing, `refused`, `lost before` or `lost after`."""
        self.lost = 0
        """How often something went wrong."""
        self._revisions = itertools.count(1)
        self._uids = itertools.count(1)

    @property
    def client(self) -> Client:
        """The API as the scheduler sees it."""
        return cast(Client, self)

    def put(self, kind: str, data: Data) -> Data:
        """Create or change an object."""
        metadata = data["metadata"]
        key = kind, metadata.get("namespace", ""), metadata["name"]
        metadata.setdefault("uid", f"uid-{next(self._uids)}")
        metadata["resourceVersion"] = str(next(self._revisions))
        self.objects[key] = data
        self.news.append(("MODIFIED", {"kind": kind, **_copy(data)}))
        return data

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """An object is gone."""
        data = self.objects.pop((kind, namespace, name))
        data["metadata"]["resourceVersion"] = str(next(self._revisions))
        self.news.append(("DELETED", {"kind": kind, **_copy(data)}))

    def tell(self, number: int = 1_000_000) -> None:
        """Pass news on, the oldest first."""
        while self.news and number:
            number -= 1
            what, data = self.news.popleft()
            item = msgspec.convert(data, _STRUCTS[data["kind"]])
            for informers in self.informers:
                informer = informers.of(type(item))
                (informer.remove if what == "DELETED" else informer.put)(item)
                informer.end_batch(item.metadata.resource_version)

    def pods(self) -> list[Pod]:
        """All pods as they are now."""
        return [msgspec.convert(_copy(data), Pod) for key, data in self.objects.items() if key[0] == "Pod"]

    async def _asked(self, verb: str, key: Key, do: Callable[[], None]) -> None:
        await asyncio.sleep(0)
        trouble = self.trouble(verb, key)
        self.lost += bool(trouble)
        if trouble == "lost before":
            raise Unavailable(503, "", "nobody there")
        if trouble == "refused":
            raise Conflict(409, "Conflict", "not now")
        do()
        await asyncio.sleep(0)
        if trouble == "lost after":
            raise Unavailable(503, "", "the answer was lost")

    def _find(self, key: Key, uid: str = "") -> Data:
        found = self.objects.get(key)
        if found is None:
            raise Missing(404, "NotFound", f"{key} not found")
        if uid and found["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", "another by now")
        return found

    async def get(self, kind: Kind, namespace: str, name: str) -> bytes:
        await asyncio.sleep(0)
        return msgspec.json.encode(self._find((kind.kind, namespace, name)))

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        key = "Pod", namespace, name

        def do() -> None:
            pod = self._find(key, uid)
            if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                raise Conflict(409, "Conflict", "assigned already, or being deleted")
            self.bindings.append((uid, node))
            pod["spec"]["nodeName"] = node
            self.put("Pod", pod)

        await self._asked("bind", key, do)

    async def patch(self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any], **_: Any) -> bytes:
        key = kind.kind, namespace, name

        def do() -> None:
            found = self._find(key, patch.get("metadata", {}).get("uid", ""))
            status = found.setdefault("status", {})
            for field, value in patch["status"].items():
                if value is None:
                    status.pop(field, None)
                elif field == "conditions":
                    by_type = {each["type"]: each for each in (*status.get(field, ()), *value)}
                    status[field] = list(by_type.values())
                else:
                    status[field] = value
            self.put(kind.kind, found)

        await self._asked("patch", key, do)
        return b"{}"

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str = "", **_: Any) -> bytes:
        key = kind.kind, namespace, name

        def do() -> None:
            found = self._find(key, uid)
            if found["spec"].get("nodeName") and found["spec"].get("terminationGracePeriodSeconds") != 0:
                found["metadata"].setdefault("deletionTimestamp", _DELETED)
                self.put(kind.kind, found)
            else:
                self.remove(*key)

        await self._asked("delete", key, do)
        return msgspec.json.encode({"metadata": self.objects.get(key, {}).get("metadata", {})})


def _copy(data: Data) -> Data:
    copied: Data = msgspec.json.decode(msgspec.json.encode(data))
    return copied
