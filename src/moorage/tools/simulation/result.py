"""What a simulation answers, as data: documented in docs/answers.md."""

from __future__ import annotations

from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class AnswerPart(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the answer; its fields are spelled as in JSON."""


class MovedPod(AnswerPart):
    """A pod that was replaced by another one on a node."""

    pod: str
    source: str = msgspec.field(name="from")
    replacement: str
    to: str
    at: float
    """Seconds after the first change until the replacement had its node."""
    owner: str
    cause: str


class EvictedPod(AnswerPart):
    """A pod that had to leave its node."""

    pod: str
    node: str
    at: float
    cause: str
    replaced_by: str = ""


class PendingPod(AnswerPart):
    """A pod without a node."""

    pod: str
    reason: str
    """The scheduler's own message."""
    owner: str
    replaces: str = ""
    """The pod in whose place it is."""


class PlacedPod(AnswerPart):
    """A pod that is new, or had no node before."""

    pod: str
    node: str
    at: float
    owner: str


class GonePod(AnswerPart):
    """A pod that nobody replaces."""

    pod: str
    node: str
    at: float
    cause: str


class BlockedEviction(AnswerPart):
    """An eviction that a disruption budget does not allow."""

    pod: str
    node: str
    budget: str
    message: str


class RestlessOwner(AnswerPart):
    """A workload whose replacements are evicted, too, again and again."""

    owner: str
    evictions: int
    """How many pods that were created in the simulation were evicted in it."""
    cause: str


class NotCreated(AnswerPart):
    """A workload that cannot create its pods, or an object that is not admitted."""

    object: str
    message: str


class ResourceShare(AnswerPart):
    """How much of a resource is requested, of how much."""

    requested: int
    allocatable: int


class GroupUse(AnswerPart):
    """The nodes of a group, and what is requested of them: cpu in milli-cores, memory in bytes."""

    group: str
    nodes: int
    pods: int
    cpu: ResourceShare
    memory: ResourceShare


class GroupChange(AnswerPart):
    """A group of nodes before and after."""

    group: str
    before: GroupUse | None
    after: GroupUse | None


class TimelineEntry(AnswerPart):
    """One line of the timeline."""

    at: float
    what: str


class Effects(AnswerPart):
    """What happened between two moments."""

    moved: list[MovedPod] = []
    evicted: list[EvictedPod] = []
    pending: list[PendingPod] = []
    placed: list[PlacedPod] = []
    lost: list[GonePod] = []
    """Evicted, and nobody replaces them."""
    deleted: list[GonePod] = []
    """Deleted by whoever owns them, or by a change."""
    finished: list[GonePod] = []
    blocked: list[BlockedEviction] = []
    restless: list[RestlessOwner] = []
    refused: list[NotCreated] = []

    @property
    def is_harmless(self) -> bool:
        """Whether nothing ends Pending, evicted for good or again and again, blocked or refused."""
        return not (self.pending or self.lost or self.blocked or self.restless or self.refused)


class Difference(AnswerPart):
    """A pod that two configurations place differently; the name of a node is empty when it has none."""

    pod: str
    first: str
    second: str


class Configured(AnswerPart):
    """What one of the configurations leads to."""

    configuration: str
    pending: list[PendingPod]
    utilization: list[GroupUse]


class SchedulerComparison(AnswerPart):
    """Two scheduler configurations on the same pods."""

    pods: int
    """How many pods were to be placed."""
    first: Configured
    second: Configured
    differences: list[Difference]
    assumptions: list[str]


class Simulation(AnswerPart):
    """The whole answer."""

    changes: list[str]
    """The changes in their order, as commands."""
    before: Effects
    """What was under way already, without the changes."""
    after: Effects
    """What the changes lead to; without changes, the same as `before`."""
    still_pending: list[PendingPod]
    """Pods that had no node before the changes, and have none after them."""
    utilization: list[GroupChange]
    seconds: float
    """How much time has passed since the first change."""
    at_rest: bool
    """Whether nothing would happen any more."""
    nodes: int
    pods: int
    assumptions: list[str]
    timeline: list[TimelineEntry]

    @property
    def is_harmless(self) -> bool:
        """Whether nothing is lost."""
        return self.after.is_harmless
