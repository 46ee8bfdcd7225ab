"""Admission errors and advice for the objects of some manifests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moorage.api import kinds
from moorage.api.meta import Object
from moorage.api.node import Node, Taint
from moorage.api.resource import DeviceTaintRule, ResourceSlice
from moorage.api.rules import POD_RULES
from moorage.features import Gates
from moorage.tools.admission import ManifestAdmission
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.validation.advice import ADVICE
from moorage.validation.attached import attached_advice, attached_errors, is_uncovered_daemon, unread_rules
from moorage.validation.rules import Breaches, Rule, RuleContext, RuleTable, Severity, context_of

IGNORE_ANNOTATION = "lint.moorage.dev/ignore"
"""An object's annotation that silences rules for it: ids joined by commas."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One rule that applies at one place."""

    rule: Rule[ClusterObject, LintContext]
    file: str
    line: int
    subject: str
    path: str
    message: str

    @property
    def severity(self) -> Severity:
        """How severe it is."""
        return self.rule.severity


@dataclass(frozen=True, slots=True)
class LintContext:
    """What rules know besides the object: what the API server would say, the gates, and the nodes."""

    admission: ManifestAdmission
    placement: RuleContext


RULES: RuleTable[ClusterObject, LintContext] = RuleTable()


@RULES.rule(
    "unreadable",
    Severity.ERROR,
    "an object that cannot be read as its kind is refused as a whole",
    "give the field the type that the message names",
)
def _unreadable(item: ClusterObject, context: LintContext) -> Breaches:
    if refusal := context.admission.trial(item).unreadable:
        yield refusal


@RULES.rule(
    "admission",
    Severity.ERROR,
    "the API server refuses the object",
    "correct the field, or turn on the gate that it needs",
)
def _refused(item: ClusterObject, context: LintContext) -> Breaches:
    yield from context.admission.trial(item).refusals


@RULES.rule(
    "unknown-field",
    Severity.WARNING,
    "kubectl refuses a field that the kind does not have; for other clients the API server drops it",
    "correct the spelling or the indentation, or remove the field",
)
def _unknown_fields(item: ClusterObject, context: LintContext) -> Breaches:
    for path in context.admission.trial(item).unknown:
        yield path, "unknown field"


@RULES.rule(
    "attached-rules",
    Severity.ERROR,
    "a pod, volume or claim whose rules in annotations are refused is not placed, or cannot be used",
    "correct the annotation: it holds the YAML of the field that it stands for",
)
def _refused_rules(item: ClusterObject, _: LintContext) -> Breaches:
    for error in attached_errors(item.object):
        yield error.field, error.body


@RULES.rule(
    "attached-place",
    Severity.WARNING,
    "rules in annotations are read on pods, pod templates, volumes and claims, and nowhere else",
    "correct its name, or move it: to the template of the pods, or in a ResourceClaimTemplate to `spec.metadata`",
)
def _unread_rules(item: ClusterObject, _: LintContext) -> Breaches:
    yield from unread_rules(item.object)


@RULES.rule(
    "attached-scheduler",
    Severity.WARNING,
    "rules in annotations are applied only by Moorage's scheduler; every other one places the pod without them",
    "name it: `schedulerName: moorage`",
)
def _placed_by_others(item: ClusterObject, _: LintContext) -> Breaches:
    kind = kinds.of(item.object)
    spec, metadata = kind.pod_spec_of(item.object), kind.pod_metadata_of(item.object)
    if spec is None or metadata is None or not any(name in metadata.annotations for name in POD_RULES):
        return
    if spec.scheduler_name in ("", "default-scheduler"):
        yield f"{kind.pod_spec}.schedulerName", "the pod has rules in annotations, and the default scheduler places it"


@RULES.rule(
    "attached-daemonset",
    Severity.WARNING,
    "the stock controller of DaemonSets judges nodes natively: where only rules tolerate a taint it creates no pod",
    "let `moorage convert` add the cover, after which pods that the rules refuse wait on their node",
)
def _uncovered_daemons(item: ClusterObject, _: LintContext) -> Breaches:
    if is_uncovered_daemon(item.object):
        yield "spec.template.metadata.annotations", "the DaemonSet has rules in annotations, and no cover of them"


def _of_object(rule: Rule[Object, RuleContext]) -> Rule[ClusterObject, LintContext]:
    def check(item: ClusterObject, context: LintContext) -> Breaches:
        yield from rule.check(item.object, context.placement)
        if rule.id != "needs-gates":
            yield from attached_advice(item.object, lambda pod: rule.check(pod, context.placement))

    return Rule(rule.id, rule.severity, rule.reason, rule.fix, check)


RULES.update((rule.id, _of_object(rule)) for rule in ADVICE.values())
_ORDER = {rule_id: place for place, rule_id in enumerate(RULES)}


def lint(cluster: Cluster, nodes: Cluster, gates: Gates) -> list[LintFinding]:
    """All findings, object by object; for each object the eviction trap first, then by severity."""
    findings = [
        LintFinding(RULES["unreadable"], error.file, error.line, "", "", error.message) for error in cluster.problems
    ]
    placement = context_of((node for _, node in nodes.of(Node)), gates, _device_taints(nodes))
    context = LintContext(ManifestAdmission(cluster.items, gates), placement)
    for item in cluster.items:
        findings += sorted(_findings(item, context), key=_order)
    return findings


def _device_taints(cluster: Cluster) -> Iterator[Taint]:
    for _, inventory in cluster.of(ResourceSlice):
        for device in inventory.spec.devices:
            yield from device.taints
    for _, rule in cluster.of(DeviceTaintRule):
        yield rule.spec.taint


def _order(finding: LintFinding) -> tuple[bool, int, int]:
    return finding.rule.id != "eviction-trap", finding.severity, _ORDER[finding.rule.id]


def _findings(item: ClusterObject, context: LintContext) -> Iterator[LintFinding]:
    ignored = {name.strip() for name in item.object.metadata.annotations.get(IGNORE_ANNOTATION, "").split(",")}
    for rule in RULES.values():
        if rule.id in ignored:
            continue
        for path, message in rule.check(item, context):
            yield LintFinding(rule, item.file, item.line(path), item.name, item.path(path), message)
