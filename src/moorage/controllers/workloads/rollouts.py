"""The arithmetic of Deployments: sizes of ReplicaSets, revisions, annotations and conditions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from moorage.api.meta import Data
from moorage.api.workload import Deployment, ReplicaSet
from moorage.client.clock import timestamp
from moorage.controllers.owners.replicas import desired_replicas, scaled

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
ROLLBACK = "deprecated.deployment.rollback.to"
OWN_ANNOTATIONS = frozenset(
    ("kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MAXIMUM, ROLLBACK)
)
"""Annotations that are not copied between a Deployment and its ReplicaSets."""
PROGRESSING, AVAILABLE = "Progressing", "Available"
_HISTORY_LENGTH = 2000
_NO_LIMIT = 2**31 - 1
_NAME_LENGTH = 253


def comparable(template: Mapping[str, Any]) -> Data:
    """A template without its hash and without empty fields, for comparison."""
    plain: Data = _pruned(template)
    metadata = plain.setdefault("metadata", {})
    for part in ("labels", "annotations"):
        kept = {key: value for key, value in metadata.pop(part, {}).items() if key != HASH}
        if kept:
            metadata[part] = kept
    return plain


def _pruned(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _pruned(each) for key, each in value.items() if each is not None and each != []}
    return [_pruned(each) for each in value] if isinstance(value, list) else value


def set_name(deployment: Deployment, hash_: str) -> str:
    """What the ReplicaSet of a template is called."""
    return f"{deployment.metadata.name[: _NAME_LENGTH - 1 - len(hash_)]}-{hash_}"


def is_rolling(deployment: Deployment) -> bool:
    """Whether pods are replaced gradually."""
    return deployment.spec.strategy.type != "Recreate"


def margins(deployment: Deployment) -> tuple[int, int]:
    """MaxSurge and maxUnavailable in pods; not both are zero, or nothing could move."""
    if not is_rolling(deployment):
        return 0, 0
    rolling, total = deployment.spec.strategy.rolling_update, desired_replicas(deployment)
    surge = scaled(rolling.max_surge, total, up=True) if rolling is not None else 0
    unavailable = scaled(rolling.max_unavailable, total, up=False) if rolling is not None else 0
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, total)


def most(deployment: Deployment) -> int:
    """How many pods there may be at a time."""
    return desired_replicas(deployment) + margins(deployment)[0]


def fewest(deployment: Deployment) -> int:
    """How many pods must be available at any time."""
    return desired_replicas(deployment) - margins(deployment)[1]


def size_of_new(deployment: Deployment, current: int, total: int) -> int:
    """How large the newest ReplicaSet may be now, of which size it is and of how many there are in all."""
    if not is_rolling(deployment):
        return desired_replicas(deployment)
    room = max(0, most(deployment) - total)
    return current + min(room, desired_replicas(deployment) - current)


def by_age(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """ReplicaSets, the oldest first."""
    return sorted(sets, key=_age)


def _age(item: ReplicaSet) -> tuple[float, str]:
    created = item.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, item.metadata.name


def active(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """ReplicaSets that have pods, or should."""
    return [each for each in sets if desired_replicas(each) > 0]


def active_or_latest(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The only ReplicaSet with pods, or the newest when none has; None when several have."""
    alive = active((*old, new) if new is not None else old)
    if len(alive) > 1:
        return None
    if alive:
        return alive[0]
    return new or (by_age(old)[-1] if old else None)


def proportions(deployment: Deployment, sets: Sequence[ReplicaSet]) -> dict[str, int]:
    """The size of each active ReplicaSet when a Deployment is scaled in the middle of a rollout.

    What is added or taken away is shared out in proportion; the largest gets what is left by rounding.
    """
    allowed = most(deployment) if desired_replicas(deployment) > 0 else 0
    change = allowed - sum(map(desired_replicas, sets))
    # Among ReplicaSets of one size the newer is scaled up first, and the older is scaled down first.
    ordered = sorted(by_age(sets)[:: -1 if change > 0 else 1], key=desired_replicas, reverse=True)
    sizes, done = {}, 0
    for each in ordered:
        share = _proportion(deployment, each) if change != done else 0
        share = min(share, change - done) if change > 0 else max(share, change - done)
        sizes[each.metadata.name] = desired_replicas(each) + share
        done += share
    if ordered:
        largest = ordered[0].metadata.name
        sizes[largest] = max(0, sizes[largest] + change - done)
    return sizes


def _proportion(deployment: Deployment, item: ReplicaSet) -> int:
    if desired_replicas(deployment) == 0:
        return -desired_replicas(item)
    before = number(item.metadata.annotations.get(MAXIMUM, "")) or deployment.status.replicas
    size = desired_replicas(item)
    return math.floor(size * most(deployment) / before + 0.5) - size if before else 0


def number(text: str) -> int | None:
    """The number of pods in an annotation."""
    value = int(text) if re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) else None
    return value if value is not None and value < 2**31 else None


def is_saturated(deployment: Deployment, new: ReplicaSet | None) -> bool:
    """Whether the newest ReplicaSet has all the pods that the Deployment wants, available."""
    total = desired_replicas(deployment)
    return (
        new is not None
        and desired_replicas(new) == total == new.status.available_replicas
        and number(new.metadata.annotations.get(DESIRED, "")) == total
    )


def revision_of(item: ReplicaSet) -> int:
    """The number of a template in the history of its Deployment; 0 when it has none."""
    text = item.metadata.annotations.get(REVISION, "")
    return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text, re.ASCII) else 0


def sizes(deployment: Deployment) -> dict[str, str]:
    """How a ReplicaSet remembers the size of its Deployment, to notice when that is changed."""
    return {DESIRED: str(desired_replicas(deployment)), MAXIMUM: str(most(deployment))}


def new_annotations(deployment: Deployment, current: Mapping[str, str], revision: int) -> dict[str, str]:
    """What the newest ReplicaSet must be annotated with, beside what it has."""
    annotations = deployment.metadata.annotations.items()
    new = {key: value for key, value in annotations if key not in OWN_ANNOTATIONS and current.get(key) != value}
    before = current.get(REVISION, "")
    if not before:
        return {**new, REVISION: str(revision)}
    if re.fullmatch(r"-?[0-9]{1,19}", before, re.ASCII) and int(before) < revision:
        new |= {REVISION: str(revision), HISTORY: _history(current.get(HISTORY, ""), before)}
    return new


def _history(past: str, latest: str) -> str:
    revisions = [*past.split(","), latest] if past else [latest]
    while len(text := ",".join(revisions)) > _HISTORY_LENGTH:
        del revisions[0]
    return text


def has_deadline(deployment: Deployment) -> bool:
    """Whether the Deployment has a progress deadline."""
    return deployment.spec.progress_deadline_seconds not in (None, _NO_LIMIT)


def history_limit(deployment: Deployment) -> int | None:
    """How many old ReplicaSets are kept; None for all."""
    limit = deployment.spec.revision_history_limit
    return None if limit == _NO_LIMIT else limit


def condition(conditions: Iterable[Data], type_: str) -> Data | None:
    """The condition of a type."""
    return next((each for each in conditions if each.get("type") == type_), None)


def without(conditions: Iterable[Data], type_: str) -> list[Data]:
    """All conditions but that of a type."""
    return [each for each in conditions if each.get("type") != type_]


def with_condition(
    conditions: Sequence[Data], type_: str, status: str, reason: str, message: str, now: datetime
) -> list[Data]:
    """Conditions with one that is set, unless it is there with the same status and reason."""
    old = condition(conditions, type_)
    if old is not None and (old.get("status"), old.get("reason")) == (status, reason):
        return list(conditions)
    moment = timestamp(now)
    turned = old["lastTransitionTime"] if old is not None and old.get("status") == status else moment
    new = {
        "type": type_, "status": status, "lastUpdateTime": moment, "lastTransitionTime": turned,
        "reason": reason, "message": message,
    }  # fmt: skip
    return [*without(conditions, type_), new]


def is_complete(deployment: Deployment, status: Mapping[str, Any]) -> bool:
    """Whether all pods have the newest template and are available, and no others are left."""
    counts = (status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas"))
    is_current = status.get("observedGeneration", 0) >= deployment.metadata.generation
    return is_current and all(count == desired_replicas(deployment) for count in counts)


def has_progressed(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a rollout has progressed between two statuses."""

    def outdated(status: Mapping[str, Any]) -> int:
        return int(status.get("replicas", 0) - status.get("updatedReplicas", 0))

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return outdated(new) < outdated(old) or any(new.get(name, 0) > old.get(name, 0) for name in grown)


def deadline(deployment: Deployment, conditions: Iterable[Data]) -> datetime | None:
    """When the progress deadline of a rollout ends; None when it has none, or has ended."""
    seconds, current = deployment.spec.progress_deadline_seconds, condition(conditions, PROGRESSING)
    if seconds is None or not has_deadline(deployment) or current is None:
        return None
    if current.get("reason") in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded"):
        return None
    since = current.get("lastUpdateTime") or current.get("lastTransitionTime")
    return datetime.fromisoformat(since) + timedelta(seconds=seconds) if since else None
