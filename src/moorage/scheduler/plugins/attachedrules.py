"""AttachedRules: pods with rules in annotations are placed only by rules that hold, and with a native cover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import msgspec
import numpy as np

from moorage.api import kinds
from moorage.api.cluster import Namespace
from moorage.api.labels import LabelMatcher, parse
from moorage.api.meaning import recorded_cover
from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.api.resource import ResourceClaim
from moorage.api.rules import COVER, DEVICE_TOLERATIONS, Rules, rules_of, text_of
from moorage.client import ApiError
from moorage.client.client import JSON_PATCH
from moorage.client.errors import Conflict, Forbidden, Invalid, Unavailable
from moorage.match.nativecover import NO_COVER, NativeCover, native_cover
from moorage.match.operators import COMPARISONS
from moorage.registry.pod.attached import rules_refusal
from moorage.scheduler.framework import SKIP, Cycle, Handle, Plugin, Reject, Scope, Skip, Unbindable
from moorage.scheduler.table.nodes import Mask, Rows
from moorage.scheduler.table.shape import Shape
from moorage.validation.attached import rule_errors
from moorage.validation.field import FieldError

_POD = kinds.row("v1", "Pod")
COVERS, COVERS_NATIVE, RULE_NAMESPACES = "cover", "coverNative", "ruleNamespaces"
"""The arguments: whether others evict pods natively, so that a cover is needed; whether they may have the gate of
native comparisons off; and the labels of the namespaces whose pods may have rules."""
_NOTHING = Rules()
_SHOWN, _LONGEST = 3, 400
_TRIES = 3


class AttachedRules(Plugin):
    """Refuses pods whose rules are not valid or not allowed in their namespace, and covers the rules of the others."""

    name = "AttachedRules"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._covers = bool(args.get(COVERS, False))
        self._covers_native = self._covers and bool(args.get(COVERS_NATIVE, True))
        selector = args.get(RULE_NAMESPACES, "")
        self._allowed: LabelMatcher | None = parse(selector) if selector else None
        self._pods, self._claims = handle.informers.of(Pod), handle.informers.of(ResourceClaim)
        self._namespaces = handle.informers.of(Namespace)
        self._namespaces.on_change(self._namespace_changed)

    def applies(self, shape: Shape) -> bool:
        """Whether the pod has rules, or native tolerations that need a cover."""
        if shape.attached is not None or (self._allowed is not None and shape.spec.resource_claims):
            return True
        return self._covers_native and any(each.operator in COMPARISONS for each in shape.spec.tolerations)

    def pre_filter(self, cycle: Cycle) -> Skip | Reject | None:
        """Refuse rules that cannot be read, are not valid, or are not allowed."""
        attached = cycle.shape.attached
        if attached is not None and attached.problem:
            return Reject(attached.problem)
        if attached is not None and (errors := rule_errors(attached.rules)):
            return Reject(_sentence(errors))
        refusal = self._refusal(cycle.pod.pod)
        return Reject(refusal) if refusal else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """Rules that hold reject no node by themselves: they are a part of what the pod means."""
        return np.ones(len(self.handle.table.alive[rows]), np.bool_)

    async def pre_bind(self, cycle: Cycle, node: str) -> None:
        """Cover the rules. Raises Unbindable when the API server refuses."""
        if not self._covers:
            return
        pod = self._pods.get(*cycle.pod.key)
        if pod is None or pod.metadata.uid != cycle.pod.uid:
            pod = cycle.pod.pod
        decided = cycle.shape.attached.rules if cycle.shape.attached else None
        try:
            for _ in range(_TRIES):
                if _written(rules_of(pod.metadata.annotations)) != _written(decided):
                    raise Unbindable("its rules changed while it was being placed")
                changed = await self._cover(pod)
                if changed is None:
                    return
                pod = changed
        except Forbidden as error:
            what = f"its rules need native tolerations ({COVER}), which may not be added: {error}"
            raise Unbindable(what) from None
        except ApiError as error:
            raise Unbindable(f"its rules need native tolerations ({COVER}), which were not added: {error}") from error
        raise Unbindable(f"its rules need native tolerations ({COVER}), which were not added: it changes all the time")

    async def _cover(self, pod: Pod) -> Pod | None:
        """Cover the rules of a pod as it was seen; how it is now when that is something else. Raises ApiError."""
        rules = rules_of(pod.metadata.annotations) or _NOTHING
        cover = native_cover(rules.tolerations, pod.spec.tolerations, covers_native=self._covers_native)
        if cover == NO_COVER:
            return None
        where, patch = (pod.metadata.namespace, pod.metadata.name), _patch(pod, rules, cover)
        try:
            await self.handle.client.patch(_POD, *where, patch, form=JSON_PATCH)
        except (Conflict, Invalid, Unavailable):
            now: Pod = msgspec.json.decode(await self.handle.client.get(_POD, *where), type=Pod)
            if now.metadata.uid != pod.metadata.uid or now.metadata.resource_version == pod.metadata.resource_version:
                raise
            return now
        return None

    def _refusal(self, pod: Pod) -> str:
        """Why its namespace does not allow the rules of a pod, or those of the claims that it uses."""
        name, rules = pod.metadata.namespace, rules_of(pod.metadata.annotations)
        if rules is None and not any(map(self._has_rules, _claim_names(pod), repeat(name))):
            return ""
        return rules_refusal(self._namespaces.get("", name), name, rules.tolerations if rules else (), self._allowed)

    def _has_rules(self, claim: str, namespace: str) -> bool:
        found = self._claims.get(namespace, claim)
        return found is not None and DEVICE_TOLERATIONS in found.metadata.annotations

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is None or new is None or old.metadata != new.metadata:
            self.handle.wake(self.name, old, new)


def _written(rules: Rules | None) -> tuple[object, ...]:
    """What somebody wrote: the cover is not a part of it."""
    return (rules or _NOTHING)._replace(cover=())


def _sentence(errors: Sequence[FieldError]) -> str:
    """What fits into a condition: expressions in errors can be long."""
    more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
    texts = (text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in map(str, errors[:_SHOWN]))
    return "; ".join(texts) + more


def _patch(pod: Pod, rules: Rules, cover: NativeCover) -> list[Data]:
    """Adds a cover before the tolerations of exactly this pod, and records it."""
    tolerations = [msgspec.to_builtins(each) for each in cover.tolerations]
    record = text_of((*recorded_cover(pod.spec.tolerations, rules), *cover.record))
    # Exactly as it was seen: a cover that is there and not recorded would be the pod's own.
    patch: list[Data] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version},
    ]
    if pod.spec.tolerations:
        patch += (
            {"op": "add", "path": f"/spec/tolerations/{index}", "value": each} for index, each in enumerate(tolerations)
        )
    else:
        patch.append({"op": "add", "path": "/spec/tolerations", "value": tolerations})
    if pod.metadata.annotations:
        path = f"/metadata/annotations/{COVER.replace('/', '~1')}"
        return [*patch, {"op": "add", "path": path, "value": record}]
    return [*patch, {"op": "add", "path": "/metadata/annotations", "value": {COVER: record}}]


def _claim_names(pod: Pod) -> Iterator[str]:
    """The names of the claims that a pod uses, so far as they are known."""
    generated = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        if name := entry.resource_claim_name or generated.get(entry.name):
            yield name
