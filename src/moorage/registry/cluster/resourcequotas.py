"""ResourceQuotas."""

from __future__ import annotations

from collections.abc import Callable

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.api.meta import Data, ResourceList
from moorage.api.quota import ResourceQuota, ResourceQuotaSpec, ScopedResourceSelectorRequirement
from moorage.quantity import Quantity
from moorage.registry.checks import IMMUTABLE, Errors, syntax
from moorage.registry.merging import ATOMIC, shape, struct
from moorage.registry.pod.resources import amount_errors, is_standard_quota, name_problems
from moorage.registry.printing.cells import PrintedRow
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import Strategy
from moorage.registry.usage import Usage
from moorage.validation.field import invalid, required

_COMPUTE = frozenset(prefix + name for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory"))
_PODS = _COMPUTE | {"pods"}
_SCOPES = {
    "Terminating": _PODS,
    "NotTerminating": _PODS,
    "BestEffort": frozenset(("pods",)),
    "NotBestEffort": _PODS,
    "PriorityClass": _PODS,
    "CrossNamespacePodAffinity": _PODS,
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", "requests.storage")),
}
"""The resources that a quota with a scope can limit."""
_NAMED = ("PriorityClass", "VolumeAttributesClass")
_UNFIT = "unsupported scope applied to resource"
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_ONLY_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _errors(new: Data, old: Data | None) -> Errors:
    spec = convert(new, ResourceQuota).spec
    yield from _amounts_errors("spec.hard", spec.hard)
    yield from _scopes_errors(spec)
    if spec.scope_selector is not None:
        yield from _selector_errors(spec, spec.scope_selector.match_expressions)
    if old is not None and {*spec.scopes} != {*convert(old, ResourceQuota).spec.scopes}:
        yield invalid("spec.scopes", list(spec.scopes), IMMUTABLE)


def _status_errors(new: Data, _: Data) -> Errors:
    status = convert(new, ResourceQuota).status
    yield from _amounts_errors("status.hard", status.hard)
    yield from _amounts_errors("status.used", status.used)


def _amounts_errors(path: str, amounts: ResourceList) -> Errors:
    for name, amount in amounts.items():
        here = f"{path}[{name}]"
        yield from syntax(here, name, name_problems(name))
        if "/" not in name and not is_standard_quota(name):
            yield invalid(here, name, "must be a standard resource for quota")
        yield from amount_errors(here, name, str(amount))


def _scopes_errors(spec: ResourceQuotaSpec) -> Errors:
    scopes = list(spec.scopes)
    for scope in spec.scopes:
        if scope not in _SCOPES:
            yield invalid("spec.scopes", scopes, "unsupported scope")
        for _ in _unfit(spec, scope):
            yield invalid("spec.scopes", scopes, _UNFIT)
    for pair in _OPPOSITES:
        if pair <= {*scopes}:
            yield invalid("spec.scopes", scopes, "conflicting scopes")


def _unfit(spec: ResourceQuotaSpec, scope: str) -> list[str]:
    """The resources that a quota with a scope cannot limit."""
    allowed = _SCOPES.get(scope)
    return [name for name in spec.hard if allowed is not None and is_standard_quota(name) and name not in allowed]


def _selector_errors(spec: ResourceQuotaSpec, requirements: tuple[ScopedResourceSelectorRequirement, ...]) -> Errors:
    path = "spec.scopeSelector.matchExpressions"
    for requirement in requirements:
        scope, operator = requirement.scope_name, requirement.operator
        if scope not in _SCOPES:
            yield invalid(f"{path}.scopeName", scope, "unsupported scope")
        for _ in _unfit(spec, scope):
            yield invalid(path, {"MatchExpressions": list(map(_go, requirements))}, _UNFIT)
        if scope in _SCOPES and scope not in _NAMED and operator != "Exists":
            yield invalid(f"{path}.operator", operator, _ONLY_EXISTS)
        yield from _operator_errors(path, requirement)
    for pair in _OPPOSITES:
        if pair <= {requirement.scope_name for requirement in requirements}:
            yield invalid(path, list(spec.scopes) or None, "conflicting scopes")


def _go(requirement: ScopedResourceSelectorRequirement) -> Data:
    """A requirement as messages of Kubernetes show it: with the names that its fields have in Go."""
    scope, operator, values = requirement.scope_name, requirement.operator, requirement.values
    return {"ScopeName": scope, "Operator": operator, "Values": list(values) or None}


def _operator_errors(path: str, requirement: ScopedResourceSelectorRequirement) -> Errors:
    if requirement.operator in ("In", "NotIn"):
        if not requirement.values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required(f"{path}.values", detail)
    elif requirement.operator not in ("Exists", "DoesNotExist"):
        yield invalid(f"{path}.operator", requirement.operator, "not a valid selector operator")
    elif requirement.values:
        detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        yield invalid(f"{path}.values", list(requirement.values), detail)


def _used(*, are_limits: bool) -> Callable[[PrintedRow], str]:
    """How much is used of how much, for the limits or for everything else."""

    def cell(row: PrintedRow) -> str:
        hard, used = row.status.get("hard") or {}, row.status.get("used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") == are_limits]
        return ", ".join(f"{name}: {Quantity.of(used.get(name, 0))}/{Quantity.of(hard[name])}" for name in names)

    return cell


RESOURCE_QUOTA = Strategy(
    kind=kinds.row("v1", "ResourceQuota"),
    usage=Usage(alias="resourcequotas"),
    errors=_errors,
    status_errors=_status_errors,
    merge=shape(spec=struct(scopeSelector=ATOMIC)),
    columns=(
        NAME,
        column("Request", _used(are_limits=False), "How much is used and may be used: requests and counts."),
        column("Limit", _used(are_limits=True), "How much is used and may be used: limits."),
        AGE,
    ),
)
