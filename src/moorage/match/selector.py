"""Does a node satisfy a selector: node selectors of pods and of volumes, compiled once and asked many times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import gt, lt

from moorage.api.labels import Labels
from moorage.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm
from moorage.api.pod import PodSpec
from moorage.features import Gate, Gates
from moorage.gotext import quote
from moorage.match.deferral import STEP_COST
from moorage.match.expressions import NodeExpression
from moorage.match.operators import Comparison, selector_comparison
from moorage.match.verdict import MATCH, NO_MATCH, Verdict
from moorage.names import label_key_errors, label_value_errors, lenient_int64

_NUMERIC = {"Gt": gt, "Lt": lt}
NAME_FIELD = "metadata.name"

ValueTest = Callable[[str | None], Verdict]


@dataclass(frozen=True, slots=True)
class SelectorCondition:
    """One part of a term: a requirement on a label, on the node's name, or an expression."""

    text: str
    keys: frozenset[str] | None
    """The label keys that the verdict depends on; None when it may depend on all of them."""
    verdict: Callable[[Labels, str], Verdict]
    reads_name: bool = False
    gate: Gate | None = None
    """The gate without which the condition never holds, when it is off."""
    expression: NodeExpression | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """Conditions that must all hold. A term that does not parse, or that is empty, matches no node."""

    conditions: tuple[SelectorCondition, ...]
    errors: tuple[str, ...] = ()
    weight: int = 0

    def verdict(self, labels: Labels, name: str) -> Verdict:
        """A match when all conditions match; otherwise the verdict of the first that does not."""
        if self.errors:
            return Verdict(False, "; ".join(self.errors), "node selector term does not parse")
        for condition in self.conditions:
            verdict = condition.verdict(labels, name)
            if not verdict.matched:
                return verdict
        return MATCH if self.conditions else NO_MATCH

    def unmet(self, labels: Labels, name: str) -> tuple[SelectorCondition, Verdict] | None:
        """The first condition that does not match; None when all do, or when there is none."""
        judged = ((condition, condition.verdict(labels, name)) for condition in self.conditions)
        return next(((condition, verdict) for condition, verdict in judged if not verdict.matched), None)


@dataclass(frozen=True, slots=True)
class Selector:
    """Terms of which one must match, and conditions that must all match beside them."""

    terms: tuple[Term, ...] | None = None
    """None when there is no selector: then the terms exclude nothing."""
    always: tuple[SelectorCondition, ...] = ()

    def verdict(self, labels: Labels, name: str) -> Verdict:
        """Whether a node satisfies the selector; an error only when no term matches."""
        for condition in self.always:
            verdict = condition.verdict(labels, name)
            if not verdict.matched:
                return verdict
        if self.terms is None:
            return MATCH
        answer = NO_MATCH
        for term in self.terms:
            verdict = term.verdict(labels, name)
            if verdict.matched:
                return MATCH
            if verdict.error and not answer.error:
                answer = verdict
        return answer

    @property
    def conditions(self) -> Iterable[SelectorCondition]:
        """Every condition of the selector."""
        yield from self.always
        for term in self.terms or ():
            yield from term.conditions

    @property
    def keys(self) -> frozenset[str] | None:
        """The label keys that the verdict depends on; None when it may depend on all of them."""
        return keys_of(self.conditions)

    @property
    def cost(self) -> int:
        """What it can cost to ask about one node."""
        return cost_of(self.conditions)

    @property
    def reads_name(self) -> bool:
        """Whether the verdict depends on the node's name."""
        return any(condition.reads_name for condition in self.conditions)

    @property
    def errors(self) -> tuple[str, ...]:
        """What does not parse."""
        return tuple(error for term in self.terms or () for error in term.errors)


@dataclass(frozen=True, slots=True)
class Preferences:
    """Terms that add their weight to a node's score."""

    terms: tuple[Term, ...]

    def score(self, labels: Labels, name: str) -> int:
        """The weights of the terms that match, added up."""
        return sum(term.weight for term in self.terms if term.verdict(labels, name).matched)

    @property
    def keys(self) -> frozenset[str] | None:
        """The label keys that the score depends on; None when it may depend on all of them."""
        return keys_of(condition for term in self.terms for condition in term.conditions)

    @property
    def cost(self) -> int:
        """What it can cost to ask about one node."""
        return cost_of(condition for term in self.terms for condition in term.conditions)

    @property
    def reads_name(self) -> bool:
        """Whether the score depends on the node's name."""
        return any(condition.reads_name for term in self.terms for condition in term.conditions)

    @property
    def errors(self) -> tuple[str, ...]:
        """What does not parse."""
        return tuple(error for term in self.terms for error in term.errors)


def cost_of(conditions: Iterable[SelectorCondition]) -> int:
    """What it can cost to ask about one node."""
    return sum(STEP_COST * each.expression.cost if each.expression else 1 for each in conditions)


def keys_of(conditions: Iterable[SelectorCondition]) -> frozenset[str] | None:
    """All label keys that some conditions read; None when one may read any."""
    keys: set[str] = set()
    for condition in conditions:
        if condition.keys is None:
            return None
        keys |= condition.keys
    return frozenset(keys)


def compile_selector(selector: NodeSelector | None, gates: Gates) -> Selector:
    """A node selector as PersistentVolumes and devices have it. None excludes no node."""
    if selector is None:
        return Selector()
    return Selector(tuple(compile_term(term, gates) for term in selector.node_selector_terms))


def compile_pod_selector(spec: PodSpec, gates: Gates) -> Selector:
    """All that a pod demands of a node's labels and name: its nodeSelector and its required node affinity."""
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    selector = compile_selector(required or None, gates)
    always = tuple(_label_equals(key, value) for key, value in spec.node_selector.items())
    return Selector(selector.terms, always)


def compile_preferences(terms: Iterable[PreferredSchedulingTerm], gates: Gates) -> Preferences:
    """The preferred terms of a pod; a term without weight or conditions says nothing."""
    return Preferences(
        tuple(
            compile_term(preferred.preference, gates, preferred.weight)
            for preferred in terms
            if preferred.weight and preferred.preference != _EMPTY_TERM
        )
    )


_EMPTY_TERM = NodeSelectorTerm()


def compile_term(term: NodeSelectorTerm, gates: Gates, weight: int = 0) -> Term:
    """One term, with the errors of all requirements that do not parse."""
    conditions: list[SelectorCondition] = []
    errors: list[str] = []
    for requirement in term.match_expressions:
        problems = requirement_errors(requirement)
        errors += problems
        if not problems:
            conditions.append(_label_condition(requirement, gates))
    for requirement in term.match_fields:
        problems = _field_errors(requirement)
        errors += problems
        if not problems:
            conditions.append(_field_condition(requirement))
    conditions += (_expression_condition(source, gates) for source in term.match_cel_expressions)
    return Term(tuple(conditions), tuple(errors), weight)


def requirement_errors(requirement: NodeSelectorRequirement) -> list[str]:
    """Why a requirement on a label cannot be evaluated at all."""
    operator, values = requirement.operator, requirement.values
    errors = label_key_errors(requirement.key)
    if operator in ("In", "NotIn"):
        if not values:
            errors.append("for 'in', 'notin' operators, values set can't be empty")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append("values set must be empty for exists and does not exist")
    elif operator in _NUMERIC:
        if len(values) != 1:
            errors.append("for 'Gt', 'Lt' operators, exactly one value is required")
        if any(lenient_int64(value) is None for value in values):
            errors.append("for 'Gt', 'Lt' operators, the value must be an integer")
    elif compared := selector_comparison(operator):
        errors += _threshold_errors(compared, values)
    else:
        errors.append(f"{quote(operator)} is not a valid selector operator")
    for value in values:
        errors += label_value_errors(value)
    return [f"{_text(requirement)}: {error}" for error in errors]


def _threshold_errors(compared: Comparison, values: tuple[str, ...]) -> list[str]:
    if len(values) != 1:
        return ["semver operators take exactly one value"]
    return compared.values.refusals(values[0])


def _field_errors(requirement: NodeSelectorRequirement) -> list[str]:
    if requirement.operator not in ("In", "NotIn"):
        return [f"{_text(requirement)}: only In and NotIn are supported on fields"]
    if len(requirement.values) != 1:
        return [f"{_text(requirement)}: must have one element"]
    return []


def _label_condition(requirement: NodeSelectorRequirement, gates: Gates) -> SelectorCondition:
    key, text = requirement.key, _text(requirement)
    compared = selector_comparison(requirement.operator)
    if compared is not None and not gates.enabled(compared.gate):
        return SelectorCondition(text, frozenset(), _never, gate=compared.gate)
    test = _label_test(requirement) if compared is None else _comparison_test(requirement, compared)
    return SelectorCondition(text, frozenset([key]), lambda labels, _: test(labels.get(key)))


def _label_equals(key: str, value: str) -> SelectorCondition:
    return SelectorCondition(
        f"{key}={value}", frozenset([key]), lambda labels, _: MATCH if labels.get(key) == value else NO_MATCH
    )


def _label_test(requirement: NodeSelectorRequirement) -> ValueTest:
    operator, values = requirement.operator, frozenset(requirement.values)
    tests: dict[str, ValueTest] = {
        "In": lambda value: MATCH if value in values else NO_MATCH,
        "NotIn": lambda value: NO_MATCH if value in values else MATCH,
        "Exists": lambda value: NO_MATCH if value is None else MATCH,
        "DoesNotExist": lambda value: MATCH if value is None else NO_MATCH,
    }
    return tests.get(operator) or _numeric_test(requirement)


def _numeric_test(requirement: NodeSelectorRequirement) -> ValueTest:
    compare, bound = _NUMERIC[requirement.operator], lenient_int64(requirement.values[0])
    assert bound is not None  # requirement_errors() has refused other values

    def test(value: str | None) -> Verdict:
        number = None if value is None else lenient_int64(value)
        return MATCH if number is not None and compare(number, bound) else NO_MATCH

    return test


def _comparison_test(requirement: NodeSelectorRequirement, compared: Comparison) -> ValueTest:
    key, values, holds = requirement.key, compared.values, compared.holds
    bound = values.parse(requirement.values[0])

    def test(value: str | None) -> Verdict:
        if value is None:
            return NO_MATCH
        try:
            operand = values.parse(value)
        except ValueError as error:
            sentence = f"label {key}={value} is not {values.what}: {error}"
            return Verdict(False, sentence, f"Parse semver failed for value {value} in label {key}")
        return MATCH if holds(operand, bound) else NO_MATCH

    return test


def _field_condition(requirement: NodeSelectorRequirement) -> SelectorCondition:
    expected, wants_equal = requirement.values[0], requirement.operator == "In"
    knows_field = requirement.key == NAME_FIELD

    def verdict(_: Labels, name: str) -> Verdict:
        # A node without a name has no fields at all, and then field requirements exclude nothing.
        actual = name if knows_field else ""
        return MATCH if not name or (actual == expected) == wants_equal else NO_MATCH

    return SelectorCondition(_text(requirement), frozenset(), verdict, reads_name=True)


def _expression_condition(source: str, gates: Gates) -> SelectorCondition:
    if not gates.enabled(Gate.CEL):
        return SelectorCondition(source, frozenset(), _never, gate=Gate.CEL)
    expression = NodeExpression(source)
    test = expression.verdict
    return SelectorCondition(source, expression.keys, lambda labels, _: test(labels), expression=expression)


def _never(_: Labels, __: str) -> Verdict:
    return NO_MATCH


def _text(requirement: NodeSelectorRequirement) -> str:
    values = f" [{' '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"
