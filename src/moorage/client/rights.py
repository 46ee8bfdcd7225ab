"""What a component must be allowed to do, asked of the API server before it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data, Wire
from moorage.client.client import Client
from moorage.client.errors import Forbidden, Missing
from moorage.client.informer import Informers

_REVIEWS = {kind.kind: kind for kind in kinds.REVIEWS}
_ACCESS, _WHO = _REVIEWS["SelfSubjectAccessReview"], _REVIEWS["SelfSubjectReview"]
_SHOWN = 5


class Right(NamedTuple):
    """A verb on all objects of a kind, or on a subresource of them."""

    verb: str
    kind: Kind
    subresource: str = ""

    def __str__(self) -> str:
        resource = f"{self.kind.plural}.{self.kind.group}" if self.kind.group else self.kind.plural
        return f"{self.verb} {resource}{f'/{self.subresource}' if self.subresource else ''}"


class RightsMissing(Exception):
    """A component may not do what it has to; the sentence names who, and which rights are missing."""


class _AccessStatus(Wire):
    allowed: bool


class _Access(Wire):
    status: _AccessStatus


class _UserInfo(Wire):
    username: str = ""


class _WhoStatus(Wire):
    user_info: _UserInfo = _UserInfo()


class _WhoReview(Wire):
    status: _WhoStatus = _WhoStatus()


def to_follow(informers: Informers) -> Iterable[Right]:
    """The rights that informers need; those of kinds without which one can work are left out."""
    return (Right(verb, each.kind) for each in informers if not each.is_optional for verb in ("list", "watch"))


async def check_rights(client: Client, rights: Iterable[Right]) -> None:
    """Raise RightsMissing unless the user of this client has all rights. A server that cannot be asked is trusted."""
    asked = tuple(rights)
    try:
        missing = [right for right, has in zip(asked, await _has(client, asked), strict=True) if not has]
        who = await _user(client) if missing else ""
    except (Forbidden, Missing, msgspec.DecodeError, UnicodeError):
        return
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        shown = ", ".join(map(str, missing[:_SHOWN]))
        raise RightsMissing(f'user "{who}" lacks rights that are required: {shown}{more}')


async def _has(client: Client, rights: Iterable[Right]) -> list[bool]:
    return await asyncio.gather(*(_allowed(client, right) for right in rights))


async def _allowed(client: Client, right: Right) -> bool:
    kind = right.kind
    asked = {"verb": right.verb, "group": kind.group, "resource": kind.plural, "subresource": right.subresource}
    return await is_allowed(client, asked)


async def is_allowed(client: Client, attributes: Data) -> bool:
    """Whether the user of this client may do what the attributes say, as a review of access has them."""
    answer = await client.create(_ACCESS, {"spec": {"resourceAttributes": attributes}})
    return msgspec.json.decode(answer, type=_Access).status.allowed


async def _user(client: Client) -> str:
    answer = await client.create(_WHO, {})
    return msgspec.json.decode(answer, type=_WhoReview).status.user_info.username
