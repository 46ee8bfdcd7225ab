"""Events, which are served in two groups whose fields have two spellings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import namesyntax, selectable
from moorage.registry.checks import Errors
from moorage.registry.cluster.eventversions import to_core
from moorage.registry.merging import ATOMIC, shape, struct
from moorage.registry.printing import cells
from moorage.registry.printing.ages import since
from moorage.registry.printing.cells import PrintedRow
from moorage.registry.printing.columns import NAME_TEXT, Columns, column, wide
from moorage.registry.printing.podsummary import Printable
from moorage.registry.strategy import Strategy
from moorage.validation.field import invalid, required


def _errors(new: Data, _: Data | None) -> Errors:
    namespace = new.get("metadata", {}).get("namespace", "")
    involved = new.get("involvedObject", {}).get("namespace", "")
    if "eventTime" in new:
        matches = bool(involved) or namespace in ("default", "kube-system")
    else:
        matches = involved == namespace or (not involved and namespace == "default")
    if not matches:
        yield invalid("involvedObject.namespace", involved, "does not match event.namespace")
    if "eventTime" not in new:
        return
    for name in ("reportingComponent", "reportingInstance", "action", "reason"):
        value = new.get(name, "")
        if not value:
            yield required(name)
        elif len(value) > 128:
            yield invalid(name, "", "can have at most 128 characters")
    if len(new.get("message", "")) > 1024:
        yield invalid("message", "", "can have at most 1024 characters")


def _either(item: Printable, *spellings: str) -> Any:
    """A field of an Event, which has different names in the two groups of events."""
    return next((value for spelling in spellings if (value := item.get(spelling))), None)


def _event_first_seen(row: PrintedRow) -> str:
    """How long ago an event was reported first."""
    first = _either(row.item, "firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
    return since(first, row.now)


def _event_last_seen(row: PrintedRow) -> str:
    """How long ago an event was reported last."""
    series = row.item.get("series")
    if series is not None:
        return since(series.get("lastObservedTime"), row.now)
    last = _either(row.item, "lastTimestamp", "deprecatedLastTimestamp")
    return since(last, row.now) if last else _event_first_seen(row)


def _event_count(row: PrintedRow) -> int:
    """How often an event was reported."""
    series = row.item.get("series")
    if series is not None:
        return int(series.get("count") or 0)
    return int(_either(row.item, "count", "deprecatedCount") or 1)


def _event_object(row: PrintedRow) -> str:
    """What an event is about."""
    about = _either(row.item, "involvedObject", "regarding") or {}
    kind, name_ = str(about.get("kind", "")).lower(), about.get("name")
    return f"{kind}/{name_}" if name_ else kind


def _event_subobject(row: PrintedRow) -> str:
    """Which part of the object an event is about."""
    return (_either(row.item, "involvedObject", "regarding") or {}).get("fieldPath") or ""


def _event_source(row: PrintedRow) -> str:
    """Who reports an event."""
    source = _either(row.item, "source", "deprecatedSource") or {}
    component = source.get("component") or _either(row.item, "reportingComponent", "reportingController") or ""
    instance = source.get("host") or row.item.get("reportingInstance")
    return f"{component}, {instance}" if instance else component


def _event_message(row: PrintedRow) -> str:
    """What happened."""
    return str(_either(row.item, "message", "note") or "").strip()


_COLUMNS: Columns = (
    column("Last Seen", _event_last_seen, "How long ago it was reported last."),
    column("Type", cells.at("type"), "Normal or Warning."),
    column("Reason", cells.at("reason"), "Why, in one word."),
    column("Object", _event_object, "What it is about."),
    wide("Subobject", _event_subobject, "Which part of the object it is about."),
    wide("Source", _event_source, "Who reports it."),
    column("Message", _event_message, "What happened."),
    wide("First Seen", _event_first_seen, "How long ago it was reported first."),
    wide("Count", _event_count, "How often it was reported."),
    wide("Name", cells.name, NAME_TEXT, format="name"),
)


_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_ABOUT = {
    part: selectable.either(selectable.at(f"involvedObject.{part}"), selectable.at(f"regarding.{part}"))
    for part in _REFERENCE
}

_REPORTER = selectable.either(selectable.at("reportingComponent"), selectable.at("reportingController"))
_FIELDS = {**selectable.NAMES, "reason": selectable.at("reason"), "type": selectable.at("type")}
_SOURCE = selectable.either(selectable.at("source.component"), selectable.at("deprecatedSource.component"), _REPORTER)


EVENT = Strategy(
    kind=kinds.row("v1", "Event"),
    names=namesyntax.path_segment,
    errors=_errors,
    columns=_COLUMNS,
    fields={
        **_FIELDS,
        **{f"involvedObject.{part}": get for part, get in _ABOUT.items()},
        "reportingComponent": _REPORTER,
        "source": _SOURCE,
    },
    merge=shape(involvedObject=replace(ATOMIC, by_value=True), related=ATOMIC, source=struct()),
)


EVENT_OF_GROUP = Strategy(
    kind=kinds.row("events.k8s.io/v1", "Event"),
    stored_form=to_core,
    errors=_errors,
    columns=_COLUMNS,
    bare_finalizers=True,
    fields={
        **_FIELDS,
        **{f"regarding.{part}": get for part, get in _ABOUT.items()},
        "reportingController": _REPORTER,
    },
    merge=shape(deprecatedSource=struct(), regarding=replace(ATOMIC, by_value=True), related=ATOMIC),
)
