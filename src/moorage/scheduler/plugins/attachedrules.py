"""AttachedRules: pods with rules in annotations are placed only by rules that hold, and with a native cover."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from moorage.api import kinds
from moorage.api.cluster import Namespace
from moorage.api.decode import convert
from moorage.api.labels import LabelMatcher, parse
from moorage.api.meta import Data
from moorage.api.pod import Pod, Toleration
from moorage.api.rules import COVER, TOLERATIONS, Rules, rules_of, text_of
from moorage.client import ApiError
from moorage.client.client import JSON_PATCH
from moorage.client.errors import Forbidden
from moorage.match.nativecover import NO_COVER, NativeCover, native_cover
from moorage.match.operators import COMPARISONS
from moorage.registry.pod.tolerations import WHITELIST, annotated, outside
from moorage.registry.state import Denied
from moorage.scheduler.framework import SKIP, Cycle, Handle, Plugin, Reject, Scope, Skip, Unbindable
from moorage.scheduler.table.nodes import Mask, Rows
from moorage.scheduler.table.shape import Shape
from moorage.validation.attached import rule_errors

_POD = kinds.row("v1", "Pod")
COVERS, COVERS_NATIVE, RULE_NAMESPACES = "cover", "coverNative", "ruleNamespaces"
"""The arguments: whether others evict pods natively, so that a cover is needed; whether they may have the gate of
native comparisons off; and the labels of the namespaces whose pods may have rules."""
_NOTHING = Rules()


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
        self._selector = selector
        self._pods = handle.informers.of(Pod)
        self._namespaces = handle.informers.of(Namespace)
        self._namespaces.on_change(self._namespace_changed)

    def applies(self, shape: Shape) -> bool:
        """Whether the pod has rules, or native tolerations that need a cover."""
        if shape.attached is not None:
            return True
        return self._covers_native and any(each.operator in COMPARISONS for each in shape.spec.tolerations)

    def pre_filter(self, cycle: Cycle) -> Skip | Reject | None:
        """Refuse rules that cannot be read, are not valid, or are not allowed."""
        attached = cycle.shape.attached
        if attached is None:
            return SKIP
        if attached.problem:
            return Reject(attached.problem)
        if errors := rule_errors(attached.rules):
            return Reject("; ".join(map(str, errors)))
        refusal = self._refusal(cycle.pod.key[0], attached.rules)
        return Reject(refusal) if refusal else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """Rules that hold reject no node by themselves: they are a part of what the pod means."""
        return np.ones(len(self.handle.table.alive[rows]), np.bool_)

    async def pre_bind(self, cycle: Cycle, node: str) -> None:
        """Cover the rules. Raises Unbindable when the API server refuses."""
        if not self._covers:
            return
        pod = self._pods.get(*cycle.pod.key) or cycle.pod.pod
        rules = rules_of(pod.metadata.annotations) or _NOTHING
        cover = native_cover(rules.tolerations, pod.spec.tolerations, covers_native=self._covers_native)
        if cover == NO_COVER:
            return
        try:
            await self.handle.client.patch(_POD, *cycle.pod.key, _patch(pod, rules, cover), form=JSON_PATCH)
        except Forbidden as error:
            what = f"its rules need native tolerations ({COVER}), which may not be added: {error}"
            raise Unbindable(what) from None
        except ApiError as error:
            raise Unbindable(f"its rules need native tolerations ({COVER}), which were not added: {error}") from error

    def _refusal(self, name: str, rules: Rules) -> str:
        """Why a namespace does not allow rules."""
        namespace = self._namespaces.get("", name)
        labels, annotations = (namespace.metadata.labels, namespace.metadata.annotations) if namespace else ({}, {})
        if self._allowed is not None and not self._allowed.matches(labels):
            return f"rules in annotations are not allowed in namespace {name}: its labels do not match {self._selector}"
        if not rules.tolerations:
            return ""
        try:
            whitelist = [convert(each, Toleration) for each in annotated(annotations, WHITELIST, name)]
        except Denied as error:
            return str(error)
        refused = whitelist and outside(whitelist, rules.tolerations, f"metadata.annotations[{TOLERATIONS}]")
        return f"rules conflict with the whitelist of namespace {name}: {refused}" if refused else ""

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is None or new is None or old.metadata != new.metadata:
            self.handle.wake(self.name, old, new)


def _patch(pod: Pod, rules: Rules, cover: NativeCover) -> list[Data]:
    """Adds a cover before the tolerations of exactly this pod, and records it."""
    tolerations = [msgspec.to_builtins(each) for each in cover.tolerations]
    recorded = tuple(each for each in rules.cover or () if each in pod.spec.tolerations)
    record = text_of((*recorded, *cover.record))
    patch: list[Data] = [{"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid}]
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
