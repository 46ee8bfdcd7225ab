"""Numbers of replicas: how many an object asks for, and percentages of that."""

from __future__ import annotations

from moorage.api.meta import IntOrString
from moorage.api.workload import Deployment, ReplicaSet, ReplicationController, StatefulSet
from moorage.names import lenient_int64


def desired_replicas(item: Deployment | ReplicaSet | ReplicationController | StatefulSet) -> int:
    """How many pods there should be: one when an object does not say."""
    return 1 if item.spec.replicas is None else item.spec.replicas


def scaled(value: IntOrString | None, total: int, *, up: bool) -> int:
    """A number, or a percentage of a total such as "25%", rounded up or down; what is neither counts as 0."""
    if not isinstance(value, str):
        return value or 0
    percent = lenient_int64(value.removesuffix("%")) if value.endswith("%") else None
    if percent is None or percent < 0:
        return 0
    return -(-percent * total // 100) if up else percent * total // 100
