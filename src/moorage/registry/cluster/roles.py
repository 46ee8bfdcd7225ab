"""Roles and bindings."""

from __future__ import annotations

from dataclasses import replace

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, label_selector, syntax
from moorage.registry.defaulting import fill
from moorage.registry.merging import ATOMIC, shape
from moorage.registry.printing import cells
from moorage.registry.printing.cells import Getter, PrintedRow
from moorage.registry.printing.columns import AGE, CREATED, NAME, Columns, column, wide
from moorage.registry.strategy import Strategy
from moorage.validation.field import invalid, not_supported, required

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def _default_binding(obj: Data, _: str) -> None:
    fill(obj.setdefault("roleRef", {}), (("apiGroup", _GROUP),))
    for subject in obj.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            fill(subject, (("apiGroup", _GROUP),))


def role_errors(new: Data, _: Data | None) -> Errors:
    """Validate a Role."""
    yield from _rule_errors(new, is_namespaced=True)


def cluster_role_errors(new: Data, _: Data | None) -> Errors:
    """Validate a ClusterRole."""
    yield from _rule_errors(new, is_namespaced=False)
    aggregation = new.get("aggregationRule")
    if aggregation is None:
        return
    selectors = aggregation.get("clusterRoleSelectors", ())
    path = "aggregationRule.clusterRoleSelectors"
    if not selectors:
        yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors):
        errors = list(label_selector(f"{path}[{index}]", selector))
        yield from errors
        if errors:
            yield invalid(f"{path}[{index}]", None, "invalid label selector.")


def _rule_errors(role: Data, *, is_namespaced: bool) -> Errors:
    for index, rule in enumerate(role.get("rules", ())):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        if urls := rule.get("nonResourceURLs"):
            if is_namespaced:
                yield invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
            if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid(f"{path}.nonResourceURLs", urls, detail)
            continue
        if not rule.get("apiGroups"):
            yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{path}.resources", "resource rules must supply at least one resource")


def binding_errors(new: Data, old: Data | None) -> Errors:
    """Validate a RoleBinding or ClusterRoleBinding, or an update of one."""
    is_namespaced = bool(new.get("metadata", {}).get("namespace"))
    role = new.get("roleRef", {})
    if role.get("apiGroup") != _GROUP:
        yield not_supported("roleRef.apiGroup", role.get("apiGroup", ""), (_GROUP,))
    roles = ("Role", "ClusterRole") if is_namespaced else ("ClusterRole",)
    if role.get("kind") not in roles:
        yield not_supported("roleRef.kind", role.get("kind", ""), roles)
    name = role.get("name", "")
    if not name:
        yield required("roleRef.name")
    else:
        yield from syntax("roleRef.name", name, namesyntax.path_segment(name))
    for index, subject in enumerate(new.get("subjects", ())):
        yield from _subject_errors(f"subjects[{index}]", subject, is_namespaced=is_namespaced)
    if old is not None and role != old.get("roleRef", {}):
        yield invalid("roleRef", role, "cannot change roleRef")


def _subject_errors(path: str, subject: Data, *, is_namespaced: bool) -> Errors:
    name, kind, group = (subject.get(field, "") for field in ("name", "kind", "apiGroup"))
    if not name:
        yield required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            yield from syntax(f"{path}.name", name, namesyntax.subdomain(name))
        if group:
            yield not_supported(f"{path}.apiGroup", group, ("",))
        if not is_namespaced and not subject.get("namespace"):
            yield required(f"{path}.namespace")
    elif kind not in _SUBJECTS:
        yield not_supported(f"{path}.kind", kind, _SUBJECTS)
    elif group != _GROUP:
        yield not_supported(f"{path}.apiGroup", group, (_GROUP,))


def _role(row: PrintedRow) -> str:
    """The role that a binding gives."""
    reference = row.item.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(kind: str, form: str = "{name}") -> Getter:
    """The subjects of a kind in a binding."""

    def text(row: PrintedRow) -> str:
        bound = (subject for subject in row.item.get("subjects") or () if subject.get("kind") == kind)
        return cells.joined((form.format_map({"namespace": "", "name": "", **subject}) for subject in bound), ", ")

    return text


_BINDING_COLUMNS: Columns = (
    NAME,
    column("Role", _role, "The role that is given."),
    AGE,
    wide("Users", _subjects("User"), "The users who have it."),
    wide("Groups", _subjects("Group"), "The groups whose members have it."),
    wide("ServiceAccounts", _subjects("ServiceAccount", "{namespace}/{name}"), "The accounts that have it."),
)


ROLE = Strategy(
    kind=kinds.row("rbac.authorization.k8s.io/v1", "Role"),
    summary="Rights to the objects of a namespace.",
    names=namesyntax.path_segment,
    errors=role_errors,
    columns=CREATED,
)


CLUSTER_ROLE = Strategy(
    kind=kinds.row("rbac.authorization.k8s.io/v1", "ClusterRole"),
    summary="Rights to everything in the cluster, or to the objects of every namespace.",
    names=namesyntax.path_segment,
    errors=cluster_role_errors,
    columns=CREATED,
)


ROLE_BINDING = Strategy(
    kind=kinds.row("rbac.authorization.k8s.io/v1", "RoleBinding"),
    summary="Gives a role to users, groups and service accounts, in a namespace.",
    names=namesyntax.path_segment,
    errors=binding_errors,
    defaults=_default_binding,
    columns=_BINDING_COLUMNS,
    merge=shape(roleRef=replace(ATOMIC, by_value=True)),
)


CLUSTER_ROLE_BINDING = Strategy(
    kind=kinds.row("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    summary="Gives a cluster role to users, groups and service accounts, everywhere.",
    names=namesyntax.path_segment,
    errors=binding_errors,
    defaults=_default_binding,
    columns=_BINDING_COLUMNS,
    merge=shape(roleRef=replace(ATOMIC, by_value=True)),
)
