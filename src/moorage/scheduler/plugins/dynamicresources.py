"""DynamicResources: filters by free devices, allocates them, and writes the allocation into the claims."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from moorage.api.pod import Pod, PodResourceClaim
from moorage.api.resource import AllocationResult, ResourceClaim
from moorage.client import ApiError
from moorage.client.errors import is_race
from moorage.logs import Log
from moorage.scheduler.devices.answers import FAULTY, FITS, INVALID_POOLS, NOT_ENOUGH, PlanAnswers, devices
from moorage.scheduler.devices.plan import MOST_WAYS, Fault
from moorage.scheduler.devices.results import result_of, with_cover
from moorage.scheduler.devices.shortages import Shortages
from moorage.scheduler.devices.wording import shortage
from moorage.scheduler.devices.writing import MOST_USERS, ClaimWriter
from moorage.scheduler.explaining import by_frequency, explain_selector
from moorage.scheduler.framework import (
    SKIP,
    Cycle,
    Explained,
    Handle,
    Nomination,
    Plugin,
    Reject,
    Rejection,
    Scope,
    Skip,
    Told,
    normalized,
)
from moorage.scheduler.table.nodes import Mask, Rows, Scores
from moorage.scheduler.table.reach import Reaches
from moorage.scheduler.table.shape import PodInfo, Shape
from moorage.validation.attached import claim_errors

_LOG = Log(__name__)
_NOT_AVAILABLE = "resourceclaim not available on the node"
_REASONS = {
    NOT_ENOUGH: "cannot allocate all claims",
    INVALID_POOLS: "invalid resource pools were encountered",
}


class _NotYet(Exception):
    """A pod's claims are not as they must be before it can be placed."""


class _State:
    """What is known of the claims of a pod while it is placed."""

    __slots__ = ("allocations", "answers", "claims", "has", "lacks", "reserved")

    def __init__(self, claims: list[ResourceClaim]) -> None:
        self.claims = claims
        self.has = [claim for claim in claims if claim.status.allocation is not None]
        self.lacks = [claim for claim in claims if claim.status.allocation is None]
        self.answers: PlanAnswers | None = None
        self.allocations: dict[str, AllocationResult] = {}
        """What was chosen for claims, by uid."""
        self.reserved: list[ResourceClaim] = []
        """The claims that were reserved for the pod on the way."""


class DynamicResources(Plugin):
    """Asks for devices once for all nodes that can use the same ones; see `moorage.scheduler.devices`."""

    name = "DynamicResources"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self.devices = devices(handle, self.name)
        self._writer = ClaimWriter(handle.client, self.devices.ledger, handle.clock)
        self._reaches = Reaches(handle.table, handle.gates, handle.label_error)
        self._tasks: set[asyncio.Task[None]] = set()
        self._explained: WeakKeyDictionary[PlanAnswers, tuple[Hashable, list[Explained]]] = WeakKeyDictionary()
        """What was said when, of the devices that somebody asks for."""

    def applies(self, shape: Shape) -> bool:
        """Whether the pod has claims."""
        return bool(shape.spec.resource_claims)

    def pre_enqueue(self, pod: PodInfo) -> str:
        """Which claims have not been created yet."""
        try:
            for entry in pod.pod.spec.resource_claims:
                _claim_name(pod.pod, entry)
        except _NotYet as problem:
            return str(problem)
        return ""

    def warm(self, pod: PodInfo) -> Iterator[None]:
        """Look for devices everywhere."""
        try:
            lacks = [claim for claim in self._claims_of(pod.pod) if claim.status.allocation is None]
            answers = self.devices.answers(lacks) if lacks else None
        except (_NotYet, Fault):
            return
        if answers is not None:
            yield from self.devices.inventory.steps()
            yield from answers.steps()

    def pre_filter(self, cycle: Cycle) -> Skip | Reject | None:
        """Find the claims, and what is known about devices for those that have none."""
        cycle.data.pop(self.name, None)
        try:
            state = _State(list(self._claims_of(cycle.pod.pod)))
        except _NotYet as problem:
            return Reject(str(problem))
        if not state.claims:
            return SKIP
        for claim in state.has:
            users = claim.status.reserved_for
            if len(users) >= MOST_USERS and not _is_reserved(claim, cycle.pod.pod):
                return Reject("resourceclaim in use")
        for claim in state.lacks:
            if self.devices.ledger.is_reserved(claim.metadata.uid):
                return Reject(f"resource claim {_full_name(claim)} is in the process of being allocated")
            if wrong := self._missing_class(claim) or _refused_rules(claim):
                return Reject(wrong)
        if state.lacks:
            try:
                state.answers = self.devices.answers(state.lacks)
            except Fault as fault:
                return Reject(fault.sentence(state.lacks))
            self.devices.inventory.sync()
        cycle.data[self.name] = state
        return None

    def _claims_of(self, pod: Pod) -> Iterator[ResourceClaim]:
        """The claims of a pod, each once. Raises _NotYet."""
        seen: set[str] = set()
        for entry in pod.spec.resource_claims:
            name = _claim_name(pod, entry)
            if not name or name in seen:
                continue
            seen.add(name)
            claim = self.devices.ledger.get(pod.metadata.namespace, name)
            if claim is None:
                raise _NotYet(f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"')
            if claim.metadata.deletion_timestamp is not None:
                raise _NotYet(f'resourceclaim "{name}" is being deleted')
            if entry.resource_claim_name is None and not _is_of(claim, pod):
                whole = f"{pod.metadata.namespace}/{pod.metadata.name}"
                raise _NotYet(f"ResourceClaim {_full_name(claim)} was not created for Pod {whole} (Pod is not owner)")
            yield claim

    def _missing_class(self, claim: ResourceClaim) -> str:
        for request in claim.spec.devices.requests:
            ways = {request.name: request.exactly.device_class_name} if request.exactly else {}
            ways |= {f"{request.name}/{way.name}": way.device_class_name for way in request.first_available}
            if not ways:
                return f"resource claim {_full_name(claim)}, request {request.name}: unknown request type"
            for name, class_name in ways.items():
                if self.devices.classes.get("", class_name) is None:
                    return f"request {name}: device class {class_name} does not exist"
        return ""

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """What claims have can be used on the node, and what they lack is to be had there."""
        state: _State = cycle.data[self.name]
        mask = self._available(state.has, rows)
        return mask & (state.answers.codes(rows) == FITS) if state.answers else mask

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """Devices that are lacking count before devices that are elsewhere."""
        state: _State = cycle.data[self.name]
        if state.answers is not None:
            codes = state.answers.codes(rows)
            for code, reason in _REASONS.items():
                yield from _rejections(reason, rows[codes == code], state.answers)
            yield from self._faults(state, state.answers, rows[codes == FAULTY])
            rows = rows[codes == FITS]
        if len(rows):
            yield Rejection(_NOT_AVAILABLE, rows)

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """How many devices each request finds on a node, and what is wrong with them."""
        state: _State = cycle.data[self.name]
        if state.answers is not None:
            codes = state.answers.codes(rows)
            for row in rows[codes == FAULTY].tolist():
                sentence = state.answers.fault(row).sentence(state.lacks)
                yield Told("fault", "devices", sentence, np.array([row], np.intp))
            short = rows[(codes == NOT_ENOUGH) | (codes == INVALID_POOLS)]
            for same in state.answers.grouped(short):
                reason = shortage(state.answers.plan, state.answers.views(int(same[0])), self.devices.ledger.taken,
                                  self.handle.gates)  # fmt: skip
                yield Told("devices", f"claim {', '.join(map(_full_name, state.lacks))}", reason, same)
        for claim in state.has:
            beyond = rows[~self._available([claim], rows)]
            if len(beyond):
                yield Told("elsewhere", f"claim {_full_name(claim)}", "its devices are on another node", beyond)

    def explain(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Explained]:
        """Which devices cannot be had and why, and from where those can be used that the claims have."""
        state: _State = cycle.data[self.name]
        if state.answers is not None:
            codes = state.answers.codes(rows)
            yield from self._shortages(state.answers, rows[(codes == NOT_ENOUGH) | (codes == INVALID_POOLS)])
            rows = rows[codes == FITS]
        for claim in state.has:
            if claim.status.allocation is not None and (selector := claim.status.allocation.node_selector):
                reach = self._reaches.of(selector)
                subject, beyond = f"devices of claim {claim.metadata.name}", rows[~reach.mask(rows)]
                yield from explain_selector(self.handle.table, subject, reach.selector, beyond)

    def _shortages(self, answers: PlanAnswers, rows: NDArray[np.intp]) -> list[Explained]:
        """What these rows lack; kept for the next pod that asks for the same."""
        inventory = self.devices.inventory
        now = inventory.epoch, inventory.version, inventory.turnover, rows.tobytes()
        known = self._explained.get(answers)
        if known is None or known[0] != now:
            supplies = inventory.of_row[rows]
            told = Shortages(answers.plan, self.devices.ledger.taken, self.handle.gates)
            words = by_frequency(supplies, lambda place: told(inventory.supplies[supplies[place]].views))
            known = self._explained[answers] = now, list(words) if len(rows) else []
        return known[1]

    def _faults(self, state: _State, answers: PlanAnswers, rows: NDArray[np.intp]) -> Iterator[Rejection]:
        by_sentence: dict[str, list[int]] = {}
        for row in rows.tolist():
            by_sentence.setdefault(answers.fault(row).sentence(state.lacks), []).append(row)
        for sentence, faulty in by_sentence.items():
            self.handle.device_error(sentence)
            yield Rejection(sentence, np.array(faulty, np.intp), parse_error=True)

    def post_filter(self, cycle: Cycle, rejections: Mapping[str, list[Rejection]]) -> Nomination:
        """Take the devices from a claim that nobody uses yet, when they are in the wrong place."""
        pod = cycle.pod.pod
        if not pod.spec.resource_claims:
            return Nomination(message="no new claims to deallocate")
        for entry in pod.spec.resource_claims:
            if name := _claim_name_if_any(pod, entry):
                self.devices.waiting.note((pod.metadata.namespace, name))
        state: _State | None = cycle.data.get(self.name)
        if state is None:
            return Nomination()
        rows = [rejection.rows for rejection in rejections.get(self.name, ()) if rejection.reason == _NOT_AVAILABLE]
        misplaced = [
            claim
            for claim in state.has
            if all(user.uid == cycle.pod.uid for user in claim.status.reserved_for)
            and any(not self._available([claim], rejected).all() for rejected in rows)
        ]
        if not misplaced:
            return Nomination(message="still not schedulable")
        claim = self.handle.random.choice(misplaced)
        return Nomination(message="deallocation of ResourceClaim completed", act=lambda: self._writer.deallocate(claim))

    def pre_score(self, cycle: Cycle) -> Skip | None:
        """Whether some devices are better than others."""
        state: _State | None = cycle.data.get(self.name)
        return None if state and state.answers and state.answers.plan.has_choices else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The earlier a request is satisfied in its list of ways, the better."""
        state: _State = cycle.data[self.name]
        assert state.answers is not None  # pre_score saw to it
        return state.answers.scores(rows) + sum(map(_preference, state.has))

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """The best is 100."""
        return normalized(scores)

    def reserve(self, cycle: Cycle, node: str) -> str:
        """Choose devices for the claims that have none, and keep others from getting them."""
        state: _State | None = cycle.data.get(self.name)
        if state is None or state.answers is None:
            return ""
        plan = state.answers.plan
        try:
            picks = state.answers.picks(self.handle.table.rows[node])
            by_claim = zip(plan.claims, picks or (), strict=False)
            chosen = [result_of(claim, claim_picks, node) for claim, claim_picks in by_claim]
        except Fault as fault:
            return fault.sentence(state.lacks)
        if len(chosen) < len(state.lacks):
            return "claim allocation not found for node"
        for claim, allocation in zip(state.lacks, chosen, strict=True):
            state.allocations[claim.metadata.uid] = written = with_cover(claim, allocation)
            self.devices.ledger.reserve(claim, written)
        return ""

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Give back what is not written, and the reservations of what is."""
        state: _State | None = cycle.data.get(self.name)
        if state is None:
            return
        for claim in state.claims:
            if claim.metadata.uid in state.allocations and self.devices.ledger.withdraw(claim.metadata.uid):
                self.devices.wake()
        for claim in state.reserved:
            self._begin(self._unreserve(claim, cycle.pod.pod))

    async def _unreserve(self, claim: ResourceClaim, pod: Pod) -> None:
        try:
            await self._writer.unreserve(claim, pod)
        except ApiError as error:
            _LOG.warning("Reservation not taken back", benign=is_race(error), claim=_full_name(claim), err=error)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def pre_bind(self, cycle: Cycle, node: str) -> None:
        """Write down the devices, and that the pod uses the claims."""
        state: _State | None = cycle.data.get(self.name)
        if state is None:
            return
        for claim in state.claims:
            await self._writer.reserve(claim, state.allocations.get(claim.metadata.uid), cycle.pod.pod)
            state.reserved.append(claim)

    def _available(self, claims: list[ResourceClaim], rows: Rows) -> Mask:
        """Where the devices that claims have can be used."""
        mask = np.ones(len(self.handle.table.alive[rows]), np.bool_)
        for claim in claims:
            if claim.status.allocation is not None and (selector := claim.status.allocation.node_selector):
                mask &= self._reaches.of(selector).mask(rows)
        return mask


def _rejections(reason: str, rows: NDArray[np.intp], answers: PlanAnswers) -> Iterator[Rejection]:
    """Rows without enough devices, those apart where the taints of a device cannot be compared."""
    unclear = answers.unclear(rows)
    for is_error, rejected in ((False, rows[~unclear]), (True, rows[unclear])):
        if len(rejected):
            yield Rejection(reason, rejected, parse_error=is_error)


def _claim_name(pod: Pod, entry: PodResourceClaim) -> str:
    """The claim that an entry of a pod stands for, empty when none is needed. Raises _NotYet."""
    where = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise _NotYet(f'{where}, spec.resourceClaim "{entry.name}": none of the supported fields are set')
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name or ""
    raise _NotYet(f"{where}: ResourceClaim not created yet")


def _claim_name_if_any(pod: Pod, entry: PodResourceClaim) -> str:
    try:
        return _claim_name(pod, entry)
    except _NotYet:
        return ""


def _full_name(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _is_of(claim: ResourceClaim, pod: Pod) -> bool:
    return any(owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references)


def _is_reserved(claim: ResourceClaim, pod: Pod) -> bool:
    return any(user.uid == pod.metadata.uid for user in claim.status.reserved_for)


def _preference(claim: ResourceClaim) -> int:
    """How good the ways are by which the requests of a claim were satisfied."""
    allocation = claim.status.allocation
    satisfied = {result.request for result in allocation.devices.results} if allocation else set()
    return sum(
        MOST_WAYS - at
        for request in claim.spec.devices.requests
        for at, way in enumerate(request.first_available)
        if f"{request.name}/{way.name}" in satisfied
    )


def _refused_rules(claim: ResourceClaim) -> str:
    errors = claim_errors(claim.metadata.annotations, claim.spec.devices) if claim.metadata.annotations else ()
    return next((f"resource claim {_full_name(claim)}: {error}" for error in errors), "")
