"""Numbers of replicas: how many an object asks for, and percentages of that."""

from __future__ import annotations

from moorage.api.meta import IntOrString
from moorage.api.workload import Deployment, ReplicaSet, ReplicationController, StatefulSet


def desired_replicas(item: Deployment | ReplicaSet | ReplicationController | StatefulSet) -> int:
    """How many pods there should be: one when an object does not say."""
    return 1 if item.spec.replicas is None else item.spec.replicas


def scaled(value: IntOrString | None, total: int, *, up: bool) -> int:
    """A number, or a percentage of a total such as "25%", rounded up or down; what is neither counts as 0."""
    if not isinstance(value, str):
        return value or 0
    number = value.removesuffix("%")
    if number == value or not number.isascii() or not number.isdecimal():
        return 0
    return -(-int(number) * total // 100) if up else int(number) * total // 100
