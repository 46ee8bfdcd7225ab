"""Preferred terms that cannot be evaluated: they add nothing to a score, and say so only here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moorage.match.selector import Preferences, Term
from moorage.tools.nodes import GroupTable, NodeGroup


def ignored_preferences(preferences: Preferences, table: GroupTable, groups: Sequence[NodeGroup]) -> Iterator[str]:
    """A sentence for each preferred term that has no answer, at all or on some of the nodes of these groups."""
    for term in preferences.terms:
        if term.errors:
            yield f"a preferred term is ignored: {'; '.join(term.errors)}"
        elif (gate := next((each.gate for each in term.conditions if each.gate), None)) is not None:
            yield f"a preferred term is ignored: feature gate {gate.value} is off"
        else:
            yield from _unanswered(term, table, groups)


def _unanswered(term: Term, table: GroupTable, groups: Sequence[NodeGroup]) -> Iterator[str]:
    example, nodes = "", 0
    verdicts: dict[int, str] = {}
    for group in groups:
        if group.view not in verdicts:
            view = table.views[group.view]
            verdicts[group.view] = term.verdict(view.labels, view.name).error
        if error := verdicts[group.view]:
            example, nodes = example or error, nodes + len(group.names)
    if nodes:
        yield f"a preferred term is ignored on {nodes} {'node' if nodes == 1 else 'nodes'}: {example}"
