"""Patches that take the rules of a gate out of pod templates, as commands for kubectl."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data, Object
from moorage.api.node import NodeSelectorTerm
from moorage.api.placementrules import terms_of, tolerations_of
from moorage.api.pod import Affinity, Pod, PodSpec
from moorage.api.rules import NODE_AFFINITY, POD_RULES, TOLERATIONS, parsed, rules_of
from moorage.api.yamlwriting import write
from moorage.apiserver.patch import jsonpatch
from moorage.features import Gate
from moorage.tools.cluster import ClusterObject
from moorage.tools.rollback import RollbackFinding, RollbackStep
from moorage.validation.gates import term_gates, toleration_gates

_PATCHED = (RollbackStep.TEMPLATES, RollbackStep.RULES)
_FIELDS = {TOLERATIONS: "spec.tolerations", NODE_AFFINITY: "spec.affinity.nodeAffinity"}
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
        if finding.step in _PATCHED and finding.command.startswith("kubectl edit"):
            yield _patch(finding.item, gate)


def _patch(item: ClusterObject, gate: Gate) -> RollbackPatch:
    removed, widens = _taken_out(item.object, gate)
    operations = list(_removals((item.path(path), value) for path, value in removed))
    kind = kinds.of(item.object)
    metadata = kind.pod_metadata_of(item.object)
    annotations = metadata.annotations if metadata else {}
    for name in POD_RULES:
        changes, widens_rules = _annotation_changes(name, annotations.get(name, ""), gate)
        place = f"{_pointer(item.path(kind.pod_metadata))}/annotations/{name.replace('/', '~1')}"
        operations += ({**change, "path": place} for change in changes)
        widens |= widens_rules
    return RollbackPatch(item, operations, widens)


def _taken_out(thing: Object, gate: Gate) -> tuple[list[tuple[str, object]], bool]:
    """The fields of an object that need a gate, by path and value, and whether a demand is among them."""
    removed: list[tuple[str, object]] = []
    for path, tolerations in tolerations_of(thing):
        for index, each in enumerate(tolerations):
            if gate in toleration_gates(each):
                removed.append((f"{path}[{index}]", msgspec.to_builtins(each)))
    required: dict[str, list[tuple[str, NodeSelectorTerm]]] = defaultdict(list)
    for path, term in terms_of(thing):
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
    return removed, widens


def _annotation_changes(annotation: str, text: str, gate: Gate) -> tuple[list[Data], bool]:
    """How the text of an annotation changes without what needs a gate, and whether a demand is taken out of it."""
    rules = rules_of({annotation: text})
    if rules is None or rules.problems:
        return [], False
    pod = Pod(spec=PodSpec(tolerations=rules.tolerations, affinity=Affinity(rules.affinity)))
    removed, widens = _taken_out(pod, gate)
    if not removed:
        return [], False
    places = [(path.removeprefix(_FIELDS[annotation]), None) for path, _ in removed]
    left = jsonpatch.apply(parsed(annotation, text), list(_removals(places)))
    changed: Data = {"op": "replace", "value": write([left])} if left else {"op": "remove"}
    return [{"op": "test", "value": text}, changed], widens


def _removals(removed: Iterable[tuple[str, object]]) -> Iterator[Data]:
    """Removals from the last to the first, so that indexes stay true, each only if it still removes what it should."""
    for path, value in reversed(list(removed)):
        if value is not None:
            yield {"op": "test", "path": _pointer(path), "value": value}
        yield {"op": "remove", "path": _pointer(path)}


def _pointer(path: str) -> str:
    return "/" + _INDEX.sub(r".\1", path).strip(".").replace(".", "/")
