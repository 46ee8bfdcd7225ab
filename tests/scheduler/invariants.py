"""What must be true whenever nothing happens any more."""

from __future__ import annotations

import msgspec

from moorage.api.claims import class_of, is_bound, is_for, waits_for_consumer
from moorage.api.node import Taint
from moorage.api.pod import Pod
from moorage.client import Client
from moorage.features import ALL_ON
from moorage.match.tolerations import Tolerations
from moorage.scheduler.devices.answers import Devices
from moorage.scheduler.scheduler import Scheduler
from moorage.scheduler.volumes.claims import volumes_of
from tests.plane import read_all
from tests.scheduler.devices.claimreference import OVER, ClaimReference, DeviceName
from tests.scheduler.placement_checker import KINDS
from tests.scheduler.stage import Stage
from tests.scheduler.test_columns import check_table


async def fits_nowhere(here: Stage) -> bool:
    """Whether no pod waits that a node would do for, and the scheduler has counted what there is."""
    _check_scheduler(here.scheduler, *await counted(here.client))
    return True


async def at_rest(here: Stage) -> bool:
    """Whether controllers have done what is theirs as well."""
    truth, waiting = await counted(here.client)
    _check_volumes(truth)
    _check_devices(truth)
    _check_evicted(truth)
    _check_scheduler(here.scheduler, truth, waiting)
    return not here.scheduler.tasks


def _check_scheduler(scheduler: Scheduler, truth: ClaimReference, waiting: list[Pod]) -> None:
    for each in waiting:
        found = [node.metadata.name for node in truth.feasible(each)]
        assert not found, f"{each.metadata.name} would fit on {found} and waits: {each.status.conditions}"
    assert set(scheduler.queue.pods) == {each.metadata.uid for each in waiting}
    assert not scheduler.assumed
    check_table(scheduler.table, truth)
    _check_kept(scheduler, truth)


async def pods(client: Client) -> list[Pod]:
    """All pods."""
    return [msgspec.convert(each, Pod) for each in await read_all(client, "Pod")]


async def counted(client: Client) -> tuple[ClaimReference, list[Pod]]:
    """What the API has, and the pods that wait for a node."""
    truth = ClaimReference(ALL_ON)
    for kind in KINDS:
        for item in (await client.list(kind)).items:
            truth.see(msgspec.json.decode(item, type=kind.struct))
    every = await pods(client)
    waiting = [each for each in every if not each.spec.node_name and each.metadata.deletion_timestamp is None]
    return truth, [each for each in waiting if each.status.phase not in OVER]


def _check_kept(scheduler: Scheduler, truth: ClaimReference) -> None:
    """The scheduler has counted each device once that was given away, and reserves nothing any more."""
    for kept in scheduler.handle.shared.values():
        if isinstance(kept, Devices):
            taken = {DeviceName(*name): number for name, number in kept.ledger.taken.items()}
            assert taken == dict.fromkeys(truth.holders(), 1)
            assert not kept.ledger.assumed
    assert not volumes_of(scheduler.handle).has_assumptions


def _check_volumes(truth: ClaimReference) -> None:
    for claim in truth.claims.values():
        name = claim.metadata.name
        if is_bound(claim):
            volume = truth.volumes.get(claim.spec.volume_name)
            fits = volume is not None and is_for(volume, claim) and volume.status.phase == "Bound"
            assert claim.status.phase == ("Bound" if fits else "Lost"), f"{name} is {claim.status.phase}"
        elif not claim.metadata.deletion_timestamp and not waits_for_consumer(truth.classes.get(class_of(claim))):
            assert not truth.free(claim), f"{name} could have a volume and waits"
    for volume in truth.volumes.values():
        reference = volume.spec.claim_ref
        holder = truth.claims.get((reference.namespace, reference.name)) if reference is not None else None
        if reference is None or not reference.uid:
            assert volume.status.phase == "Available", f"{volume.metadata.name} is {volume.status.phase}"
        elif holder is None or holder.metadata.uid != reference.uid:
            assert volume.status.phase in ("Released", "Failed"), f"{volume.metadata.name} is {volume.status.phase}"
        else:
            assert holder.spec.volume_name in ("", volume.metadata.name)


def _check_devices(truth: ClaimReference) -> None:
    assert all(len(claims) == 1 for claims in truth.holders().values())
    for claim in truth.device_claims.values():
        for user in claim.status.reserved_for:
            assert user.uid in truth.pods, f"{claim.metadata.name} is reserved for {user.name}, which is gone"


def _check_evicted(truth: ClaimReference) -> None:
    for node, pod in truth.pods.values():
        here = truth.nodes.get(node)
        if here is not None:
            _check_tolerated(Tolerations(pod.spec.tolerations, ALL_ON), here.spec.taints, pod)
    offers = {each.name: each for each in truth.offers()}
    for claim in truth.device_claims.values():
        for result in claim.status.allocation.devices.results if claim.status.allocation else ():
            offer = offers.get(DeviceName(result.driver, result.pool, result.device))
            for user in claim.status.reserved_for:
                taints = offer.taints if offer is not None else ()
                _check_tolerated(Tolerations(result.tolerations, ALL_ON), taints, truth.pods[user.uid][1])


def _check_tolerated(tolerations: Tolerations, taints: tuple[Taint, ...], pod: Pod) -> None:
    for taint in taints:
        if taint.effect == "NoExecute":
            assert tolerations.verdict(taint).matched, f"{pod.metadata.name} should have been evicted for {taint}"
