"""Roles and bindings as they are stored, and what a rule of a role allows."""

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
        """Whether the rule is about a verb."""
        return ALL in self.verbs or verb in self.verbs

    def allows_resource(self, group: str, resource: str, subresource: str) -> bool:
        """Whether the rule is about a resource or subresource."""
        if ALL not in self.groups and group not in self.groups:
            return False
        if not subresource:
            return ALL in self.resources or resource in self.resources
        return any(name in self.resources for name in (ALL, f"{resource}/{subresource}", f"*/{subresource}"))

    def allows_path(self, path: str) -> bool:
        """Whether the rule is about a path; its own paths may end with a star."""
        return any(url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL))) for url in self.urls)


class PolicyRule(Wire):
    """A rule as it is stored."""

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
    """The metadata that RBAC reads."""

    name: str = ""
    labels: dict[str, str] | None = None


class AggregationRule(Wire):
    """Which ClusterRoles a ClusterRole aggregates."""

    cluster_role_selectors: tuple[LabelSelector, ...] | None = ()


class Role(Wire):
    """A Role or ClusterRole."""

    metadata: Metadata = Metadata()
    rules: tuple[PolicyRule, ...] | None = ()
    aggregation_rule: AggregationRule | None = None

    @property
    def own_rules(self) -> tuple[RoleRule, ...]:
        """The rules that it contains itself."""
        return tuple(policy.rule for policy in self.rules or ())

    @property
    def selectors(self) -> tuple[LabelSelector, ...]:
        """The selectors of the roles that it aggregates, if any."""
        return (self.aggregation_rule.cluster_role_selectors or ()) if self.aggregation_rule else ()


class RoleRef(Wire):
    """The role of a binding."""

    kind: str = ""
    name: str = ""
    api_group: str = RBAC_GROUP


class SubjectRef(Wire):
    """A subject of a binding."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleBinding(Wire):
    """A RoleBinding or ClusterRoleBinding."""

    metadata: Metadata = Metadata()
    role_ref: RoleRef = RoleRef()
    subjects: tuple[SubjectRef, ...] | None = ()


def read_role(data: Mapping[str, Any]) -> Role:
    """Decode a Role or ClusterRole. Raises msgspec.ValidationError."""
    return msgspec.convert(data, Role)


def read_binding(data: Mapping[str, Any]) -> RoleBinding:
    """Decode a RoleBinding or ClusterRoleBinding. Raises msgspec.ValidationError."""
    return msgspec.convert(data, RoleBinding)
