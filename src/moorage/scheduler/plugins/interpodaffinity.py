"""InterPodAffinity: affinity and anti-affinity of the pod to others, and of the others to the pod."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage.api.cluster import Namespace
from moorage.api.decode import convert
from moorage.api.labels import Labels
from moorage.api.meta import Int32, Object, Wire
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.bounded import Bounded
from moorage.scheduler.explaining import alike
from moorage.scheduler.framework import MAX_SCORE, SKIP, Cycle, Handle, Plugin, Reject, Rejection, Scope, Skip, Told
from moorage.scheduler.pods.counts import Anchored, Counts, Held, by_value, holders, pod_counts
from moorage.scheduler.pods.terms import AffinityTerm, Pick, PodTerms, read_terms
from moorage.scheduler.table.nodes import Mask, Rows, Scores
from moorage.scheduler.table.shape import FINISHED, PodInfo

NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_FAR = "node(s) didn't match pod anti-affinity rules"
UNWANTED = "node(s) didn't satisfy existing pods anti-affinity rules"
_RESOLVABLE = {NOT_NEAR: False, NOT_FAR: True, UNWANTED: True}
_TERMS_MAX, _TERMS_BYTES = 1024, 64 << 20
_WAITING_MAX = 10_000
"""How many terms of rejected pods are compared with each pod that changes."""

_Allowed = dict[str, Mask]
"""For labels of nodes, which of their values are allowed; number 0 stands for nodes without the label."""


class InterPodAffinityArgs(Wire):
    """The arguments of InterPodAffinity."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


@dataclass(slots=True)
class _AffinityFiltering:
    terms: PodTerms
    position: int = -1
    allowed: dict[str, _Allowed] = field(default_factory=dict)
    """By the reason that is given when a value is not allowed."""
    unwanted: list[Held] = field(default_factory=list)
    """The terms of pods that are there that keep the pod away."""


class InterPodAffinity(Plugin):
    """Counts the pods that a term matches, by value of its topology key."""

    name = "InterPodAffinity"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        affinity_args = convert(dict(args), InterPodAffinityArgs)
        if not 0 <= affinity_args.hard_pod_affinity_weight <= MAX_SCORE:
            raise ValueError("hardPodAffinityWeight: must be between 0 and 100")
        self._hard_weight = affinity_args.hard_pod_affinity_weight
        self._ignores_others = affinity_args.ignore_preferred_terms_of_existing_pods
        self._counts = pod_counts(handle.table)
        self._holders = holders(handle.table)
        self._resolved: Bounded[PodTerms, PodTerms] = Bounded(_TERMS_MAX, _TERMS_BYTES)
        self._named_picks: Bounded[Pick, Pick] = Bounded(_TERMS_MAX, _TERMS_BYTES)
        """Picks that select namespaces, and the same with the names of these: there may be thousands."""
        self._waiting: dict[Hashable, PodInfo] = {}
        """The pods rejected since the last wake-up, one of all that have the same terms and labels."""
        self._waiting_terms = 0
        self._namespaces = handle.informers.of(Namespace)
        self._namespaces.on_change(self._namespace_changed)
        handle.informers.of(Pod).on_change(self._pod_changed)
        handle.informers.of(Node).on_change(self._node_changed)

    def _terms(self, info: PodInfo) -> PodTerms:
        """The terms of a pod, in which the namespaces are named that they select."""
        terms = self._holders.terms.of(info)
        if not terms.selects_namespaces:
            return terms
        resolved = self._resolved.get(terms)
        if resolved is None:
            resolved = PodTerms(
                self._named(terms.affinity), self._named(terms.anti_affinity), self._named(terms.preferred), terms.error
            )
            all_terms = (*resolved.affinity, *resolved.anti_affinity, *resolved.preferred)
            self._resolved.put(terms, resolved, sum(_size(term.pick) for term in all_terms))
        return resolved

    def _named(self, terms: tuple[AffinityTerm, ...]) -> tuple[AffinityTerm, ...]:
        return tuple(term._replace(pick=self._naming(term.pick)) for term in terms)

    def _naming(self, pick: Pick) -> Pick:
        selector = pick.namespace_selector
        if not selector.requirements:
            return pick
        named = self._named_picks.get(pick)
        if named is None:
            chosen = (
                namespace.metadata.name for namespace in self._namespaces if selector.matches(namespace.metadata.labels)
            )
            named = Pick.of([*pick.namespaces, *chosen], pick.selector)
            self._named_picks.put(pick, named, _size(named))
        return named

    def _about(self, held: Anchored[Held], info: PodInfo) -> list[Held]:
        """The terms of pods that are there that are about this pod."""
        if not held:
            return []
        namespace, labels = info.key[0], info.pod.metadata.labels
        of_namespace = self._labels_of(namespace)
        return [term for term in held.of(namespace, labels) if term.pick.matches(namespace, labels, of_namespace)]

    def _labels_of(self, namespace: str) -> Labels:
        known = self._namespaces.get("", namespace)
        return known.metadata.labels if known else {}

    def warm(self, pod: PodInfo) -> Iterator[None]:
        """Find the namespaces that the terms of the pod select, and count the pods that they are about."""
        terms = self._holders.terms.of(pod)
        for term in (*terms.affinity, *terms.anti_affinity, *terms.preferred) if terms.selects_namespaces else ():
            self._naming(term.pick)
            yield
        terms = self._terms(pod)
        for term in (*terms.anti_affinity, *terms.preferred):
            yield from self._counts.steps((term.pick,))
        if terms.affinity:
            yield from self._counts.steps(tuple(term.pick for term in terms.affinity))

    def pre_filter(self, cycle: Cycle) -> Skip | Reject | None:
        """Whether there are terms that must hold, of the pod or about it."""
        terms = self._terms(cycle.pod)
        if terms.error:
            return Reject(f"parsing pod: {terms.error}")
        if terms.affinity or terms.anti_affinity:
            cycle.data[self.name] = _AffinityFiltering(terms)
            return None
        unwanted = self._about(self._holders.anti_affinity, cycle.pod)
        if not unwanted:
            return SKIP
        cycle.data[self.name] = _AffinityFiltering(terms, self.handle.table.position, unwanted=unwanted)
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """Affinity and anti-affinity of the pod hold, and the anti-affinity of the pods that are there."""
        mask: Mask = self.handle.table.alive[rows]
        for _, holds in self._reasons(cycle, rows):
            mask = mask & holds
        return mask

    def _reasons(self, cycle: Cycle, rows: Rows) -> Iterator[tuple[str, Mask]]:
        """Each reason why a row may be rejected, and where it is not."""
        table, state = self.handle.table, self._state(cycle)
        for reason, allowed in state.allowed.items():
            for key, values in allowed.items():
                yield reason, values[table.labels(key).codes[rows]]
        for held in state.unwanted:
            yield UNWANTED, ~held.near(table)[rows]

    def _state(self, cycle: Cycle) -> _AffinityFiltering:
        """What the terms say, as the table is now."""
        state: _AffinityFiltering = cycle.data[self.name]
        if state.position != self.handle.table.position:
            state.position = self.handle.table.position
            far: _Allowed = {}
            for term in state.terms.anti_affinity:
                _both(far, term.topology_key, ~self._occupied(term.topology_key, self._counts.of((term.pick,))))
            state.unwanted = self._about(self._holders.anti_affinity, cycle.pod)
            state.allowed = {NOT_NEAR: self._near(cycle.pod, state.terms), NOT_FAR: far}
        return state

    def _near(self, info: PodInfo, terms: PodTerms) -> _Allowed:
        """The topology values with a pod that all terms match; all of them for the first pod of a group."""
        allowed: _Allowed = {}
        if not terms.affinity:
            return allowed
        counts = self._counts.of(tuple(term.pick for term in terms.affinity))
        for term in terms.affinity:
            _both(allowed, term.topology_key, self._occupied(term.topology_key, counts))
        if not any(values.any() for values in allowed.values()) and _all_match(terms.affinity, info.pod):
            for values in allowed.values():
                values[1:] = True
        return allowed

    def _occupied(self, key: str, counts: Counts) -> Mask:
        """The values of a label of the nodes that have some of the pods."""
        column = self.handle.table.labels(key)
        values = np.zeros(len(column.values), np.bool_)
        values[column.codes[counts != 0]] = True
        values[0] = False
        return values

    def _held(self, held: Held) -> Mask:
        table = self.handle.table
        column = table.labels(held.topology_key)
        values = np.zeros(len(column.values), np.bool_)
        values[column.codes[held.rows(table.size)[0]]] = True
        values[0] = False
        return values

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """The first reason of each node. Removing pods can help against anti-affinity only."""
        self._wait(cycle.pod)
        wrong = {reason: np.zeros(len(rows), np.bool_) for reason in _RESOLVABLE}
        for reason, holds in self._reasons(cycle, rows):
            wrong[reason] |= ~holds
        told = np.zeros(len(rows), np.bool_)
        for reason, mask in wrong.items():
            if (mask & ~told).any():
                yield Rejection(reason, rows[mask & ~told], _RESOLVABLE[reason])
            told |= mask

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """Each term that does not hold, and the value of its topology key."""
        terms = cycle.data[self.name].terms
        near, info = self._near(cycle.pod, terms), cycle.pod
        for term in terms.affinity:
            key = term.topology_key
            yield from self._told("pod affinity", key, near[key], f"no pod that matches {_named(term.pick)}", rows)
        for term in terms.anti_affinity:
            free = ~self._occupied(term.topology_key, self._counts.of((term.pick,)))
            words = f"a pod that matches {_named(term.pick)} is"
            yield from self._told("pod anti-affinity", term.topology_key, free, words, rows)
        for held in self._about(self._holders.anti_affinity, info):
            words = f"a pod that keeps away from pods with {_named(held.pick)} is"
            yield from self._told("anti-affinity of other pods", held.topology_key, ~self._held(held), words, rows)

    def _told(self, subject: str, key: str, allowed: Mask, words: str, rows: NDArray[np.intp]) -> Iterator[Told]:
        column = self.handle.table.labels(key)
        wrong = rows[~allowed[column.codes[rows]]]
        for same in alike(column.codes[wrong], wrong):
            value = column.value(int(same[0]))
            reason = f"the node has no label {key}" if value is None else f"{words} in {key}={value}"
            yield Told((subject, key, value is None), subject, reason, same)

    def pre_score(self, cycle: Cycle) -> Skip | None:
        """Whether there are preferences, of the pod or about it."""
        if self._terms(cycle.pod).preferred:
            return None
        if self._ignores_others:
            return SKIP
        held = self._holders
        if self._about(held.preferred, cycle.pod) or (self._hard_weight and self._about(held.affinity, cycle.pod)):
            return None
        return SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The weights of all preferences for the places of a node, of the pod and about it."""
        table = self.handle.table
        weights: dict[str, NDArray[np.float64]] = {}
        for pick, key, weight in self._terms(cycle.pod).preferred:
            column = table.labels(key)
            _add(weights, key, weight * by_value(column.codes, self._counts.of((pick,)), len(column.values)))
        for held_by, factor in ((self._holders.preferred, 1), (self._holders.affinity, self._hard_weight)):
            for held in self._about(held_by, cycle.pod) if factor else ():
                column = table.labels(held.topology_key)
                where, amounts = held.rows(table.size)
                _add(weights, held.topology_key, by_value(column.codes[where], factor * amounts, len(column.values)))
        total = np.zeros(len(table.alive[rows]), np.float64)
        for key, values in weights.items():
            values[0] = 0
            total += values[table.labels(key).codes[rows]]
        return total.astype(np.int64)

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Between the least and the most."""
        least, most = int(scores.min()), int(scores.max())
        if most == least:
            return np.zeros_like(scores)
        scaled: Scores = (MAX_SCORE * ((scores - least) / (most - least))).astype(np.int64)
        return scaled

    def _wait(self, info: PodInfo) -> None:
        key = info.shape, info.key[0], frozenset(info.pod.metadata.labels.items())
        if key not in self._waiting:
            terms = self._terms(info)
            if self._waiting_terms >= _WAITING_MAX:
                self._wake(None, None)
            self._waiting_terms += max(1, len(terms.affinity) + len(terms.anti_affinity))
        self._waiting[key] = info

    def _wake(self, old: Object | None, new: Object | None) -> None:
        """Wake the rejected pods; those that are rejected again wait again."""
        self._waiting.clear()
        self._waiting_terms = 0
        self.handle.wake(self.name, old, new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if not self._waiting:
            return
        was, now = _running(old), _running(new)
        left = read_terms(was.spec, was.metadata.namespace).anti_affinity if was and not now else ()
        if any(self._pod_matters(info, was, now, left) for info in self._waiting.values()):
            self._wake(old, new)

    def _pod_matters(self, info: PodInfo, old: Pod | None, new: Pod | None, left: tuple[AffinityTerm, ...]) -> bool:
        """Whether a change is what a pod waits for; `left` are the terms of a pod that no longer keeps it away."""
        terms = self._terms(info)
        if _all_match(terms.affinity, old) != _all_match(terms.affinity, new):
            return True
        if any(_matches(term, old) and not _matches(term, new) for term in terms.anti_affinity):
            return True
        namespace, labels = info.key[0], info.pod.metadata.labels
        return any(term.pick.matches(namespace, labels, self._labels_of(namespace)) for term in left)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if not self._waiting or new is None or (old is not None and old.metadata.labels == new.metadata.labels):
            return
        was = old.metadata.labels if old is not None else None
        if any(self._node_matters(info, was, new.metadata.labels) for info in self._waiting.values()):
            self._wake(old, new)

    def _node_matters(self, info: PodInfo, old: Labels | None, new: Labels) -> bool:
        terms = self._terms(info)
        if any(term.topology_key not in new for term in terms.affinity):
            return False
        if old is None:
            return True
        keys = {term.topology_key for term in (*terms.affinity, *terms.anti_affinity)}
        keys |= {held.topology_key for held in self._about(self._holders.anti_affinity, info)}
        return any(old.get(key) != new.get(key) for key in keys)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
            return
        self._resolved.clear()
        self._named_picks.clear()
        if self._waiting:
            self._wake(old, new)


def _size(pick: Pick) -> int:
    """About how many bytes a pick takes."""
    return 500 + 6 * len(pick.text)


def _both(allowed: _Allowed, key: str, values: Mask) -> None:
    known = allowed.get(key)
    allowed[key] = values if known is None else known & values


def _add(weights: dict[str, NDArray[np.float64]], key: str, values: NDArray[np.float64]) -> None:
    known = weights.get(key)
    weights[key] = values if known is None else known + values


def _named(pick: Pick) -> str:
    return str(pick.selector) or "any label"


def _running(pod: Pod | None) -> Pod | None:
    """A pod that runs somewhere, or is about to."""
    return pod if pod is not None and pod.spec.node_name and pod.status.phase not in FINISHED else None


def _matches(term: AffinityTerm, pod: Pod | None) -> bool:
    return pod is not None and term.pick.matches(pod.metadata.namespace, pod.metadata.labels)


def _all_match(terms: tuple[AffinityTerm, ...], pod: Pod | None) -> bool:
    """Whether there are terms, and all of them are about this pod."""
    return bool(terms) and all(_matches(term, pod) for term in terms)
