"""Documents that are built once and served with an ETag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

from moorage.apiserver.http.failures import method_not_allowed
from moorage.apiserver.http.media import JSON
from moorage.apiserver.http.messages import Reason, Request, Response, status

_METHODS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class StaticDocument:
    """The bytes of a document and their ETag."""

    body: bytes
    etag: str
    content_type: str = JSON

    @staticmethod
    def of(content: Any, content_type: str = JSON) -> StaticDocument:
        """A document with JSON content."""
        return StaticDocument.holding(msgspec.json.encode(content), content_type)

    @staticmethod
    def holding(body: bytes, content_type: str) -> StaticDocument:
        """A document with these bytes."""
        return StaticDocument(body, sha256(body).hexdigest().upper(), content_type)

    def answer(self, request: Request, headers: Sequence[tuple[str, str]] = ()) -> Response:
        """The document, or 304 when the client has it already."""
        if request.method not in _METHODS:
            return method_not_allowed().response
        tag = f'"{self.etag}"'
        fields = (("Content-Type", self.content_type), ("ETag", tag), ("Vary", "Accept"), *headers)
        tags = request.headers.get("If-None-Match")
        if tags and (tags == "*" or tag in (other.strip().removeprefix("W/") for other in tags.split(","))):
            return Response(304, b"", fields)
        return Response(200, self.body, fields)


def not_acceptable(*types: str) -> Response:
    """Status 406: the client accepts none of these media types."""
    accepted = ", ".join(types)
    return status(406, Reason.NOT_ACCEPTABLE, f"only the following media types are accepted: {accepted}")
