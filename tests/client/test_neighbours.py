"""Whether a component of Kubernetes is to be expected on a cluster, so that ours leaves its work alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from moorage.api import kinds
from moorage.client import Client, Unavailable
from moorage.client.neighbours import other_control_plane
from moorage.client.transport import Answer
from tests.plane import api_server

LEASE = kinds.row("coordination.k8s.io/v1", "Lease")


class Foreign:
    """A server that answers everything alike."""

    def __init__(self, status: int, body: bytes) -> None:
        self._answer = Answer(status, body)

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        assert target == "/version"
        return self._answer

    def stream(self, target: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError(target)

    async def close(self) -> None:
        return None


async def test_on_a_server_of_our_own_only_a_lease_that_is_held_says_so(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        assert await other_control_plane(client, "kube-scheduler") == ""
        lease = {"metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": "host_1"}}
        await client.create(LEASE, lease, "kube-system")
        said = await other_control_plane(client, "kube-scheduler")
        assert said == "the lease kube-system/kube-scheduler is held by host_1"
        await client.patch(LEASE, "kube-system", "kube-scheduler", {"spec": {"holderIdentity": ""}})
        assert await other_control_plane(client, "kube-scheduler") == ""


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b'{"gitVersion": "v1.36.4"}', "the API server is Kubernetes v1.36.4"),
        (200, b"{}", "the API server is Kubernetes of a version that cannot be read"),
        (200, b"<html>", "the API server is Kubernetes of a version that cannot be read"),
        (403, b"{}", "the API server does not tell its version"),
    ],
)
async def test_a_server_that_is_not_ours_has_another_control_plane(status: int, body: bytes, reason: str) -> None:
    assert await other_control_plane(Client(Foreign(status, body)), "kube-scheduler") == reason


async def test_a_server_that_is_away_says_nothing() -> None:
    with pytest.raises(Unavailable):
        await other_control_plane(Client(Foreign(503, b"")), "kube-scheduler")
