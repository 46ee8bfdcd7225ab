"""Admission errors and advice for the objects of some manifests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.features import Gates
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.validation import admission_errors
from moorage.validation.advice import ADVICE
from moorage.validation.rules import Breaches, Rule, RuleContext, RuleTable, Severity, context_of

IGNORE_ANNOTATION = "lint.moorage.dev/ignore"
"""An object's annotation that silences rules for it: ids joined by commas."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One rule that applies at one place."""

    rule: Rule
    file: str
    line: int
    subject: str
    path: str
    message: str

    @property
    def severity(self) -> Severity:
        """How severe it is."""
        return self.rule.severity


RULES = RuleTable()


@RULES.rule(
    "unreadable",
    Severity.ERROR,
    "an object that cannot be read as its kind is refused as a whole",
    "give the field the type that the message names",
)
def _unreadable(*_: object) -> Breaches:
    """Find nothing: such an object never becomes an item, and reading the manifests reports it."""
    return iter(())


@RULES.rule(
    "admission",
    Severity.ERROR,
    "the API server refuses the object",
    "correct the field, or turn on the gate that it needs",
)
def _refused(item: Object, context: RuleContext) -> Breaches:
    for error in admission_errors(item, context.gates):
        yield error.field, error.body


RULES.update(ADVICE)
_ORDER = {rule_id: place for place, rule_id in enumerate(RULES)}


def lint(cluster: Cluster, nodes: Cluster, gates: Gates) -> list[LintFinding]:
    """All findings, object by object; for each object the eviction trap first, then by severity."""
    findings = [
        LintFinding(RULES["unreadable"], error.file, error.line, "", "", error.message) for error in cluster.problems
    ]
    context = context_of((node for _, node in nodes.of(Node)), gates)
    for item in cluster.items:
        findings += sorted(_findings(item, context), key=_order)
    return findings


def _order(finding: LintFinding) -> tuple[bool, int, int]:
    return finding.rule.id != "eviction-trap", finding.severity, _ORDER[finding.rule.id]


def _findings(item: ClusterObject, context: RuleContext) -> Iterator[LintFinding]:
    ignored = {name.strip() for name in item.object.metadata.annotations.get(IGNORE_ANNOTATION, "").split(",")}
    for rule in RULES.values():
        if rule.id in ignored:
            continue
        for path, message in rule.check(item.object, context):
            yield LintFinding(rule, item.file, item.line(path), item.name, path, message)
