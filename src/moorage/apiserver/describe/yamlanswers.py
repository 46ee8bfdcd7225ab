"""Responses in YAML, for clients that prefer it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import yaml

from moorage.apiserver.base.offload import YAML_COST, in_hand, offload
from moorage.apiserver.base.pacing import made
from moorage.apiserver.http.media import JSON, YAML
from moorage.apiserver.http.messages import Reason, Response, status

# Where PyYAML was built without libyaml, the pure Python writer does the same, only slower.
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_NO_WRAP = 2**31 - 1
_LONGEST = 4 << 20
_TOO_LONG = "the list is too long for YAML: ask for it in JSON, or for a page of it with the parameter limit"


async def in_yaml(response: Response) -> Response:
    """A response in YAML, unless it is a stream or not JSON."""
    headers = dict(response.headers)
    if response.stream is not None or not response.body or not headers.get("Content-Type", "").startswith(JSON):
        return response
    if isinstance(response.body, bytes):
        return await _written(response, response.body)
    async with in_hand(_LONGEST):
        body = await _joined(response.body)
        return await _written(response, body) if body else status(406, Reason.NOT_ACCEPTABLE, _TOO_LONG)


async def _written(response: Response, body: bytes) -> Response:
    written = [
        (name, value.replace(JSON, YAML, 1) if name == "Content-Type" else value) for name, value in response.headers
    ]
    return Response(response.status, await offload(len(body) * YAML_COST, _text, body), written)


async def _joined(parts: Iterable[bytes]) -> bytes | None:
    """The parts of a body in one; None when they are too long."""
    found: list[bytes] = []
    size = 0
    async for part in made(parts):
        found.append(part)
        size += len(part)
        if size > _LONGEST:
            return None
    return b"".join(found)


def _text(body: bytes) -> bytes:
    text: bytes = yaml.dump(
        msgspec.json.decode(body), Dumper=_Dumper, encoding="utf-8", allow_unicode=True, width=_NO_WRAP
    )
    return text
