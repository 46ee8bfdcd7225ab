"""A server, and a component in the same process that asks it."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.client.transport import Answer, Transport

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
Data = dict[str, Any]


class Asked:
    """Sends what it is given as it is, and data as JSON."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def __call__(self, method: str, path: str, sent: Any = None, content_type: str = JSON) -> Answer:
        data = sent if isinstance(sent, bytes) else b"" if sent is None else msgspec.json.encode(sent)
        return await self.transport.request(method, path, data, content_type)

    async def told(self, method: str, path: str, sent: Any = None, content_type: str = JSON) -> tuple[int, Data]:
        """The status and the object of an answer."""
        answer = await self(method, path, sent, content_type)
        return answer.status, msgspec.json.decode(answer.body)
