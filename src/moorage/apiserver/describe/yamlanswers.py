"""Answers in YAML, for those who ask for it."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from moorage.apiserver.base.offload import offload
from moorage.apiserver.http.media import JSON, YAML
from moorage.apiserver.http.messages import Response

# The pure writer writes the same, only slowly, where PyYAML was built without libyaml.
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_NO_WRAP = 2**31 - 1


async def in_yaml(response: Response) -> Response:
    """An answer in YAML, if it is JSON and whole."""
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
