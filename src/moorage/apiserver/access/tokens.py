"""Static bearer tokens in a file: those of the administrator and of the components."""

from __future__ import annotations

import csv
import hashlib
import io
import secrets
from collections.abc import Iterable, Iterator, Mapping
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
    """Read a CSV file with token, user name, uid and groups, which are in quotes when there are several.

    Raises TokenError, OSError.
    """
    users: dict[str, User] = {}
    with file.open("rb") as stream:
        lines = csv.reader(_text_lines(file, stream), strict=True)
        try:
            for row in lines:
                token, name, uid, groups = (field.strip() for field in (*row, "", "", "", "")[:4])
                if problem := _problem(row, token, name, users):
                    raise TokenError(f"{file}, line {lines.line_num}: {problem}: {_REMEDY}")
                if row:
                    users[token] = User(name, tuple(group.strip() for group in groups.split(",") if group.strip()), uid)
        except csv.Error as error:
            raise TokenError(f"{file}, line {lines.line_num}: {error}: {_REMEDY}") from None
    return users


_REMEDY = 'write token,user,uid,"group1,group2"'


def _text_lines(file: Path, stream: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(stream, start=1):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise TokenError(f"{file}, line {number}: not text in UTF-8: {_REMEDY}") from None


def _problem(row: list[str], token: str, name: str, users: Mapping[str, User]) -> str:
    if not row:
        return ""
    if not token:
        return "the token is missing"
    if not name:
        return "the user name is missing"
    return "the token stands on an earlier line too" if token in users else ""


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
