"""What a cluster has that attach mode needs or meets, and what will not work there."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from moorage.api import kinds
from moorage.api.meaning import meaning
from moorage.api.meta import Data, Object
from moorage.api.pod import Pod
from moorage.api.rules import POD_RULES
from moorage.client import Client
from moorage.client.errors import Forbidden
from moorage.client.rights import is_allowed
from moorage.registry.pod.tolerations import WHITELIST
from moorage.scheduler.profile import DEFAULT_NAME
from moorage.scheduler.profile import scheduler_name as scheduler_of
from moorage.tools.attach.covers import LEASE_NAMESPACE, uncovered_daemons
from moorage.tools.attach.run import LEASES, AttachSettings, attached_evictors, attached_scheduler
from moorage.validation.attached import rule_errors

_POD, _NAMESPACE = kinds.row("v1", "Pod"), kinds.row("v1", "Namespace")
_OLDEST = (1, 30)
_ENABLED = re.compile(r'kubernetes_feature_enabled\{name="(\w+)",[^}]*\} (\d)')
_GATES = ("TaintTolerationComparisonOperators", "DRADeviceTaints", "DRADeviceTaintRules")


class NeededRight(NamedTuple):
    """A right that the scheduler and the evictors need."""

    purpose: str
    """What cannot be done without it."""
    group: str
    resource: str
    """The resource, or a subresource of it."""
    verbs: tuple[str, ...]
    is_optional: bool = False
    """Whether one can work without it."""

    def __str__(self) -> str:
        *first, last = self.verbs
        verbs = f"{', '.join(first)} and {last}" if first else last
        return f"{verbs} {self.resource}{self.group and '.' + self.group}"


_DEVICES = "resource.k8s.io"
_WRITES = (
    NeededRight("place pods", "", "pods/binding", ("create",)),
    NeededRight("tell whether a binding was done", "", "pods", ("get",)),
    NeededRight("say why a pod waits or leaves", "", "pods/status", ("patch",)),
    NeededRight("cover rules and write deadlines", "", "pods", ("patch",)),
    NeededRight("evict and preempt", "", "pods", ("delete",)),
    NeededRight("bind volumes", "", "persistentvolumes", ("patch",)),
    NeededRight("bind volumes", "", "persistentvolumeclaims", ("patch",)),
    NeededRight("allocate devices", _DEVICES, "resourceclaims", ("get", "patch")),
    NeededRight("allocate devices", _DEVICES, "resourceclaims/status", ("patch",)),
    NeededRight("allocate devices", _DEVICES, "resourceclaims/binding", ("patch",)),
    NeededRight("report events", "", "events", ("create", "patch")),
    NeededRight("lead", "coordination.k8s.io", "leases", ("get", "create", "update")),
)
"""Beside those to list and watch."""

_SEES_NATIVELY = (
    "sees native tolerations and affinity only: it may add nodes that rules refuse, and none for pods that wait for "
    "taints which only their rules tolerate"
)
_COMPANIONS = {
    "descheduler": "the descheduler's RemovePodsViolatingNodeTaints judges NoSchedule natively: it evicts pods that "
    "their rules let stay, and they are placed again: name those taints in its excludedTaints",
    "cluster-autoscaler": f"the cluster autoscaler {_SEES_NATIVELY}",
    "karpenter": f"Karpenter {_SEES_NATIVELY}",
}


class Outcome(Enum):
    """How a fact bears on attach mode."""

    WORKS = "ok"
    MIND = "mind"
    FAILS = "fails"


@dataclass(frozen=True, slots=True)
class AttachFact:
    """One fact about a cluster."""

    outcome: Outcome
    text: str

    def __str__(self) -> str:
        return f"{self.outcome.value:<6}{self.text}"


_NATIVE_SPELLINGS = AttachFact(
    Outcome.MIND,
    "kubectl's typed commands and stock API servers drop `expression` and `matchCELExpressions` in native fields, and "
    "these refuse the other native spellings unless the webhook moves them: write rules as annotations",
)


async def check(client: Client, scheduler_name: str) -> list[AttachFact]:
    """Everything that is known about a cluster without changing it."""
    facts = [await _version(client), *await _rights(client), await _gates(client), await _device_rules(client)]
    try:
        pods = [msgspec.json.decode(each, type=Pod) for each in (await client.list(_POD)).items]
        namespaces = [msgspec.json.decode(each, type=Object) for each in (await client.list(_NAMESPACE)).items]
    except Forbidden:
        return facts
    companions = _companions(pods, await _groups(client))
    found = [*companions, _schedulers(pods, scheduler_name), *_ruled(pods, scheduler_name)]
    return [*facts, *found, *await _daemons(client), *_whitelists(namespaces), _NATIVE_SPELLINGS]


async def _daemons(client: Client) -> list[AttachFact]:
    try:
        names = await uncovered_daemons(client)
    except Forbidden:
        return []
    what = "has rules and no cover, so its stock controller, which judges nodes natively, creates no pods by them"
    return [AttachFact(Outcome.MIND, f"DaemonSet {name} {what}: `moorage convert`") for name in names]


async def _version(client: Client) -> AttachFact:
    data = await _get(client, "/version")
    numbers = [int(re.sub(r"\D", "", str(data.get(name, ""))) or 0) for name in ("major", "minor")]
    version = data.get("gitVersion", "unknown")
    if tuple(numbers) < _OLDEST:
        return AttachFact(Outcome.MIND, f"Kubernetes {version}: what `attach manifests` prints needs 1.30 or newer")
    return AttachFact(Outcome.WORKS, f"Kubernetes {version}")


def needs(client: Client) -> list[NeededRight]:
    """All rights that the scheduler and the evictors need."""
    settings = AttachSettings()
    scheduler, evictors = attached_scheduler(client, settings), attached_evictors(client, settings)
    followed = {each.kind: each for each in (*scheduler.handle.informers, *evictors.context.informers)}
    reads = [
        NeededRight("follow the cluster", kind.group, kind.plural, ("list", "watch"), informer.is_optional)
        for kind, informer in sorted(followed.items(), key=lambda each: (each[0].group, each[0].plural))
    ]
    return [*reads, *_WRITES]


async def _rights(client: Client) -> list[AttachFact]:
    wanted = needs(client)
    missing = zip(wanted, await asyncio.gather(*(_lacks(client, each) for each in wanted)), strict=True)
    facts = [_lacking(need._replace(verbs=verbs)) for need, verbs in missing if verbs]
    if all(fact.outcome is not Outcome.FAILS for fact in facts):
        facts.insert(0, AttachFact(Outcome.WORKS, "all rights that the scheduler and the evictors need"))
    return facts


def _lacking(need: NeededRight) -> AttachFact:
    if need.is_optional:
        return AttachFact(Outcome.MIND, f"no right to {need}: they count as absent")
    return AttachFact(Outcome.FAILS, f"no right to {need}: cannot {need.purpose}")


async def _lacks(client: Client, need: NeededRight) -> tuple[str, ...]:
    """The verbs that are not allowed."""
    return tuple([verb for verb in need.verbs if not await _may(client, need.group, need.resource, verb)])


def _questions(group: str, resource: str, verb: str) -> list[Data]:
    """What to ask about a right. That to a lease may be for our leases alone; one to create cannot name them."""
    name, _, subresource = resource.partition("/")
    asked = {"group": group, "resource": name, "subresource": subresource, "verb": verb}
    if name != "leases":
        return [asked]
    named: tuple[Data, ...] = ({},) if verb == "create" else tuple({"name": each} for each in LEASES)
    return [{**asked, "namespace": LEASE_NAMESPACE, **each} for each in named]


async def _may(client: Client, group: str, resource: str, verb: str) -> bool:
    return all([await is_allowed(client, asked) for asked in _questions(group, resource, verb)])


async def _gates(client: Client) -> AttachFact:
    answer = await client.transport.request("GET", "/metrics")
    if answer.status != 200:
        return AttachFact(Outcome.MIND, "the gates of the API server are not known: /metrics may not be read")
    on = {name for name, value in _ENABLED.findall(answer.body.decode(errors="replace")) if value == "1"}
    shown = ", ".join(f"{name}={'true' if name in on else 'false'}" for name in _GATES)
    return AttachFact(Outcome.WORKS, f"gates of the API server: {shown}; rules in annotations need none")


async def _device_rules(client: Client) -> AttachFact:
    for version in ("v1", "v1beta2", "v1alpha3"):
        served = await _get(client, f"/apis/resource.k8s.io/{version}")
        if any(each.get("name") == "devicetaintrules" for each in served.get("resources", ())):
            return AttachFact(Outcome.WORKS, f"DeviceTaintRules are served (resource.k8s.io/{version})")
    return AttachFact(Outcome.MIND, "no DeviceTaintRules: only the taints that drivers publish count for devices")


async def _groups(client: Client) -> frozenset[str]:
    """The API groups that are served."""
    return frozenset(str(each.get("name")) for each in (await _get(client, "/apis")).get("groups", ()))


def _companions(pods: Iterable[Pod], groups: frozenset[str]) -> Iterator[AttachFact]:
    """Who else moves pods or adds nodes: known by images of pods, or by what is served for it."""
    images = {container.image for pod in pods for container in pod.spec.containers}
    for name, sentence in _COMPANIONS.items():
        if f"{name}.sh" in groups or any(name in image for image in images):
            yield AttachFact(Outcome.MIND, sentence)


def _schedulers(pods: Iterable[Pod], scheduler_name: str) -> AttachFact:
    counts = Counter({DEFAULT_NAME: 0, scheduler_name: 0})
    counts.update(map(scheduler_of, pods))
    shown = ", ".join(f"{name} ({count} pods)" for name, count in counts.most_common())
    race = "two that fill a node or give away a device at the same moment can overcommit it"
    return AttachFact(Outcome.MIND, f"several schedulers: {shown}: {race}")


def _ruled(pods: Iterable[Pod], scheduler_name: str) -> Iterator[AttachFact]:
    for pod in pods:
        known = meaning(pod.spec, pod.metadata.annotations)
        if known is None or not any(name in pod.metadata.annotations for name in POD_RULES):
            continue
        where = f"pod {pod.metadata.namespace}/{pod.metadata.name}"
        if problem := known.problem or "; ".join(map(str, rule_errors(known.rules))):
            yield AttachFact(Outcome.FAILS, f"{where}: {problem}")
        elif pod.spec.scheduler_name != scheduler_name:
            text = f"{where} has rules but schedulerName {scheduler_of(pod)}: nobody places it by them"
            yield AttachFact(Outcome.MIND, text)


def _whitelists(namespaces: Iterable[Object]) -> Iterator[AttachFact]:
    named = [each.metadata.name for each in namespaces if WHITELIST in each.metadata.annotations]
    if named:
        text = f"rules and their cover must be within the toleration whitelist of {', '.join(sorted(named))}"
        yield AttachFact(Outcome.MIND, text)


async def _get(client: Client, path: str) -> dict[str, Any]:
    """The object at a path; empty when there is none that can be read."""
    answer = await client.transport.request("GET", path)
    try:
        data = msgspec.json.decode(answer.body) if answer.status == 200 else {}
    except msgspec.DecodeError:
        return {}
    return data if isinstance(data, dict) else {}
