"""Limits on what a namespace may use: for each pod and claim (LimitRange), and for all of them (ResourceQuota)."""

from __future__ import annotations

from moorage.api.meta import Object, ResourceList, Wire


class LimitRangeItem(Wire):
    """The limits on each container, pod or claim."""

    type: str = ""
    max: ResourceList = {}
    min: ResourceList = {}
    default: ResourceList = {}
    default_request: ResourceList = {}
    max_limit_request_ratio: ResourceList = {}


class LimitRangeSpec(Wire):
    """The limits by what they are on."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Object):
    """How little and how much each container, pod or claim of a namespace may ask for, and what it gets by default."""

    spec: LimitRangeSpec = LimitRangeSpec()


class ScopedResourceSelectorRequirement(Wire):
    """One condition on what a quota counts."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Wire):
    """Conditions that must all hold for an object to be counted."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Wire):
    """How much may be used, and by which objects."""

    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Wire):
    """How much may be used and how much is."""

    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(Object):
    """How much all objects of a namespace may use together."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
