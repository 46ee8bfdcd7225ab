"""Checks of node selectors, in pods, in PersistentVolumes and in device inventories."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.api.placementrules import PREFERRED, REQUIRED
from moorage.api.pod import NodeAffinity
from moorage.features import Gate, Gates
from moorage.match.expressions import NodeExpression
from moorage.match.operators import COMPARISONS, Comparison, selector_comparison
from moorage.match.selector import NAME_FIELD
from moorage.names import subdomain_errors
from moorage.validation.expressions import ExpressionBudget
from moorage.validation.field import FieldError, forbidden, invalid, required
from moorage.validation.syntax import gate_is_off, label_key, label_value


def node_affinity_errors(
    path: str, affinity: NodeAffinity, gates: Gates, budget: ExpressionBudget
) -> Iterator[FieldError]:
    """What is wrong with the node affinity of a pod."""
    needed = affinity.required_during_scheduling_ignored_during_execution
    if needed is not None:
        yield from selector_errors(f"{path}.{REQUIRED}", needed, gates, budget)
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        here = f"{path}.{PREFERRED}[{index}]"
        if not 1 <= preferred.weight <= 100:
            yield invalid(f"{here}.weight", preferred.weight, "must be in the range 1-100")
        yield from _term(f"{here}.preference", preferred.preference, gates, budget, check_values=False)


def selector_errors(path: str, selector: NodeSelector, gates: Gates, budget: ExpressionBudget) -> Iterator[FieldError]:
    """What is wrong with a node selector."""
    if not selector.node_selector_terms:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(selector.node_selector_terms):
        yield from _term(f"{path}.nodeSelectorTerms[{index}]", term, gates, budget, check_values=True)


def _term(
    path: str, term: NodeSelectorTerm, gates: Gates, budget: ExpressionBudget, *, check_values: bool
) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.match_expressions):
        here = f"{path}.matchExpressions[{index}]"
        yield from _requirement(here, requirement, gates)
        # A preference with a bad value is only useless; Kubernetes lets it pass, but for its newest operators.
        is_checked = check_values or selector_comparison(requirement.operator) is not None
        for place, value in enumerate(requirement.values if is_checked else ()):
            yield from label_value(f"{here}.values[{place}]", value)
    for index, requirement in enumerate(term.match_fields):
        yield from _field_requirement(f"{path}.matchFields[{index}]", requirement)
    if term.match_cel_expressions and not gates.enabled(Gate.CEL):
        yield gate_is_off(f"{path}.matchCELExpressions", Gate.CEL)
        return
    for index, source in enumerate(term.match_cel_expressions):
        here = f"{path}.matchCELExpressions[{index}]"
        yield from budget.check(here, source, NodeExpression)


def _requirement(path: str, requirement: NodeSelectorRequirement, gates: Gates) -> Iterator[FieldError]:
    operator, values = requirement.operator, requirement.values
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    elif (compared := selector_comparison(operator)) and gates.enabled(compared.gate):
        yield from _thresholds(f"{path}.values", compared, values)
    else:
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from label_key(f"{path}.key", requirement.key)


def _thresholds(path: str, compared: Comparison, values: tuple[str, ...]) -> Iterator[FieldError]:
    if len(values) != 1:
        *names, last = (f"'{name}'" for name in COMPARISONS if selector_comparison(name))
        yield required(path, f"must be specified single value when `operator` is {', '.join(names)} or {last}")
    for index, value in enumerate(values):
        for problem in compared.values.refusals(value):
            yield invalid(f"{path}[{index}]", value, problem)


def _field_requirement(path: str, requirement: NodeSelectorRequirement) -> Iterator[FieldError]:
    if requirement.operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", requirement.operator, "not a valid selector operator")
    elif len(requirement.values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", detail)
    if requirement.key != NAME_FIELD:
        yield invalid(f"{path}.key", requirement.key, "not a valid field selector key")
        return
    for index, value in enumerate(requirement.values):
        for problem in subdomain_errors(value):
            yield invalid(f"{path}.values[{index}]", value, problem)
