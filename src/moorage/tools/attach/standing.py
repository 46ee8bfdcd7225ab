"""How attach mode does in a cluster: who leads, whether the webhook answers, pods under rules, the last evictions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from moorage.api import kinds
from moorage.api.cluster import Event
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.api.rules import TOLERATIONS
from moorage.api.workload import Deployment
from moorage.client import ApiError, Client, Missing, errors
from moorage.client.clock import Clock, timestamp
from moorage.client.errors import Forbidden, Invalid
from moorage.controllers.frame.controller import attached_name
from moorage.scheduler.profile import scheduler_name as scheduler_of
from moorage.tools.attach.covers import RuledPod, leaders, ruled_pods, states, uncovered_daemons
from moorage.tools.attach.run import EVICTORS
from moorage.tools.attach.webhook.certificates import CONFIGURATION
from moorage.tools.attach.webhook.server import SERVICE

_CONFIGURATION = Kind(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations",
    namespaced=False,
)  # fmt: skip
_PODS = "/api/v1/namespaces/default/pods?dryRun=All"
_EVENT, _DEPLOYMENT = kinds.row("v1", "Event"), kinds.row("apps/v1", "Deployment")
_LISTED = 10
_CONTAINER: Data = {
    "name": "none",
    "image": "none",
    "securityContext": {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}  # fmt: skip
"""Nothing that a Pod Security Standard refuses before the webhook is asked."""
_PROBE: Data = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "moorage-status-", "annotations": {TOLERATIONS: "no list"}},
    "spec": {"containers": [_CONTAINER]},
}
"""A pod that the webhook refuses. It is only tried (dryRun), so nothing is created when nobody refuses it."""


async def standing(client: Client, scheduler_name: str, namespace: str) -> AsyncIterator[str]:
    """What there is to say, line by line."""
    for line in await _leaders(client):
        yield line
    yield f"webhook: {await webhook_health(client, namespace)}"
    pods = await ruled_pods(client)
    yield f"pods under rules: {len(pods)}"
    for state, count in sorted(states(pods, scheduler_name).items()):
        yield f"  {count} {state}"
    for line in _unapplied(pods, scheduler_name):
        yield line
    for line in await _daemons(client):
        yield line
    for line in await _last_evictions(client):
        yield line


async def _leaders(client: Client) -> list[str]:
    try:
        return [str(each) for each in await leaders(client, Clock().now())]
    except Forbidden as error:
        return [f"leaders: not known: {error}"]


async def webhook_health(client: Client, namespace: str) -> str:
    """Whether the API server gets answers of the webhook, and how many of its replicas are ready."""
    try:
        await client.get(_CONFIGURATION, "", CONFIGURATION)
    except Missing:
        return "not installed"
    except Forbidden as error:
        return f"not known: {error}"
    return f"{await _answers(client)}{await _replicas(client, namespace)}"


async def _answers(client: Client) -> str:
    """Whether it refuses what it must refuse, asked as the API server asks it."""
    body = msgspec.json.encode(_PROBE)
    answer = await client.transport.request("POST", _PODS, body, "application/json")
    if answer.status < 300:
        return "does not check rules: the API server takes what it must refuse"
    error = errors.of(answer.status, answer.body)
    if isinstance(error, Invalid):
        return "answers"
    return f"not known: {error}" if isinstance(error, Forbidden) else f"does not answer: {error}"


async def _replicas(client: Client, namespace: str) -> str:
    try:
        found = msgspec.json.decode(await client.get(_DEPLOYMENT, namespace, SERVICE), type=Deployment)
    except ApiError:
        return ""
    return f", {found.status.ready_replicas} of {found.spec.replicas} replicas are ready"


def _unapplied(pods: Sequence[RuledPod], scheduler_name: str) -> Iterator[str]:
    """The pods whose rules nobody applies when they are placed."""
    found = [each for each in pods if each.has_rules and each.pod.spec.scheduler_name != scheduler_name]
    if found:
        yield f"pods with rules that nobody applies, because {scheduler_name} does not place them: {len(found)}"
    yield from _first([f"{each.name}: schedulerName {scheduler_of(each.pod)}" for each in found])


async def _daemons(client: Client) -> list[str]:
    """The DaemonSets that their stock controller judges without their rules."""
    try:
        names = await uncovered_daemons(client)
    except Forbidden as error:
        return [f"DaemonSets with rules and no cover: not known: {error}"]
    if not names:
        return []
    head = f"DaemonSets with rules and no cover, which the stock controller judges natively: {len(names)}"
    return [head, *_first(names)]


def _first(lines: Sequence[str]) -> Iterator[str]:
    """Some lines of many."""
    for line in lines[:_LISTED]:
        yield f"  {line}"
    if len(lines) > _LISTED:
        yield f"  and {len(lines) - _LISTED} more"


async def _last_evictions(client: Client) -> list[str]:
    reporters = {attached_name(each.name) for each in EVICTORS}
    reasons = sorted({each.cause.event for each in EVICTORS})
    try:
        listed = [each for reason in reasons for each in (await client.list(_EVENT, fields=f"reason={reason}")).items]
    except Forbidden as error:
        return [f"last evictions: not known: {error}"]
    found: list[tuple[str, Event]] = []
    for data in listed:
        event = msgspec.json.decode(data, type=Event)
        at = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
        if event.source.component in reporters and at is not None:
            found.append((timestamp(at), event))
    found.sort(key=lambda each: each[0], reverse=True)
    lines = [
        f"  {at} {event.involved_object.namespace}/{event.involved_object.name}: {event.message}"
        for at, event in found[:_LISTED]
    ]
    return [f"last evictions: {'none that is known' if not lines else ''}".rstrip(), *lines]
