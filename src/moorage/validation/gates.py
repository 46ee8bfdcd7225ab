"""Which gates an object needs, so that an update may keep what the old object already used."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.api.meta import Object
from moorage.api.node import NodeSelectorTerm
from moorage.api.placementrules import terms_of, tolerations_of
from moorage.api.pod import Toleration
from moorage.features import Gate
from moorage.match.operators import COMPARISONS, selector_comparison


def gates_needed(item: Object) -> frozenset[Gate]:
    """Every gate that some part of an object needs to be evaluated, pod templates included."""
    gates: set[Gate] = set()
    for _, tolerations in tolerations_of(item):
        for toleration in tolerations:
            gates.update(toleration_gates(toleration))
    for _, term in terms_of(item):
        gates.update(term_gates(term))
    return frozenset(gates)


def toleration_gates(toleration: Toleration) -> Iterator[Gate]:
    """The gates that a toleration needs."""
    if toleration.expression:
        yield Gate.CEL
    if compared := COMPARISONS.get(toleration.operator):
        yield compared.gate
    if "*" in toleration.key:
        yield Gate.WILDCARD


def term_gates(term: NodeSelectorTerm) -> Iterator[Gate]:
    """The gates that a term needs."""
    if term.match_cel_expressions:
        yield Gate.CEL
    for requirement in term.match_expressions:
        if compared := selector_comparison(requirement.operator):
            yield compared.gate
