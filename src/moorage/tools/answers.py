"""The answers of the tools as data: the same shapes in JSON, in YAML and on the page."""

from __future__ import annotations

import msgspec

from moorage.api.meta import Data
from moorage.tools.remedy import Remedy
from moorage.tools.why import Explanation, Fit, RefusedNodes


def why_data(explanation: Explanation) -> Data:
    """What `why` says of one pod."""
    answer, item = explanation.answer, explanation.item
    data: Data = {
        "pod": item.name,
        "file": item.file,
        "line": item.line(),
        "profile": answer.profile,
        "fits": explanation.fits,
        "nodes": [_fit_data(fit) for fit in answer.fits],
        "rejected": [{"plugin": each.plugin, "reason": each.reason} for each in answer.rejected],
        "refused": [_refused_data(refused) for refused in answer.refused],
    }
    if explanation.admission:
        data["admissionErrors"] = explanation.admission
    if explanation.placed_on:
        data["placedOn"] = explanation.placed_on
        if explanation.leaves:
            data["evictedAfterSeconds"] = explanation.leaves_after
            data["evictedFor"] = explanation.leaves
    if answer.preemption:
        preemption = answer.preemption
        data["preemption"] = {
            "node": preemption.node, "victims": preemption.victims, "budgetsBroken": preemption.violations
        }  # fmt: skip
    if answer.remedies:
        data["smallestChange"] = _remedy_data(answer.remedies[0])
        if len(answer.remedies) > 1:
            data["clusterChange"] = _remedy_data(answer.remedies[1])
    if answer.notes:
        data["notes"] = answer.notes
    return msgspec.to_builtins(data)  # type: ignore[no-any-return]


def _remedy_data(remedy: Remedy) -> Data:
    of = "pod" if remedy.is_of_pod else "cluster"
    return {"edits": remedy.edits, "admits": remedy.nodes, "of": of, "commands": remedy.commands}


def _fit_data(fit: Fit) -> Data:
    data: Data = {"names": fit.nodes, "score": fit.score, "scores": fit.scores}
    if fit.grace_seconds is not None:
        data["evictedAfterSeconds"] = fit.grace_seconds
    return data


def _refused_data(refused: RefusedNodes) -> Data:
    reasons = [
        {"plugin": refusal.plugin, "subject": refusal.subject, "reason": refusal.reason} for refusal in refused.refusals
    ]
    return {"names": refused.nodes, "reasons": reasons}
