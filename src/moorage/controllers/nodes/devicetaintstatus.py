"""The status of DeviceTaintRules: the condition that reports evictions."""

from __future__ import annotations

from typing import NamedTuple

from moorage.api.meta import Data
from moorage.match.tolerations import NO_EXECUTE

IN_PROGRESS = "EvictionInProgress"
_ONCE = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."


class Impact(NamedTuple):
    """What a rule does, or would do if its effect were NoExecute."""

    published: int
    allocated: int
    pods: int
    namespaces: int
    evicted: int


def eviction_condition(effect: str, impact: Impact) -> Data:
    """The condition of a rule with this effect."""
    status, reason, message = "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    if effect == NO_EXECUTE:
        message = ""
        reason = "Completed" if impact.evicted else "NotStarted"
        if impact.pods:
            status, reason = "True", "PodsPendingEviction"
            pods = _count(impact.pods, "pod needs", "pods need")
            message = f"{pods} to be evicted in {_namespaces(impact)}."
    elif effect == "None":
        reason = "NoEffect"
        published = _count(impact.published, "published device", "published devices")
        allocated = _count(impact.allocated, "allocated device", "allocated devices")
        pods = f"{_count(impact.pods, 'pod', 'pods')} would be evicted in {_namespaces(impact)}"
        message = f"{published} selected. {allocated} selected. {pods} if the effect was NoExecute. {_ONCE}"
    evicted = impact.evicted and f"{_count(impact.evicted, 'pod', 'pods')} evicted since starting the controller."
    text = " ".join(each for each in (message, evicted) if each)
    return {"type": IN_PROGRESS, "status": status, "reason": reason, "message": text}


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _namespaces(impact: Impact) -> str:
    return _count(impact.namespaces, "namespace", "different namespaces")
