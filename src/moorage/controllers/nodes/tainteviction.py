"""Taint eviction: pods leave a node when it gets a NoExecute taint that they do not tolerate, or not for long."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from moorage.api.cluster import Namespace
from moorage.api.meaning import without_cover
from moorage.api.node import Node, Taint
from moorage.api.pod import Pod, Toleration
from moorage.api.rules import Rules, rules_of
from moorage.bounded import remember_short
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context
from moorage.controllers.nodes.evictions import EvictingController, EvictionCause, shortened
from moorage.controllers.nodes.nodepods import NODE, bound_at, index_by_node
from moorage.controllers.nodes.taints import LONGEST, SeenTaints, TolerationErrors, TolerationFailures
from moorage.match.deferral import NotReady, deferring
from moorage.match.evaluations import Parked
from moorage.match.reasons import EXPLAINED_COST, departures
from moorage.match.tolerations import Tolerations
from moorage.registry.pod.attached import rules_refusal
from moorage.registry.pod.tolerations import WHITELIST
from moorage.validation.attached import judged_tolerations, rule_errors

_CAUSE = EvictionCause(
    subsystem="taint_eviction_controller",
    reason="DeletionByTaintManager",
    message="Taint manager: deleting due to NoExecute taint",
    event="TaintManagerEviction",
    marking="Marking for deletion Pod {pod}",
    cancelling="Cancelling deletion of Pod {pod}",
)
_AT_A_TIME = 256
_RULED = "ruled"
"""The index of pods with rules in annotations, by namespace."""
_KEPT, _FEW = 4096, 32
"""How many judgements are kept, and of how many tolerations each may be: pods can have tens of thousands."""


class _Judgement(NamedTuple):
    """What tolerations say of taints: the seconds that each leaves (None is for good), and what has no answer."""

    graces: tuple[int | None, ...]
    errors: tuple[tuple[TolerationFailures, Taint], ...]


class TaintEviction(EvictingController):
    """Evicts the pods of tainted nodes, at once or when the seconds of their tolerations are over.

    Beside another controller manager it judges only pods with rules, or with what remains of them, in annotations.

    The seconds count from when the taint was added, or from when the pod was bound if that was later: a pod that is
    bound to a tainted node has all the seconds that it tolerates.
    """

    name = "taint-eviction-controller"
    cause = _CAUSE
    workers = 2

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._gates = context.gates.for_eviction()
        self._nodes = context.informers.of(Node)
        self._taints = SeenTaints(context.clock)
        self._toleration_errors = TolerationErrors(context.registry, _CAUSE.subsystem)
        self._judged = remember_short(_KEPT, _FEW)(self._judge)
        self._explained = remember_short(_KEPT, _FEW)(self._explain)
        self._parked = Parked(self._settle_again)
        """The pods whose tolerations take long to be evaluated."""
        index_by_node(self._pods)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)
        self._pods.index(_RULED, lambda pod: [pod.metadata.namespace] if rules_of(pod.metadata.annotations) else ())
        self._namespaces = context.informers.of(Namespace)
        self._namespaces.on_change(self._namespace_changed)

    async def reconcile(self, key: Key) -> None:
        """Judge all pods of a node again."""
        _, name = key
        for number, pod in enumerate(list(self._pods.by(NODE, name)), 1):
            self._settle(pod)
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        changed = self._taints.update(node.metadata.name, new.spec.taints if new else ())
        # The evictions of a deleted node's pods stay as planned until the pods are collected.
        if new is not None and (changed or old is None):
            self.enqueue(new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or new.metadata.deletion_timestamp is not None:
            if gone := new or old:
                self._evictions.forget(gone)
                self._parked.forget((gone.metadata.namespace, gone.metadata.name))
        elif old is None or _judged_by(old) != _judged_by(new):
            self._settle(new)

    def _settle(self, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is not None:
            return
        try:
            with deferring():
                due = self._due(pod, self._taints.of(pod.spec.node_name))
        except NotReady as later:
            self._evictions.hold(pod)
            self._parked.park((pod.metadata.namespace, pod.metadata.name), later.work)
            return
        if due is None:
            self._evictions.cancel(pod)
        else:
            self._evictions.plan(pod, due)

    def _settle_again(self, key: Key) -> None:
        if pod := self._pods.get(*key):
            self._settle(pod)

    def _due(self, pod: Pod, taints: Mapping[Taint, datetime]) -> datetime | None:
        """When a pod must leave; None when it may stay."""
        if not taints or (self.context.attached and rules_of(pod.metadata.annotations) is None):
            return None
        judgement = self._judged(self._tolerations(pod), tuple(taints))
        for unanswered, taint in judgement.errors:
            self._toleration_errors.note(unanswered, taint)
        arrived = max(bound_at(pod), self._evictions.counts_from(pod))
        return min(
            (
                max(since, arrived) + timedelta(seconds=min(grace, LONGEST)) if grace else since
                for since, grace in zip(taints.values(), judgement.graces, strict=True)
                if grace is not None
            ),
            default=None,
        )

    def _tolerations(self, pod: Pod) -> tuple[Toleration, ...]:
        """What a pod is judged by. Rules count as long as they are valid, and allowed in its namespace."""
        rules = rules_of(pod.metadata.annotations)
        if rules is None:
            return pod.spec.tolerations
        if self._refusal(pod, rules):
            return without_cover(pod.spec.tolerations, rules)
        return judged_tolerations(pod.spec, pod.metadata.annotations)

    def _refusal(self, pod: Pod, rules: Rules) -> str:
        """Why its namespace does not allow the rules of a pod. One that has not been seen yet is judged when it is."""
        name = pod.metadata.namespace
        namespace, allowed = self._namespaces.get("", name), self.context.rule_namespaces
        return "" if namespace is None else rules_refusal(namespace, name, rules.tolerations, allowed)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None and (old is None or _allows(old) != _allows(new)):
            for pod in list(self._pods.by(_RULED, new.metadata.name)):
                self._settle(pod)

    def _judge(self, tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> _Judgement:
        compiled = Tolerations(tolerations, self._gates)
        errors = ((compiled.unanswered(taint), taint) for taint in taints)
        graces = tuple(compiled.grace_seconds((taint,)) for taint in taints)
        return _Judgement(graces, tuple((unanswered, taint) for unanswered, taint in errors if unanswered))

    def _why(self, pod: Pod) -> str:
        try:
            with deferring():
                why = self._explained(self._tolerations(pod), tuple(self._taints.of(pod.spec.node_name)))
        except NotReady:
            return ""
        rules = rules_of(pod.metadata.annotations)
        refusals = [] if rules is None else [self._refusal(pod, rules), *map(str, rule_errors(rules))]
        refused = next(filter(None, refusals), "")
        return shortened(f"{why}; {refused}" if refused else why)

    def _explain(self, tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> str:
        tolerated = Tolerations(tolerations, self._gates)
        return shortened(" and ".join(departures(tolerated, self._gates, taints, most=EXPLAINED_COST)))


def _judged_by(pod: Pod) -> tuple[object, ...]:
    """What a judgement depends on beside the taints."""
    return pod.spec.node_name, pod.spec.tolerations, rules_of(pod.metadata.annotations)


def _allows(namespace: Namespace) -> tuple[object, ...]:
    """What the rules depend on that a namespace allows."""
    return namespace.metadata.labels, namespace.metadata.annotations.get(WHITELIST)
