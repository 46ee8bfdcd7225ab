"""What is under rules in a running cluster, and how its covers are retired."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from moorage.api import kinds
from moorage.api.cluster import Lease
from moorage.api.meaning import cover_places
from moorage.api.meta import Data
from moorage.api.pod import Pod, Toleration
from moorage.api.resource import ResourceClaim
from moorage.api.rules import COVER, POD_RULES, Rules, rules_of, text_of
from moorage.api.workload import DaemonSet, Job
from moorage.client import Client, Missing
from moorage.client.client import JSON_PATCH
from moorage.client.clock import timestamp
from moorage.client.errors import Forbidden
from moorage.controllers.frame.pods import is_finished
from moorage.controllers.workloads.jobstate import has_ended
from moorage.match.tolerations import NO_EXECUTE
from moorage.tools.attach.run import LEASES
from moorage.validation.attached import is_uncovered_daemon

_POD, _LEASE = kinds.row("v1", "Pod"), kinds.row("coordination.k8s.io/v1", "Lease")
_CLAIM = kinds.row("resource.k8s.io/v1", "ResourceClaim")
_DAEMON_SET = kinds.row("apps/v1", "DaemonSet")
_WORKLOADS = tuple(kind for kind in kinds.KINDS if kind.pod_spec and kind.kind not in ("Pod", "PodTemplate"))
LEASE_NAMESPACE = "kube-system"
_EVICTION = "DisruptionTarget"


@dataclass(frozen=True, slots=True)
class RuledPod:
    """A pod with rules, or with the cover of rules."""

    pod: Pod
    rules: Rules

    @property
    def name(self) -> str:
        """Namespace and name."""
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def has_rules(self) -> bool:
        """Whether there are rules, and not only the cover of rules that are gone."""
        return any(name in self.pod.metadata.annotations for name in POD_RULES)

    @property
    def cover(self) -> tuple[int, ...]:
        """The places of those of its native tolerations that are recorded as a cover; none when that is not known."""
        return () if self.rules.cover is None else tuple(sorted(cover_places(self.pod.spec.tolerations, self.rules)))

    @property
    def is_endless(self) -> bool:
        """Whether a part of its cover cannot be given seconds: that of a DaemonSet, which is for all effects."""
        return any(self.pod.spec.tolerations[place].effect != NO_EXECUTE for place in self.cover)


async def ruled_pods(client: Client) -> list[RuledPod]:
    """All pods with rules or a cover that have not ended."""
    pods = (msgspec.json.decode(each, type=Pod) for each in (await client.list(_POD)).items)
    found = ((pod, rules_of(pod.metadata.annotations)) for pod in pods if not is_finished(pod))
    return [RuledPod(pod, rules) for pod, rules in found if rules is not None]


async def uncovered_daemons(client: Client) -> list[str]:
    """The DaemonSets with rules whose template has no cover, by namespace and name."""
    found = (msgspec.json.decode(each, type=DaemonSet) for each in (await client.list(_DAEMON_SET)).items)
    return [f"{each.metadata.namespace}/{each.metadata.name}" for each in found if is_uncovered_daemon(each)]


async def workloads_of(client: Client, scheduler_name: str) -> list[str]:
    """The workloads whose next pods a scheduler places, by kind, namespace and name; not those that another owns."""
    found = []
    for kind in _WORKLOADS:
        try:
            listed = (await client.list(kind)).items
        except (Missing, Forbidden):
            continue
        for item in (msgspec.json.decode(each, type=kind.struct) for each in listed):
            spec, metadata = kind.pod_spec_of(item), item.metadata
            is_owned = any(owner.controller for owner in metadata.owner_references)
            is_over = is_owned or (isinstance(item, Job) and has_ended(item))
            if spec is not None and spec.scheduler_name == scheduler_name and not is_over:
                found.append(f"{kind.kind} {metadata.namespace}/{metadata.name}")
    return found


@dataclass(frozen=True, slots=True)
class Leader:
    """Who holds one of the leases of attach mode."""

    name: str
    holder: str = ""
    lapsed: str = ""
    """Since when the holder has not renewed it, when that is too long ago; empty when it does."""
    renewed: datetime | None = None

    @property
    def is_held(self) -> bool:
        """Whether somebody is at work."""
        return bool(self.holder) and not self.lapsed

    def __str__(self) -> str:
        if self.lapsed:
            return f"{self.name}: held by nobody: {self.holder} renewed it last at {self.lapsed}"
        return f"{self.name}: {self.holder or 'held by nobody'}"


async def leaders(client: Client, now: datetime) -> list[Leader]:
    """Who places and who evicts, by the leases."""
    found = []
    for name in LEASES:
        try:
            lease = msgspec.json.decode(await client.get(_LEASE, LEASE_NAMESPACE, name), type=Lease)
        except Missing:
            found.append(Leader(name))
            continue
        spec = lease.spec
        renewed, lasts = spec.renew_time or now, timedelta(seconds=spec.lease_duration_seconds or 0)
        lapsed = timestamp(renewed) if spec.holder_identity and renewed + lasts < now else ""
        found.append(Leader(name, spec.holder_identity or "", lapsed, spec.renew_time))
    return found


async def covered_claims(client: Client) -> list[str]:
    """The device claims in whose allocation is a cover."""
    try:
        claims = (await client.list(_CLAIM)).items
    except Missing:
        return []
    found = (msgspec.json.decode(each, type=ResourceClaim) for each in claims)
    return [
        f"ResourceClaim {each.metadata.namespace}/{each.metadata.name}"
        for each in found
        if COVER in each.metadata.annotations and each.status.allocation is not None
    ]


def states(pods: Iterable[RuledPod], scheduler_name: str) -> Counter[str]:
    """How many pods under rules are in each state."""
    return Counter(state for each in pods for state in _states(each, scheduler_name))


def _states(ruled: RuledPod, scheduler_name: str) -> Iterator[str]:
    pod = ruled.pod
    if not ruled.has_rules:
        yield "whose rules are gone"
    if pod.spec.scheduler_name != scheduler_name:
        yield "that another scheduler places, without their rules"
    if not pod.spec.node_name:
        yield "that wait"
    elif "moorage.dev/evict-at" in pod.metadata.annotations:
        yield "that must leave at a time that is set"
    elif any(each.type == _EVICTION and each.status == "True" for each in pod.status.conditions):
        yield "that leave"
    else:
        yield "on a node"


async def expire_covers(client: Client, pods: Iterable[RuledPod], seconds: int) -> AsyncIterator[RuledPod]:
    """Set how long the recorded cover of each pod tolerates, so that whoever evicts natively decides after that."""
    for ruled in pods:
        if patch := _expiry(ruled, seconds):
            metadata = ruled.pod.metadata
            with suppress(Missing):
                await client.patch(_POD, metadata.namespace, metadata.name, patch, form=JSON_PATCH)
                yield ruled


def _expiry(ruled: RuledPod, seconds: int) -> list[Data]:
    pod, places = ruled.pod, ruled.cover
    lasting = [index for index in places if _may_end(pod.spec.tolerations[index])]
    if not lasting:
        return []
    expired = tuple(replace(pod.spec.tolerations[index], toleration_seconds=seconds) for index in lasting)
    rest = tuple(pod.spec.tolerations[index] for index in places if index not in lasting)
    patch: list[Data] = [{"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid}]
    for index, toleration in zip(lasting, expired, strict=True):
        place, before = f"/spec/tolerations/{index}", msgspec.to_builtins(pod.spec.tolerations[index])
        patch.append({"op": "test", "path": place, "value": before})
        patch.append({"op": "add", "path": f"{place}/tolerationSeconds", "value": toleration.toleration_seconds})
    path = f"/metadata/annotations/{COVER.replace('/', '~1')}"
    return [*patch, {"op": "add", "path": path, "value": text_of((*expired, *rest))}]


def _may_end(toleration: Toleration) -> bool:
    """Only what is for eviction alone may have seconds; a DaemonSet's cover of all effects may not."""
    return toleration.effect == NO_EXECUTE and toleration.toleration_seconds is None


async def forget_leases(client: Client) -> None:
    """Remove the leases of attach mode."""
    for name in LEASES:
        with suppress(Missing):
            await client.delete(_LEASE, LEASE_NAMESPACE, name)
