"""Roles and bindings as they are written, and what a rule of a role allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from moorage.api.meta import LabelSelector, Wire

RBAC_GROUP = "rbac.authorization.k8s.io"
ALL = "*"
Names = tuple[str, ...] | None


class RoleRule(NamedTuple):
    """What a role allows: verbs on resources, perhaps of some names only, and verbs on paths."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows_verb(self, verb: str) -> bool:
        """Whether this verb is among the verbs."""
        return ALL in self.verbs or verb in self.verbs

    def allows_resource(self, group: str, resource: str, subresource: str) -> bool:
        """Whether this resource, or part of a resource, is among the resources."""
        if ALL not in self.groups and group not in self.groups:
            return False
        if not subresource:
            return ALL in self.resources or resource in self.resources
        return any(each in self.resources for each in (ALL, f"{resource}/{subresource}", f"*/{subresource}"))

    def allows_path(self, path: str) -> bool:
        """Whether this path is among the paths, some of which end with a star."""
        return any(url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL))) for url in self.urls)


class PolicyRule(Wire):
    """A rule as it is written."""

    verbs: Names = ()
    api_groups: Names = ()
    resources: Names = ()
    resource_names: Names = ()
    non_resource_urls: Names = msgspec.field(default=(), name="nonResourceURLs")

    @property
    def rule(self) -> RoleRule:
        """The rule as it is applied."""
        written = (self.verbs, self.api_groups, self.resources, self.resource_names, self.non_resource_urls)
        return RoleRule(*(values or () for values in written))


class Metadata(Wire):
    """What is read of the metadata."""

    name: str = ""
    labels: dict[str, str] | None = None


class AggregationRule(Wire):
    """Which cluster roles a cluster role gathers."""

    cluster_role_selectors: tuple[LabelSelector, ...] | None = ()


class Role(Wire):
    """A Role or ClusterRole."""

    metadata: Metadata = Metadata()
    rules: tuple[PolicyRule, ...] | None = ()
    aggregation_rule: AggregationRule | None = None

    @property
    def own_rules(self) -> tuple[RoleRule, ...]:
        """The rules that are written in it."""
        return tuple(each.rule for each in self.rules or ())

    @property
    def selectors(self) -> tuple[LabelSelector, ...]:
        """Which roles it gathers, if any."""
        return (self.aggregation_rule.cluster_role_selectors or ()) if self.aggregation_rule else ()


class RoleRef(Wire):
    """The role that a binding gives."""

    kind: str = ""
    name: str = ""
    api_group: str = RBAC_GROUP


class SubjectRef(Wire):
    """Whom a binding gives it."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleBinding(Wire):
    """A RoleBinding or ClusterRoleBinding."""

    metadata: Metadata = Metadata()
    role_ref: RoleRef = RoleRef()
    subjects: tuple[SubjectRef, ...] | None = ()


def read_role(data: Mapping[str, Any]) -> Role:
    """A role of data. Raises msgspec.ValidationError."""
    return msgspec.convert(data, Role)


def read_binding(data: Mapping[str, Any]) -> RoleBinding:
    """A binding of data. Raises msgspec.ValidationError."""
    return msgspec.convert(data, RoleBinding)
