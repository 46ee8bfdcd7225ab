"""Users as Kubernetes knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
NODES = "system:nodes"
SERVICE_ACCOUNTS = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """A person, a component or a service account."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    privileged: bool = field(init=False)
    """Whether everything is allowed, whatever the roles say."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "privileged", MASTERS in self.groups)


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))


def service_account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """The groups that every service account of a namespace is in."""
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)


def split_service_account(user_name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that has this user name, if it is one."""
    if not user_name.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = user_name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return (namespace, name) if namespace and colon and name and ":" not in name else None
