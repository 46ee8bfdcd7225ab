"""Why there are not enough devices for some claims, in words: what matches, what is tainted and what is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moorage.features import Gates
from moorage.match.reasons import Complaint
from moorage.scheduler.devices.plan import Fault, Plan, Want
from moorage.scheduler.devices.pools import DeviceId, Offer, View


def shortage(plan: Plan, views: Sequence[View], taken: Mapping[DeviceId, int], gates: Gates) -> str:
    """What each request that finds too few devices finds, the ways of a request one after the other."""
    problems = list(dict.fromkeys(view.problem for view in views if view.problem))
    offers = [offer for view in views if not view.problem for offer in view.offers]
    told = []
    for claim in plan.claims:
        for ways in claim.requests:
            lacking = [_lack(claim.number, want, offers, taken, gates) for want in ways]
            if all(lacking):
                told += lacking
    if problems:
        told.append(f"a pool of devices is {', '.join(problems)}")
    return "; ".join(told) or "the requests of its claims together find too few devices"


def _lack(claim: int, want: Want, offers: Sequence[Offer], taken: Mapping[DeviceId, int], gates: Gates) -> str:
    """What a request lacks if it were the only one; empty when it finds enough."""
    try:
        matching = [offer for offer in offers if want.selects(claim, offer)]
    except Fault as fault:
        return str(fault)
    tolerated = [offer for offer in matching if want.tolerates(offer.taints)]
    free = [offer for offer in tolerated if want.admin or offer.id not in taken]
    if len(free) >= max(want.count, 1) or (want.all and matching and len(free) == len(matching)):
        return ""
    parts = [f"{len(matching)} match"]
    if len(tolerated) < len(matching):
        tainted = next(offer for offer in matching if offer not in tolerated)
        taint = want.tolerations.first_untolerated(tainted.taints)
        lacks = Complaint(want.tolerations, gates)(taint) if taint else ()
        why = f" (taint {taint}: {'; '.join(lack.text for lack in lacks)})" if taint else ""
        parts.append(f"{len(matching) - len(tolerated)} with an untolerated taint{why}")
    if len(free) < len(tolerated):
        parts.append(f"{len(tolerated) - len(free)} taken")
    wanted = "all devices" if want.all else f"{want.count} device{'' if want.count == 1 else 's'}"
    return f"request {want.name} asks for {wanted}: {', '.join(parts)}"
