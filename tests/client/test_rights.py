"""A component is told which rights it lacks, by a server that can tell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from moorage.api import kinds
from moorage.api.pod import Pod
from moorage.api.resource import ResourceSlice
from moorage.client import Client, Informers
from moorage.client.rights import Right, RightsMissing, check_rights, to_follow
from moorage.client.transport import Answer

POD, BUDGET = kinds.row("v1", "Pod"), kinds.row("policy/v1", "PodDisruptionBudget")
NEEDED = [Right("list", POD), Right("create", POD, "binding"), Right("watch", BUDGET)]


class Reviewer:
    """A server that gives one answer to every question about rights."""

    def __init__(self, body: bytes, status: int = 201) -> None:
        self._answer = Answer(status, body)
        self.asked = 0

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        if target.endswith("/selfsubjectreviews"):
            return Answer(201, b'{"status": {"userInfo": {"username": "robot"}}}')
        self.asked += 1
        return self._answer

    def stream(self, target: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError(target)

    async def close(self) -> None:
        return None


async def test_the_sentence_names_the_user_the_verbs_and_the_resources() -> None:
    with pytest.raises(RightsMissing) as missing:
        await check_rights(Client(Reviewer(b'{"status": {"allowed": false}}')), NEEDED)
    listed = "list pods, create pods/binding, watch poddisruptionbudgets.policy"
    assert str(missing.value) == f'user "robot" lacks rights that are required: {listed}'


async def test_of_many_rights_some_are_named_and_the_others_counted() -> None:
    with pytest.raises(RightsMissing, match=r"(list pods, ){4}list pods and 35 more$"):
        await check_rights(Client(Reviewer(b'{"status": {"allowed": false}}')), [Right("list", POD)] * 40)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"status": {"allowed": true}}', 201),
        (b"{}", 200),
        (b'{"items": []}', 200),
        (b"{", 200),
        (b'{"message": "no reviews here"}', 404),
        (b'{"message": "not you"}', 403),
    ],
)
async def test_nothing_is_missing_when_the_server_says_so_or_cannot_tell(body: bytes, status: int) -> None:
    server = Reviewer(body, status)
    await check_rights(Client(server), NEEDED)
    assert server.asked == len(NEEDED)


def test_kinds_of_devices_need_not_be_followed() -> None:
    informers = Informers(Client(Reviewer(b"")))
    informers.of(Pod)
    informers.of(ResourceSlice)
    assert list(to_follow(informers)) == [Right("list", POD), Right("watch", POD)]
