"""What the webhook changes in an object: native spellings become rules, and pods with rules get scheduler and cover."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import msgspec

from moorage.api.decode import convert
from moorage.api.labels import LabelMatcher
from moorage.api.meaning import recorded_cover, without_cover
from moorage.api.meta import Data
from moorage.api.pod import Toleration
from moorage.api.rules import COVER, POD_RULES, Rules, TolerationList, rules_of, text_of
from moorage.match.nativecover import native_cover
from moorage.scheduler.profile import ATTACHED_NAME
from moorage.tools.convert import attach_pod, own_annotations, pods_of, set_scheduler
from moorage.validation.attached import valid_tolerations

_POD, _DAEMON_SET = "Pod", "DaemonSet"
_UNNAMED = ("", "default-scheduler")
_NOTHING = Rules()


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The options of the webhook."""

    scheduler_name: str = ATTACHED_NAME
    covers_native: bool = True
    """Whether native comparisons get a cover: other components may have their gate off."""
    rule_namespaces: LabelMatcher | None = None
    """The labels of the namespaces whose objects may have rules; None is all."""
    templates: bool = False
    """Whether rules move out of the native fields of pod templates too."""


def rewritten(data: Data, old: Data | None, settings: WebhookSettings) -> Data:
    """An object as it should be stored; `old` is what is stored now. Idempotent. Raises RulesError, DecodeError."""
    changed = deepcopy(data)
    before = next(pods_of(old), {}) if old else {}
    is_pod = data.get("kind") == _POD
    for holder in pods_of(changed) if is_pod or settings.templates else ():
        _move(holder, before, is_daemon=data.get("kind") == _DAEMON_SET)
        if is_pod:
            _cover(holder, before, covers_native=settings.covers_native)
        _name_scheduler(holder, before, settings.scheduler_name)
    return changed


def patch(before: object, after: object, path: str = "") -> Iterator[Data]:
    """A JSON patch that makes one value of another; lists are replaced as a whole."""
    if before == after:
        return
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield {"op": "replace", "path": path, "value": after}
        return
    for key in before.keys() | after.keys():
        place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in after:
            yield {"op": "remove", "path": place}
        elif key not in before:
            yield {"op": "add", "path": place, "value": after[key]}
        else:
            yield from patch(before[key], after[key], place)


def _move(holder: Data, before: Data, *, is_daemon: bool) -> None:
    """Move rules into annotations. What was stored natively stays: of a pod it could not be removed."""
    if before and _moves(before, is_daemon=is_daemon):
        return
    annotations, known = own_annotations(holder), own_annotations(before)
    # A client that writes rules natively again leaves the annotations of the first time as they are.
    kept = {name: annotations.pop(name) for name in POD_RULES if name in known and annotations.get(name) == known[name]}
    attach_pod(holder, is_daemon=is_daemon)
    if kept:
        annotations = own_annotations(holder)
        holder["metadata"]["annotations"] = {**kept, **annotations}


def _moves(holder: Data, *, is_daemon: bool) -> list[Data]:
    """What moving rules would change."""
    moved = deepcopy(holder)
    for name in POD_RULES:
        own_annotations(moved).pop(name, None)
    alone = deepcopy(moved)
    attach_pod(moved, is_daemon=is_daemon)
    return list(patch(alone, moved))


def _cover(holder: Data, before: Data, *, covers_native: bool) -> None:
    """Add the cover that rules need, and what is left of the cover that the pod has had."""
    native, had = _tolerations(holder), _tolerations(before)
    rules, known = (rules_of(own_annotations(each)) or _NOTHING for each in (holder, before))
    cover = native_cover(valid_tolerations(rules), native, covers_native=covers_native)
    before_own = cover.tolerations + native
    recorded, there = recorded_cover(had, known), frozenset(before_own)
    lost = tuple(each for each in recorded if each not in there)
    tolerations = before_own + lost
    # A client that sends back less than it got must not make a part of the cover of what was the pod's own.
    kept, own = frozenset(recorded), frozenset(without_cover(had, known))
    still = [each for each in recorded_cover(native, rules) if each in kept or each not in own]
    record = tuple(dict.fromkeys((*still, *recorded, *cover.record)))
    if tolerations != native:
        listed = holder["spec"].get("tolerations") or []
        holder["spec"]["tolerations"] = [*_data(cover.tolerations), *listed, *_data(lost)]
    if record and set(record) != set(rules.cover or ()):
        metadata = holder.setdefault("metadata", {})
        metadata["annotations"] = {**own_annotations(holder), COVER: text_of(record)}


def _name_scheduler(holder: Data, before: Data, scheduler: str) -> None:
    """Who creates a pod with rules chooses its scheduler; later its name cannot change."""
    spec, known = holder["spec"], before.get("spec") or {}
    if before and known.get("schedulerName") == scheduler and spec.get("schedulerName", "") in _UNNAMED:
        spec["schedulerName"] = scheduler
    elif not before and any(name in own_annotations(holder) for name in POD_RULES):
        set_scheduler(holder, scheduler)


def _tolerations(holder: Data) -> TolerationList:
    return convert((holder.get("spec") or {}).get("tolerations") or [], tuple[Toleration, ...])


def _data(tolerations: TolerationList) -> list[Data]:
    listed: list[Data] = msgspec.to_builtins(tolerations)
    return listed
