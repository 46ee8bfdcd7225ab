"""Responses in YAML, for clients that prefer it."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from moorage.apiserver.base.offload import offload
from moorage.apiserver.http.media import JSON, YAML
from moorage.apiserver.http.messages import Response

# Where PyYAML was built without libyaml, the pure Python writer does the same, only slower.
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_NO_WRAP = 2**31 - 1


async def in_yaml(response: Response) -> Response:
    """A response in YAML, unless it is a stream or not JSON."""
    body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    headers = dict(response.headers)
    if response.stream is not None or not body or not headers.get("Content-Type", "").startswith(JSON):
        return response
    written = [
        (name, value.replace(JSON, YAML, 1) if name == "Content-Type" else value) for name, value in response.headers
    ]
    return Response(response.status, await offload(len(body), _text, body), written)


def _text(body: bytes) -> bytes:
    text: bytes = yaml.dump(
        msgspec.json.decode(body), Dumper=_Dumper, encoding="utf-8", allow_unicode=True, width=_NO_WRAP
    )
    return text
