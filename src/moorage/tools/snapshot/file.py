"""Snapshot files: gzip of JSON lines, a header, a List of objects on each line, and what could not be read."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from types import GenericAlias
from typing import Any, BinaryIO, TypeVar, cast

import msgspec

from moorage import features
from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.kinds import Kind
from moorage.api.manifests import ManifestError
from moorage.api.meta import Object
from moorage.client.clock import timestamp
from moorage.features import Gates
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.snapshot.fields import KINDS, ReducedPage, struct_of

VERSION = 1
_API_VERSION, _KIND, _END = "moorage.dev/v1", "Snapshot", "SnapshotEnd"
_LEVEL = 1
"""How hard to compress: the usual level takes twice as long and saves a fifth."""
_LONGEST = 256 << 20
"""How many bytes a line may have."""


class SnapshotError(Exception):
    """A file is no snapshot that can be read; the sentence names it."""


class SnapshotHeader(msgspec.Struct, rename="camel"):
    """The first line of a snapshot."""

    api_version: str = ""
    kind: str = ""
    version: int = 0
    taken_at: str = ""
    gates: str | None = None
    """The gates of the cluster, as `--feature-gates` spells them; absent when they could not be read."""
    is_attached: bool = False
    """Whether these are those of attach mode."""


class SnapshotEnd(msgspec.Struct, rename="camel"):
    """The last line of a snapshot."""

    api_version: str = _API_VERSION
    kind: str = _END
    objects: dict[str, int] = {}
    unread: dict[str, str] = {}
    left_out: list[str] = []
    """What is wrong with objects that could not be read."""


class _Line(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    items: msgspec.Raw = msgspec.Raw(b"[]")


_ORDER = {struct_of(kind): number for number, kind in enumerate(KINDS)}
_Read = TypeVar("_Read")


class SnapshotWriter:
    """Writes a snapshot page by page."""

    def __init__(self, stream: BinaryIO, taken: datetime, gates: Gates | None, *, attached: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        """How many objects of each resource have been written."""
        self.problems: list[ManifestError] = []
        """What is wrong with objects that had to be left out."""
        self._zip = gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=_LEVEL, mtime=0)
        said = None if gates is None else ",".join(f"{gate.value}=true" for gate in sorted(gates.on, key=str))
        self._write(SnapshotHeader(_API_VERSION, _KIND, VERSION, timestamp(taken), said, attached))

    def add(self, kind: Kind, page: ReducedPage) -> None:
        """Write a page of objects."""
        self.counts[kind.resource] += page.size
        self.problems += page.problems
        if page.size:
            self._write(_Line(kind.api_version, f"{kind.kind}List", msgspec.Raw(page.items)))

    def end(self, unread: dict[str, str]) -> None:
        """Write what could not be read, and end the file."""
        self._write(SnapshotEnd(objects=dict(self.counts), unread=unread, left_out=[*map(str, self.problems)]))
        self._zip.close()

    def _write(self, line: msgspec.Struct) -> None:
        self._zip.write(msgspec.json.encode(line) + b"\n")


def load_snapshot(stream: BinaryIO, name: str) -> Cluster:
    """The cluster that a snapshot holds, as it was stored. Raises SnapshotError."""
    lines = _lines(stream, name)
    header = _read(next(lines, b""), SnapshotHeader, name)
    if (header.api_version, header.kind) != (_API_VERSION, _KIND):
        raise SnapshotError(f"{name}: is no snapshot: take one with `moorage snapshot -o FILE`")
    if header.version != VERSION:
        raise SnapshotError(
            f"{name}: is a snapshot of version {header.version}, but version {VERSION} is read: take it again"
        )
    cluster = Cluster(is_complete=True, is_attached=header.is_attached)
    try:
        cluster.gates = None if header.gates is None else features.parse(header.gates)
    except features.GateError as error:
        raise SnapshotError(f"{name}: gates: {error}") from None
    for text in lines:
        line = _read(text, _Line, name)
        if line.kind == _END:
            bring_into_order(cluster)
            end = _read(text, SnapshotEnd, name)
            cluster.unread = end.unread
            cluster.problems += (ManifestError(problem, name) for problem in end.left_out)
            return cluster
        kind = kinds.find(line.api_version, line.kind.removesuffix("List"))
        if kind is None:
            raise SnapshotError(f"{name}: holds {line.kind} of {line.api_version}, which is unknown: take it again")
        add_items(cluster, kind, line.items, name)
    raise SnapshotError(f"{name}: is cut off: take it again")


def add_items(cluster: Cluster, kind: Kind, items: bytes | msgspec.Raw, source: str) -> None:
    """Put the objects of a JSON array into a cluster, as they were stored."""
    try:
        cluster.items += map(ClusterObject, _reader(kind).decode(items))
    except msgspec.ValidationError:
        for raw in _read(bytes(items), list[msgspec.Raw], source):
            try:
                cluster.items.append(ClusterObject(convert(msgspec.json.decode(raw), struct_of(kind))))
            except DecodeError as error:
                cluster.problems.append(ManifestError(str(error), source))


def bring_into_order(cluster: Cluster) -> None:
    """Sort objects by kind: several kinds are read at a time, and pages come as they come."""
    cluster.items.sort(key=lambda item: _ORDER[type(item.object)])


@cache
def _reader(kind: Kind) -> msgspec.json.Decoder[list[Object]]:
    return msgspec.json.Decoder(cast(Any, GenericAlias(list, (struct_of(kind),))))


def _lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=stream) as unzipped:
            while line := unzipped.readline(_LONGEST + 1):
                if len(line) > _LONGEST:
                    raise SnapshotError(f"{name}: has a line of more than {_LONGEST >> 20} MiB")
                yield line
    except EOFError:
        raise SnapshotError(f"{name}: is cut off: take it again") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise SnapshotError(f"{name}: is damaged: {error}") from None
    except OSError as error:
        raise SnapshotError(f"{name}: {error.strerror or error}") from None


def _read(text: bytes, struct: type[_Read], name: str) -> _Read:
    try:
        return msgspec.json.decode(text, type=struct)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise SnapshotError(f"{name}: is no snapshot: {error}") from None
