"""Rules for what is legal and probably wrong in tolerations and selectors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from moorage.api.meta import Object
from moorage.api.node import NodeSelectorRequirement, Taint
from moorage.api.placementrules import terms_of, tolerations_of
from moorage.api.pod import Toleration
from moorage.api.resource import ResourceClaim, ResourceClaimTemplate
from moorage.features import Gate
from moorage.match.cover import covers, overlap, threshold
from moorage.match.expressions import MAX_COST, NodeExpression, TaintExpression
from moorage.match.glob import compile_glob
from moorage.match.operators import COMPARISONS, VERSION
from moorage.match.reasons import toleration_text
from moorage.match.tolerations import EXISTS, NO_EXECUTE, Tolerations
from moorage.semver import VersionError, parse_tolerant
from moorage.validation.gates import gates_needed, term_gates, toleration_gates
from moorage.validation.rules import Breaches, RuleContext, RuleTable, Severity

_KERNEL = re.compile(r"v?\d+\.\d+\.\d+-\d+(?:[-.].*)?$")
_SYSTEM_TAINTS = tuple(
    f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable", "unschedulable", "out-of-service")
)

ADVICE: RuleTable[Object, RuleContext] = RuleTable()


def warnings(item: Object, context: RuleContext) -> list[str]:
    """What is legal and probably wrong, as warnings that the API server returns with a response."""
    if not any(tolerations for _, tolerations in tolerations_of(item)) and next(terms_of(item), None) is None:
        return []  # no rule is about anything else
    return [
        f"{path}: {message}"
        for rule in ADVICE.values()
        if rule.severity is Severity.WARNING
        for path, message in rule.check(item, context)
    ]


def _tolerations(item: Object) -> Iterator[tuple[str, Toleration]]:
    for path, tolerations in tolerations_of(item):
        for index, toleration in enumerate(tolerations):
            yield f"{path}[{index}]", toleration


def _requirements(item: Object) -> Iterator[tuple[str, NodeSelectorRequirement]]:
    for path, term in terms_of(item):
        for index, requirement in enumerate(term.match_expressions):
            yield f"{path}.matchExpressions[{index}]", requirement


def _pairs(item: Object) -> Iterator[tuple[str, int, Toleration, int, Toleration]]:
    """Every pair of tolerations of a list, the earlier first."""
    for path, tolerations in tolerations_of(item):
        for second, later in enumerate(tolerations):
            for first, earlier in enumerate(tolerations[:second]):
                yield path, first, earlier, second, later


@ADVICE.rule(
    "eviction-trap",
    Severity.WARNING,
    "tolerationSeconds bounds how long a pod stays on a node that matches, not how long it may stay after a drop",
    "remove tolerationSeconds: then the pod stays while the taint matches and leaves at once when it does not",
)
def eviction_trap(item: Object, _: RuleContext) -> Breaches:
    """Find comparisons whose tolerationSeconds evict the pod from the nodes that it wants."""
    for path, toleration in _tolerations(item):
        compares = toleration.operator in COMPARISONS
        if toleration.toleration_seconds is None or not (compares or toleration.expression):
            continue
        if compares and toleration.effect not in ("", NO_EXECUTE):
            continue
        text, seconds = toleration_text(toleration), toleration.toleration_seconds
        yield (
            f"{path}.tolerationSeconds",
            f"`{text}` with tolerationSeconds {seconds} evicts the pod after {seconds} s from every node whose "
            f"NoExecute taint it matches, and gives no grace when the taint stops matching",
        )


@ADVICE.rule(
    "or-band",
    Severity.WARNING,
    "tolerations are ORed, so a lower and an upper bound on one key tolerate everything",
    "keep one bound in the toleration and express the other as node affinity, or write both in one expression",
)
def or_band(item: Object, _: RuleContext) -> Breaches:
    """Find a lower and an upper bound on one key that together let everything through."""
    for path, first, earlier, second, later in _pairs(item):
        below, above = (earlier, later) if _side(earlier) == "below" else (later, earlier)
        if (_side(below), _side(above)) != ("below", "above") or not overlap(earlier, later):
            continue
        low, high = threshold(below), threshold(above)
        if low is not None and type(low) is type(high) and low < high:
            yield (
                f"{path}[{second}]",
                f"`{toleration_text(below)}` or `{toleration_text(above)}` (with [{first}]) tolerates every value of "
                f"{below.key}: tolerations are alternatives, not a range",
            )


def _side(toleration: Toleration) -> str:
    """From which side a toleration bounds the values that it tolerates, when it does so from one side."""
    compared = COMPARISONS.get(toleration.operator)
    if compared is None or compared.from_below is compared.from_above:
        return ""
    return "below" if compared.from_below else "above"


@ADVICE.rule(
    "never-matches",
    Severity.WARNING,
    "a threshold that no value passes keeps the pod away from every node with that taint",
    "move the threshold, or remove the toleration",
)
def never_matches(item: Object, context: RuleContext) -> Breaches:
    """Find thresholds that nothing can pass, or that no taint on the given nodes passes."""
    for path, toleration in _tolerations(item):
        compared = COMPARISONS.get(toleration.operator)
        if compared and compared.passes_none(threshold(toleration)):
            passing = compared.fails.removeprefix("not ")
            yield f"{path}.value", f"no taint is {passing} this: a taint's value has no sign and is an int64"
        elif taints := _compared(item, toleration, context):
            test = Tolerations([toleration], context.gates)
            parsed = [taint for taint in taints if not test.verdict(taint).error]
            if parsed and not any(test.verdict(taint).matched for taint in parsed):
                values = ", ".join(sorted({taint.value for taint in parsed})[:5])
                yield (
                    f"{path}.value",
                    f"`{toleration_text(toleration)}` matches no {toleration.key} taint here: {values}",
                )


@ADVICE.rule(
    "always-matches",
    Severity.WARNING,
    "a threshold that every value passes is Exists in disguise",
    "move the threshold, or say `operator: Exists`",
)
def always_matches(item: Object, context: RuleContext) -> Breaches:
    """Find thresholds that everything passes, or that every taint on the given nodes passes."""
    for path, toleration in _tolerations(item):
        compared = COMPARISONS.get(toleration.operator)
        if compared and compared.passes_all(threshold(toleration)):
            text = toleration_text(toleration)
            yield f"{path}.value", f"`{text}` matches every integer: a taint's value has no sign and is an int64"
        elif len(taints := _compared(item, toleration, context)) > 1:
            test = Tolerations([toleration], context.gates)
            if all(test.verdict(taint).matched for taint in taints):
                count = len({taint.value for taint in taints})
                yield (
                    f"{path}.value",
                    f"`{toleration_text(toleration)}` matches every {toleration.key} taint here ({count} values)",
                )


def _compared(item: Object, toleration: Toleration, context: RuleContext) -> frozenset[Taint]:
    """The taints, of nodes or for a claim of devices, that a comparing toleration speaks of, when its gate is on."""
    if toleration.operator not in COMPARISONS:
        return frozenset()
    if not all(context.gates.enabled(gate) for gate in toleration_gates(toleration)):
        return frozenset()
    by_key = context.device_taints if isinstance(item, ResourceClaim | ResourceClaimTemplate) else context.taints
    keys = filter(compile_glob(toleration.key), by_key) if "*" in toleration.key else (toleration.key,)
    taints = (taint for key in keys for taint in by_key.get(key, ()))
    return frozenset(taint for taint in taints if toleration.effect in ("", taint.effect))


@ADVICE.rule(
    "unparsable-value",
    Severity.WARNING,
    "a taint or label that is not a number or version never matches a comparison",
    "correct the value on the node, or tolerate it with Equal or Exists",
)
def unparsable(item: Object, context: RuleContext) -> Breaches:
    """Find comparisons whose other side, on the given nodes, is not a number or a version."""
    for path, toleration in _tolerations(item):
        test = Tolerations([toleration], context.gates)
        for taint in sorted(_compared(item, toleration, context), key=str):
            if error := test.verdict(taint).error:
                yield path, f"taint {taint}: {error}, so `{toleration_text(toleration)}` cannot match"
    for path, requirement in _requirements(item):
        if _compares_versions(requirement.operator):
            for value in sorted(context.labels.get(requirement.key, ())):
                if problem := _version_problem(value):
                    text = f"{requirement.operator} {' '.join(requirement.values)}"
                    yield path, f"label {requirement.key}={value}: {problem}, so `{text}` cannot match"


def _compares_versions(operator: str) -> bool:
    compared = COMPARISONS.get(operator)
    return compared is not None and compared.values is VERSION


def _version_problem(text: str) -> str:
    try:
        parse_tolerant(text)
    except VersionError as error:
        return str(error)
    return ""


def _versions(item: Object) -> Iterator[tuple[str, str]]:
    """Every value that is compared as a version."""
    for path, toleration in _tolerations(item):
        if _compares_versions(toleration.operator):
            yield f"{path}.value", toleration.value
    for path, requirement in _requirements(item):
        if _compares_versions(requirement.operator):
            for index, value in enumerate(requirement.values):
                yield f"{path}.values[{index}]", value


@ADVICE.rule(
    "semver-prerelease",
    Severity.WARNING,
    "a pre-release sorts below its release, which surprises in a threshold",
    "compare with the release, or mean the pre-release and ignore this rule",
)
def semver_prerelease(item: Object, _: RuleContext) -> Breaches:
    """Find thresholds that are pre-releases."""
    for path, value in _versions(item):
        if not _version_problem(value) and not _KERNEL.match(value) and (pre := parse_tolerant(value).prerelease):
            yield path, f"{value} is a pre-release (-{pre}): it sorts below {value.split('-')[0]}"


@ADVICE.rule(
    "kernel-version",
    Severity.WARNING,
    "kernel versions such as 5.15.0-1034-aws are pre-releases of 5.15.0 to a semver operator",
    "publish only the three numbers as the label, or compare with the version below",
)
def kernel_version(item: Object, context: RuleContext) -> Breaches:
    """Find kernel-style versions, whose suffix counts as a pre-release."""
    for path, value in _versions(item):
        if _KERNEL.match(value):
            yield (
                path,
                f"{value} looks like a kernel version: its suffix counts as a pre-release of {value.split('-')[0]}",
            )
    for path, requirement in _requirements(item):
        if not _compares_versions(requirement.operator):
            continue
        kernels = sorted(value for value in context.labels.get(requirement.key, ()) if _KERNEL.match(value))
        if kernels:
            yield (
                path,
                f"label {requirement.key} has kernel versions such as {kernels[0]}, which sorts below "
                f"{kernels[0].split('-')[0]}",
            )


@ADVICE.rule(
    "broad-toleration",
    Severity.WARNING,
    "a toleration of every key also tolerates taints that protect the pod, such as not-ready",
    "name the key, or use a wildcard below one prefix (`readiness.k8s.io/*`)",
)
def broad_toleration(item: Object, _: RuleContext) -> Breaches:
    """Find tolerations that tolerate far more than the others of the same object."""
    for path, tolerations in tolerations_of(item):
        for index, toleration in enumerate(tolerations):
            here = f"{path}[{index}].key"
            if toleration.expression:
                if "taint.key" not in toleration.expression:
                    message = "the expression does not look at taint.key: it may tolerate taints of any owner"
                    yield f"{path}[{index}].expression", message
                continue
            if not toleration.key and toleration.operator == EXISTS:
                others = len(tolerations) - 1
                beside = f", so the {others} beside it do{'es' if others == 1 else ''} nothing" if others else ""
                effect = toleration.effect or "any effect"
                yield here, f"an empty key tolerates every taint with {effect}, also {_SYSTEM_TAINTS[0]}{beside}"
            elif "*" in toleration.key:
                prefix, slash, _name = toleration.key.partition("/")
                system = next(filter(compile_glob(toleration.key), _SYSTEM_TAINTS), "")
                if system:
                    yield here, f"`{toleration.key}` also tolerates {system}"
                elif not slash or "*" in prefix:
                    yield here, f"`{toleration.key}` is not bound to one prefix: it tolerates keys of any owner"


@ADVICE.rule(
    "duplicate-toleration",
    Severity.WARNING,
    "of two equal tolerations only the first one's tolerationSeconds counts",
    "remove one of them",
)
def duplicate_toleration(item: Object, _: RuleContext) -> Breaches:
    """Find tolerations that are listed twice."""
    for path, first, earlier, second, later in _pairs(item):
        if covers(earlier, later) and covers(later, earlier):
            yield f"{path}[{second}]", f"the same as [{first}]; of the two, only the first counts for eviction"


@ADVICE.rule(
    "shadowed-toleration",
    Severity.WARNING,
    "a toleration that another one includes changes nothing",
    "remove it, or narrow the wider one",
)
def shadowed_toleration(item: Object, _: RuleContext) -> Breaches:
    """Find tolerations that add nothing to another."""
    for path, first, earlier, second, later in _pairs(item):
        if covers(earlier, later) == covers(later, earlier):
            continue
        if covers(earlier, later):
            yield f"{path}[{second}]", f"`{toleration_text(later)}` adds nothing: [{first}] tolerates all that it does"
        elif earlier.toleration_seconds == later.toleration_seconds:
            yield (
                f"{path}[{first}]",
                f"`{toleration_text(earlier)}` adds nothing: [{second}] tolerates all that it does",
            )


def _expressions(item: Object) -> Iterator[tuple[str, TaintExpression | NodeExpression]]:
    """Every expression that compiles."""
    for path, toleration in _tolerations(item):
        if toleration.expression and not (taint := TaintExpression(toleration.expression)).problem:
            yield f"{path}.expression", taint
    for path, term in terms_of(item):
        for index, source in enumerate(term.match_cel_expressions):
            if not (node := NodeExpression(source)).problem:
                yield f"{path}.matchCELExpressions[{index}]", node


@ADVICE.rule(
    "costly-expression",
    Severity.WARNING,
    "an expression near the cost limit is slow, and a small addition makes admission refuse it",
    "test keys and prefixes before anything that loops, or split the expression",
)
def costly_expression(item: Object, _: RuleContext) -> Breaches:
    """Find expressions whose cost comes near the limit."""
    for path, expression in _expressions(item):
        if MAX_COST // 2 <= expression.cost <= MAX_COST:
            share = expression.cost / MAX_COST
            yield path, f"one evaluation can cost {expression.cost}, {share:.0%} of the limit"


@ADVICE.rule(
    "unguarded-label",
    Severity.NOTE,
    "looking up a label that a node does not have is an error, and an error never matches",
    "test `'KEY' in node.labels` first, or give a default: `node.labels[?'KEY'].orValue('')`",
)
def unguarded_label(item: Object, _: RuleContext) -> Breaches:
    """Find look-ups of labels that a node may not have."""
    for path, expression in _expressions(item):
        if isinstance(expression, NodeExpression):
            for key in sorted(expression.unguarded_keys):
                yield path, f"on a node without the label {key} this fails, also where it is negated"


@ADVICE.rule(
    "unguarded-time",
    Severity.NOTE,
    "reading the time of a taint that has none is an error, and an error never matches",
    "test `has(taint.timeAdded)` first, or give a default: `taint.?timeAdded.orValue(timestamp(0))`",
)
def unguarded_time(item: Object, _: RuleContext) -> Breaches:
    """Find expressions that read the time of a taint which may have none."""
    for path, expression in _expressions(item):
        if isinstance(expression, TaintExpression) and expression.needs_time:
            yield path, "on a taint without timeAdded this fails, also where it is negated: many writers set none"


@ADVICE.rule(
    "autoscaler",
    Severity.NOTE,
    "node autoscalers simulate an older scheduler and take what they do not know for a mismatch",
    "keep a node of the right kind running, or say the same with Equal and In for autoscaled pools",
)
def autoscaler(item: Object, _: RuleContext) -> Breaches:
    """Find what cluster-autoscaler and Karpenter cannot evaluate."""
    for path, toleration in _tolerations(item):
        if gates := sorted(set(toleration_gates(toleration)), key=lambda gate: gate.value):
            yield path, _not_evaluated(gates[0])
    for path, term in terms_of(item):
        for gate in sorted(set(term_gates(term)), key=lambda gate: gate.value):
            yield path, _not_evaluated(gate)


_FEATURES = {
    Gate.COMPARISON: "Gt and Lt in tolerations",
    Gate.SEMVER: "semver operators",
    Gate.CEL: "CEL expressions",
    Gate.WILDCARD: "wildcard keys",
}


def _not_evaluated(gate: Gate) -> str:
    return f"cluster-autoscaler and Karpenter do not evaluate {_FEATURES[gate]} and will not add a node for it"


@ADVICE.rule(
    "needs-gates",
    Severity.NOTE,
    "with a gate off, new pods are refused and waiting ones stay Pending",
    "turn the gates on in the API server first, then in the scheduler",
)
def needs_gates(item: Object, context: RuleContext) -> Breaches:
    """Say which gates an object needs."""
    gates = gates_needed(item)
    if gates:
        listed = ", ".join(
            f"{gate.value} ({'on' if context.gates.enabled(gate) else 'off'} here)" for gate in Gate if gate in gates
        )
        yield "", f"needs {listed} in the API server and the scheduler"
