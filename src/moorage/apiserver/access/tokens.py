"""Static bearer tokens in a file: those of the administrator and of the components."""

from __future__ import annotations

import csv
import hashlib
import io
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from moorage.apiserver.access.certificates import write_private
from moorage.apiserver.base.users import AUTHENTICATED, MASTERS, User

FILE = "tokens.csv"
ADMIN = User("admin", (MASTERS,))
SCHEDULER = User("system:kube-scheduler")
CONTROLLERS = User("system:kube-controller-manager")
COMPONENTS = (ADMIN, SCHEDULER, CONTROLLERS)


class TokenError(Exception):
    """A file of tokens cannot be used; the message says where and why."""


class Tokens:
    """Users by token. Digests are looked up, not tokens, so that timing reveals nothing about the tokens that exist."""

    __slots__ = ("_users",)

    def __init__(self, users: Mapping[str, User]) -> None:
        self._users = {_digest(token): _authenticated(user) for token, user in users.items()}

    def find(self, token: str) -> User | None:
        """The user of a token."""
        return self._users.get(_digest(token))


def prepare(directory: Path, users: Iterable[User] = COMPONENTS) -> dict[str, str]:
    """The tokens of these users by user name; missing ones are created. Raises TokenError, OSError."""
    file = directory / FILE
    users_by_token = load(file) if file.exists() else {}
    tokens = {user.name: token for token, user in users_by_token.items()}
    missing = [user for user in users if user.name not in tokens]
    for user in missing:
        tokens[user.name] = secrets.token_urlsafe(32)
        users_by_token[tokens[user.name]] = user
    if missing:
        write_private(file, _text(users_by_token).encode())
    return tokens


def load(file: Path) -> dict[str, User]:
    """Read a CSV file with token, user name, uid and groups, which are in quotes when there are several."""
    users: dict[str, User] = {}
    with file.open(newline="") as stream:
        for number, row in enumerate(csv.reader(stream, strict=True), start=1):
            if not row:
                continue
            token, name, uid, groups = (field.strip() for field in (*row, "", "", "", "")[:4])
            if not token or not name or token in users:
                raise TokenError(f"{file}, line {number}: a line has a token of its own, a user name, a uid and groups")
            users[token] = User(name, tuple(group.strip() for group in groups.split(",") if group.strip()), uid)
    return users


def _text(users: Mapping[str, User]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows((token, user.name, user.uid, ",".join(user.groups)) for token, user in users.items())
    return text.getvalue()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _authenticated(user: User) -> User:
    return (
        user if AUTHENTICATED in user.groups else User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)
    )
