"""Events in two versions: they are stored as v1 and converted to and from events.k8s.io/v1."""

from __future__ import annotations

from moorage.api.meta import Data

_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "source": "deprecatedSource",
}
_NEW_NAMES = {new: old for old, new in _NAMES.items()}


def to_events_v1(data: Data) -> Data:
    """An event of the core group as events.k8s.io/v1 spells it."""
    return {_NAMES.get(name, name): value for name, value in data.items()} | {"apiVersion": "events.k8s.io/v1"}


def to_core(data: Data) -> Data:
    """An event of events.k8s.io/v1 as the core group spells it."""
    return {_NEW_NAMES.get(name, name): value for name, value in data.items()} | {"apiVersion": "v1"}
