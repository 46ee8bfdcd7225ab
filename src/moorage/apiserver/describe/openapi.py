"""The OpenAPI documents: version 3 for each group and version, version 2 for all of them."""

from __future__ import annotations

from functools import cache
from typing import Any

from moorage.api.kinds import Kind
from moorage.apiserver.describe import gnostic
from moorage.apiserver.describe.discovery import all_kinds, group_versions, path_of
from moorage.apiserver.describe.documents import StaticDocument, not_acceptable
from moorage.apiserver.describe.models import Models, mentioned, name_of
from moorage.apiserver.describe.operations import paths
from moorage.apiserver.describe.swagger import downgraded
from moorage.apiserver.http.media import JSON, YAML, choose, negotiate
from moorage.apiserver.http.messages import Request, Response
from moorage.componentmetrics import git_version

_ROOT = "/openapi/v3"
_FOR_EVER = (("Cache-Control", "public, immutable, max-age=31536000"),)


class Description:
    """All OpenAPI documents."""

    def __init__(self) -> None:
        models = Models(all_kinds())
        info = {"title": "Moorage", "version": git_version()}
        contents = {
            path_of(group, version): _content(kinds, version, models, info)
            for group, versions in group_versions().items()
            for version, kinds in versions.items()
        }
        self.v3 = {path: StaticDocument.of(content) for path, content in contents.items()}
        self.index = StaticDocument.of(
            {"paths": {path[1:]: {"serverRelativeURL": self.url(path)} for path in sorted(self.v3)}}
        )
        older = downgraded(contents.values(), info)
        protobuf = StaticDocument.holding(gnostic.encode(older), gnostic.MEDIA_TYPE)
        self.v2 = {JSON: StaticDocument.of(older), gnostic.MEDIA_TYPE: protobuf, gnostic.OLDER_MEDIA_TYPE: protobuf}

    def url(self, path: str) -> str:
        """The URL of a document, with the hash of its current content."""
        return f"{_ROOT}{path}?hash={self.v3[path].etag}"


@cache
def description() -> Description:
    """The documents. The first call takes a moment."""
    return Description()


def is_made() -> bool:
    """Whether the documents are there already."""
    return bool(description.cache_info().currsize)


def answer(request: Request) -> Response | None:
    """The response to an OpenAPI request; None for any other path."""
    match request.segments:
        case ("openapi", "v2"):
            return _version_2(request)
        case ("openapi", "v3"):
            return _given(request, description().index)
        case ("openapi", "v3", *rest):
            return _group_version(request, "/" + "/".join(rest))
    return None


def _version_2(request: Request) -> Response:
    forms = description().v2
    chosen = choose(request.headers.get("Accept"), tuple(forms))
    return not_acceptable(*forms) if chosen is None else forms[chosen].answer(request)


def _given(request: Request, document: StaticDocument, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    if negotiate(request.headers.get("Accept")) is None:
        return not_acceptable(JSON, YAML)
    return document.answer(request, headers)


def _group_version(request: Request, path: str) -> Response | None:
    """The document of a group and version. A request with the hash of an old one is redirected to the current one."""
    document = description().v3.get(path)
    if document is None:
        return None
    digest = request.parameter("hash")
    if digest and digest != document.etag:
        return Response(301, b"", (("Location", description().url(path)),))
    return _given(request, document, _FOR_EVER if digest else ())


def _content(kinds: list[Kind], version: str, models: Models, info: dict[str, str]) -> dict[str, Any]:
    items = {path: item for kind in kinds for path, item in paths(kind, version)}
    named = [name_of(kind.group, version, kind.kind) for kind in kinds]
    return {
        "openapi": "3.0.0",
        "info": info,
        "paths": dict(sorted(items.items())),
        "components": {
            "schemas": models.reachable([*named, *mentioned(items)]),
            "securitySchemes": {"BearerToken": {"type": "apiKey", "in": "header", "name": "authorization"}},
        },
        "security": [{"BearerToken": []}],
    }
