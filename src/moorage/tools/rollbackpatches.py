"""Patches that take the rules of a gate out of pod templates, as commands for kubectl."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.node import NodeSelectorTerm
from moorage.api.placementrules import terms_of, tolerations_of
from moorage.features import Gate
from moorage.tools.cluster import ClusterObject
from moorage.tools.rollback import RollbackFinding, RollbackStep
from moorage.validation.gates import term_gates, toleration_gates

_INDEX = re.compile(r"\[(\d+)\]")


class RollbackPatch(NamedTuple):
    """A JSON patch of one object."""

    item: ClusterObject
    operations: list[Data]
    widens: bool
    """Whether pods may go to more nodes without the rules, because a demand and not only a permission is taken out."""

    @property
    def command(self) -> str:
        """The patch as it is typed."""
        thing, kind = self.item.object, kinds.of(self.item.object)
        name = thing.kind.lower() if self.item.within else kind.singular
        namespace = thing.metadata.namespace
        where = f" -n {namespace}" if kind.namespaced and namespace not in ("", "default") else ""
        patch = shlex.quote(msgspec.json.encode(self.operations).decode())
        return f"kubectl patch {name} {thing.metadata.name}{where} --type json -p {patch}"


def patches(findings: Iterable[RollbackFinding], gate: Gate) -> Iterator[RollbackPatch]:
    """The patch of each template that needs a gate and can be changed: that of a Job cannot."""
    for finding in findings:
        if finding.step is RollbackStep.TEMPLATES and finding.command.startswith("kubectl edit"):
            yield _patch(finding.item, gate)


def _patch(item: ClusterObject, gate: Gate) -> RollbackPatch:
    removed: list[tuple[str, object]] = []
    for path, tolerations in tolerations_of(item.object):
        for index, each in enumerate(tolerations):
            if gate in toleration_gates(each):
                removed.append((f"{path}[{index}]", msgspec.to_builtins(each)))
    required: dict[str, list[tuple[str, NodeSelectorTerm]]] = defaultdict(list)
    for path, term in terms_of(item.object):
        if path.endswith(".preference"):
            if gate in term_gates(term):
                removed.append((path.removesuffix(".preference"), None))
        else:
            required[path.rpartition(".nodeSelectorTerms[")[0]].append((path, term))
    widens = False
    for path, terms in required.items():
        gated = [each for each in terms if gate in term_gates(each[1])]
        if gated and len(gated) == len(terms):
            # Terms are alternatives: without any of them the pods would go nowhere, so the demand as a whole goes.
            removed.append((path, None))
            widens = True
        else:
            removed += [(each, msgspec.to_builtins(term)) for each, term in gated]
    return RollbackPatch(item, list(_operations(item, removed)), widens)


def _operations(item: ClusterObject, removed: list[tuple[str, object]]) -> Iterator[Data]:
    """Removals from the last to the first, so that indexes stay true, each only if it still removes what it should."""
    for path, value in reversed(removed):
        pointer = "/" + _INDEX.sub(r".\1", item.path(path)).replace(".", "/")
        if value is not None:
            yield {"op": "test", "path": pointer, "value": value}
        yield {"op": "remove", "path": pointer}
