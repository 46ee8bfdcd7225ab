"""The real kubectl against a server that has only documents and a shelf of objects."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.api import kinds
from moorage.api.kinds import KINDS, Kind
from moorage.apiserver.describe import discovery, openapi, version
from moorage.apiserver.http import media
from moorage.apiserver.http.messages import Reason, Request, Response, status
from moorage.apiserver.verbs import tables
from tests.apiserver.edge import made, serving

needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on PATH: install it to see what it makes of our documents"
)

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
Item = dict[str, Any]


class Shelf:
    """Objects that can be listed, read, created and (in words only) patched."""

    def __init__(self, objects: Iterable[Item] = ()) -> None:
        self.objects: dict[str, list[Item]] = {}
        self.requests: list[Request] = []
        for item in objects:
            kind = kinds.row(item["apiVersion"], item["kind"])
            self.objects.setdefault(kind.plural, []).append(item)

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        if request.segments == ("version",):
            return Response(200, version.document())
        return openapi.answer(request) or discovery.answer(request) or self._stored(request)

    def asked(self, method: str, fragment: str) -> list[Request]:
        """The requests of a method whose path holds a text."""
        return [each for each in self.requests if each.method == method and fragment in each.path]

    def _stored(self, request: Request) -> Response:
        segments = request.segments[2:] if request.segments[0] == "api" else request.segments[3:]
        if len(segments) > 2 and segments[0] == "namespaces":
            segments = segments[2:]
        kind = next((kind for kind in KINDS if segments and kind.plural == segments[0]), None)
        if kind is None:
            return status(404, Reason.NOT_FOUND, "the server could not find the requested resource")
        if request.method == "POST":
            item = msgspec.json.decode(request.body)
            item["metadata"] |= {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-02T11:59:00Z"}
            if "dryRun" not in request.query:
                self.objects.setdefault(kind.plural, []).append(item)
            return Response(201, msgspec.json.encode(item))
        found = self.objects.get(kind.plural, [])
        if len(segments) == 1:
            return self._listed(request, kind, found)
        named = [item for item in found if item["metadata"]["name"] == segments[1]]
        if not named:
            return status(404, Reason.NOT_FOUND, f'{kind.plural} "{segments[1]}" not found')
        return self._listed(request, kind, named, whole=False)

    def _listed(self, request: Request, kind: Kind, found: list[Item], *, whole: bool = True) -> Response:
        metadata = {"resourceVersion": "1"}
        form = media.negotiate(request.headers.get("Accept"), (media.PLAIN, media.TABLE))
        if form == media.TABLE:
            table = tables.render(kind, found, now=NOW, metadata=metadata)
            return Response(200, msgspec.json.encode(table))
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
        return Response(200, msgspec.json.encode({**head, "items": found} if whole else found[0]))


class Kubectl:
    """A command line with a kubeconfig of its own and an empty cache."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        authority = folder / "ca.crt"
        authority.write_bytes(made().authority.certificate_pem)
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        (folder / "config").write_bytes(msgspec.json.encode(config))

    async def run(self, *arguments: str, text: str = "") -> tuple[int, str, str]:
        """Exit code, output and complaints of a command."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "KUBECONFIG": str(self._folder / "config"),
        }
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            "kubectl", *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
        )
        output, complaints = await process.communicate(text.encode())
        return process.returncode or 0, output.decode(), complaints.decode()

    async def __call__(self, *arguments: str, text: str = "") -> str:
        """The output of a command that succeeds without a complaint."""
        code, output, complaints = await self.run(*arguments, text=text)
        assert (code, complaints) == (0, "")
        return output


@contextlib.asynccontextmanager
async def kubectl(shelf: Shelf) -> AsyncIterator[Kubectl]:
    """kubectl, connected to a server with a shelf."""
    with tempfile.TemporaryDirectory() as folder:
        async with serving(shelf) as server:
            yield Kubectl(Path(folder), server.port)
