"""Flows: requests that count together when users share the server, and the priority level of each."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from moorage.apiserver.base.users import NODES, SERVICE_ACCOUNTS, UNAUTHENTICATED, User, split_service_account


class PriorityLevel(Enum):
    """The levels, in the words of Kubernetes where it has them."""

    EXEMPT = "exempt"
    """Administrators: they never wait."""
    SYSTEM = "system"
    """Nodes, the scheduler, the controllers, and the service accounts of kube-system."""
    WORKLOAD = "workload"
    """All other users."""
    CATCH_ALL = "catch-all"
    """Whoever is not authenticated."""


_COMPONENTS = frozenset(("system:kube-scheduler", "system:kube-controller-manager"))
_SYSTEM_GROUPS = frozenset((NODES, f"{SERVICE_ACCOUNTS}:kube-system"))


class Flow(NamedTuple):
    """Requests that count together: those of one user or, because one can make many, of a namespace's accounts."""

    level: PriorityLevel
    user: str

    @property
    def exempt(self) -> bool:
        """Whether no limit applies."""
        return self.level is PriorityLevel.EXEMPT


NOBODY = Flow(PriorityLevel.CATCH_ALL, "")
"""Whoever has not sent a whole request head yet."""
_EXEMPT = Flow(PriorityLevel.EXEMPT, "")


def flow_of(user: User) -> Flow:
    """The flow of an authenticated user, or of somebody who needs not be."""
    if user.privileged:
        return _EXEMPT
    if UNAUTHENTICATED in user.groups:
        return Flow(PriorityLevel.CATCH_ALL, user.name)
    if user.name in _COMPONENTS or not _SYSTEM_GROUPS.isdisjoint(user.groups):
        return Flow(PriorityLevel.SYSTEM, user.name)
    account = split_service_account(user.name)
    return Flow(PriorityLevel.WORKLOAD, f"{SERVICE_ACCOUNTS}:{account[0]}" if account else user.name)
