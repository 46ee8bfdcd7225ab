"""Documents that are made once and given to everybody who asks."""

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
    """Bytes with a name for this state of them."""

    body: bytes
    etag: str
    content_type: str = JSON

    @staticmethod
    def of(content: Any, content_type: str = JSON) -> StaticDocument:
        """The JSON of something."""
        return StaticDocument.holding(msgspec.json.encode(content), content_type)

    @staticmethod
    def holding(body: bytes, content_type: str) -> StaticDocument:
        """Some bytes."""
        return StaticDocument(body, sha256(body).hexdigest().upper(), content_type)

    def answer(self, request: Request, headers: Sequence[tuple[str, str]] = ()) -> Response:
        """The document, or word that the client has it already."""
        if request.method not in _METHODS:
            return method_not_allowed().response
        tag = f'"{self.etag}"'
        told = (("Content-Type", self.content_type), ("ETag", tag), ("Vary", "Accept"), *headers)
        known = request.headers.get("If-None-Match")
        if known and (known == "*" or tag in (each.strip().removeprefix("W/") for each in known.split(","))):
            return Response(304, b"", told)
        return Response(200, self.body, told)


def not_acceptable(*types: str) -> Response:
    """The client wants a form that is not on offer."""
    accepted = ", ".join(types)
    return status(406, Reason.NOT_ACCEPTABLE, f"only the following media types are accepted: {accepted}")
