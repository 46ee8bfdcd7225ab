"""What happened in the last hour before the page was opened, as far as events and pods tell."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.cluster import Event
from moorage.api.pod import Pod
from moorage.client import ApiError, Client
from moorage.page.timeline import HAPPENINGS_MAX, KEPT_SECONDS, SAMPLE_SECONDS, Happening, owner_of

_EVENT = kinds.row("v1", "Event")
_PAGES, _PAGE_SIZE = 4, 2500
_NODES = {
    "NodeNotSchedulable": "cordoned", "NodeSchedulable": "uncordoned",
    "NodeReady": "ready", "NodeNotReady": "not ready",
}  # fmt: skip
_ENDINGS = {
    "Preempted": "preempted", "TaintManagerEviction": "evicted", "DeviceTaintManagerEviction": "evicted",
}  # fmt: skip
_REASONS = ("Scheduled", "FailedScheduling", *_ENDINGS, *_NODES)


class _EventList(msgspec.Struct):
    metadata: dict[str, Any] = {}
    items: list[Event] | None = None


_ASSIGNED = re.compile(r"Successfully assigned \S+ to (\S+)")
_MARKED = re.compile(r"Marking for deletion Pod \S+?:? ?(?=taint|device|$)")


async def happened_before(client: Client, now: float) -> list[Happening]:
    """The happenings that events tell of, the oldest first; none when events may not be read."""
    found: list[Happening] = []
    for reason in _REASONS:
        try:
            found += [each async for event in _events(client, reason) if (each := _happening(event))]
        except ApiError:
            return []
    recent = [each for each in found if each.at > now - KEPT_SECONDS]
    # Events know seconds only: in one of them what makes room comes before who takes it.
    recent.sort(key=lambda each: (each.at, each.kind == "placed", each.kind == "waiting"))
    _add_where_from(recent)
    return recent[-HAPPENINGS_MAX:]


def _add_where_from(happenings: Iterable[Happening]) -> None:
    """Of pods that ended where they had been, which is what an event of their placement says."""
    places: dict[str, str] = {}
    for happening in happenings:
        if happening.kind == "placed":
            places[happening.subject] = happening.node
        elif happening.kind in ("evicted", "preempted"):
            happening.node = places.pop(happening.subject, "")
            happening.text = f"from {happening.node}" if happening.node else ""


async def _events(client: Client, reason: str) -> AsyncIterator[Event]:
    continue_ = ""
    for _ in range(_PAGES):
        body = await client.page(_EVENT, limit=_PAGE_SIZE, continue_=continue_, fields=f"reason={reason}")
        page = msgspec.json.decode(body, type=_EventList)
        for event in page.items or ():
            yield event
        continue_ = page.metadata.get("continue", "")
        if not continue_:
            return


def _happening(event: Event) -> Happening | None:
    """What an event tells, in the words of the timeline; None when it tells nothing that happened."""
    subject = event.involved_object
    moment = event.last_timestamp or event.event_time or event.first_timestamp
    if moment is None:
        return None
    name = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    said = Happening(0, moment.timestamp(), "node", name, _NODES.get(event.reason, ""), node=subject.name)
    if event.reason in _NODES:
        return said
    said.node = ""
    if event.reason == "Scheduled":
        found = _ASSIGNED.match(event.message)
        said.kind, said.node = "placed", found[1] if found else ""
        said.text = f"on {said.node}"
    elif event.reason == "FailedScheduling":
        said.kind, said.text, said.cause = "waiting", "fits no node", event.message
    elif event.message.startswith("Cancelling"):
        return None
    else:
        said.kind, said.text, said.cause = _ENDINGS[event.reason], "", _MARKED.sub("", event.message)
    return said


def add_owners(happenings: Iterable[Happening], pods: Iterable[Pod]) -> None:
    """Name the workloads of pods, which events do not tell: those that are gone are called as pods that are there."""
    owners: dict[str, str] = {}
    for pod in pods:
        if owner := owner_of(pod):
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            owners[name] = owners[_family(name)] = owner
    for happening in happenings:
        if not happening.owner:
            happening.owner = owners.get(happening.subject) or owners.get(_family(happening.subject), "")


def _family(name: str) -> str:
    """What the names of the pods of a workload have in common."""
    return name.rpartition("-")[0] + "-"


def pending_before(pods: Iterable[Pod], now: float) -> list[tuple[float, int]]:
    """How many of these pods waited for a node, and when: pairs of seconds since the epoch and a number."""
    start = now - KEPT_SECONDS
    steps: dict[float, int] = {}
    waiting = 0
    for begun, ended in _waits(pods):
        if ended is not None and ended < start:
            continue
        if begun < start:
            waiting += 1
        else:
            steps[_sample(begun)] = steps.get(_sample(begun), 0) + 1
        if ended is not None:
            steps[_sample(ended)] = steps.get(_sample(ended), 0) - 1
    samples = [(start, waiting)] if waiting else []
    for at, change in sorted(steps.items()):
        waiting += change
        samples.append((at, waiting))
    return samples


def _sample(at: float) -> float:
    return at - at % SAMPLE_SECONDS


def _waits(pods: Iterable[Pod]) -> Iterator[tuple[float, float | None]]:
    """From when to when each pod waited; None when it still does."""
    for pod in pods:
        if pod.metadata.creation_timestamp is None:
            continue
        placed = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
        begun = pod.metadata.creation_timestamp.timestamp()
        if not pod.spec.node_name:
            yield begun, None
        elif placed is not None and placed.last_transition_time is not None:
            yield begun, placed.last_transition_time.timestamp()
