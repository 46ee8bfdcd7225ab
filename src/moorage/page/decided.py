"""Which part of each expression in a pod's rules decided about a node, and where it stands in their text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from moorage.api.meta import Data
from moorage.api.node import Node
from moorage.match.expressions import NodeExpression, TaintExpression
from moorage.match.verdict import Verdict
from moorage.page.accepted import REPELS, SHOWN_MAX
from moorage.page.rules import WrittenExpression, WrittenRules


def decided(written: WrittenRules, node: Node) -> list[Data]:
    """Every expression that has a verdict on a node, or on a taint of it: the part that decided, and the sentence."""
    return list(islice(_all(written, node), SHOWN_MAX))


def _all(written: WrittenRules, node: Node) -> Iterator[Data]:
    for each in written.expressions():
        if each.env == "node":
            labels = node.metadata.labels
            selector = NodeExpression(each.source)
            yield _data(each, "", selector.verdict(labels), selector.why(labels), selector.part_for(labels))
            continue
        toleration = TaintExpression(each.source)
        for taint in node.spec.taints:
            if taint.effect in REPELS:
                verdict = toleration.verdict(taint)
                yield _data(each, str(taint), verdict, toleration.why(taint), toleration.part_for(taint))


def _data(each: WrittenExpression, taint: str, verdict: Verdict, why: str, part: tuple[int, int]) -> Data:
    return {
        "path": each.path, "source": each.source, "line": each.line, "start": each.start, "part": part,
        "taint": taint, "matches": bool(verdict), "why": why,
    }  # fmt: skip
