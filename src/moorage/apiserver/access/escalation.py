"""Privilege escalation: nobody may grant rights that they do not have, by a role or by a binding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from moorage.apiserver.access.rbac import Attributes, Rbac, refusal
from moorage.apiserver.access.roles import ALL, RBAC_GROUP, Role, RoleBinding, RoleRule, read_binding, read_role
from moorage.apiserver.access.rulecover import TooManyRights, uncovered
from moorage.apiserver.base.users import User
from moorage.apiserver.http.messages import Reason, Response, status
from moorage.gotext import quote

EVERYTHING = (RoleRule((ALL,), (ALL,), (ALL,)), RoleRule((ALL,), urls=(ALL,)))
PLURALS = {
    "Role": "roles",
    "ClusterRole": "clusterroles",
    "RoleBinding": "rolebindings",
    "ClusterRoleBinding": "clusterrolebindings",
}
_LONGEST_ANSWER = 64 << 10
"""Characters of missing rights in a refusal."""
_HOUSEKEEPING = frozenset(("ownerReferences", "finalizers", "selfLink", "managedFields", "resourceVersion"))
"""Metadata that the garbage collector may change although it lacks the rights that the role grants."""


def escalation(
    rbac: Rbac, user: User, kind: str, namespace: str, new: Mapping[str, Any], old: Mapping[str, Any] | None = None
) -> Response | None:
    """The refusal, if this write would grant rights that its author neither has nor may grant.

    `new` is the whole object as it will be stored, after a patch; `old` is the one that it replaces.
    """
    if user.privileged or kind not in PLURALS or (old is not None and _only_housekeeping(new, old)):
        return None
    try:
        if kind in ("Role", "ClusterRole"):
            return _role(rbac, user, kind, namespace, read_role(new), read_role(old or {}))
        return _binding(rbac, user, kind, namespace, read_binding(new))
    except msgspec.ValidationError as error:
        message = f'{kind} in version "v1" cannot be handled as a {kind}: {error}'
        return status(400, Reason.BAD_REQUEST, message)


def _role(rbac: Rbac, user: User, kind: str, namespace: str, new: Role, old: Role) -> Response | None:
    name = new.metadata.name
    if rbac.decide(user, Attributes("escalate", PLURALS[kind], RBAC_GROUP, "", namespace, name)).allowed:
        return None
    if refused := _not_held(rbac, user, kind, namespace, name, new.own_rules):
        return refused
    if (new.selectors or old.selectors) and any(uncovered(_held(rbac, user, ""), EVERYTHING)):
        why = "must have cluster-admin privileges to use the aggregationRule"
        return refusal(RBAC_GROUP, PLURALS[kind], name, why)
    return None


def _binding(rbac: Rbac, user: User, kind: str, namespace: str, new: RoleBinding) -> Response | None:
    role = new.role_ref
    resource = PLURALS.get(role.kind, "")
    if resource and rbac.decide(user, Attributes("bind", resource, role.api_group, "", namespace, role.name)).allowed:
        return None
    granted = rbac.rules(role.kind, namespace, role.name)
    if granted is None:
        message = f"{resource or role.kind}.{RBAC_GROUP} {quote(role.name)} not found"
        details = {"name": role.name, "group": RBAC_GROUP, "kind": resource}
        return status(404, Reason.NOT_FOUND, message, details)
    return _not_held(rbac, user, kind, namespace, new.metadata.name, granted)


def _not_held(
    rbac: Rbac, user: User, kind: str, namespace: str, name: str, granted: Iterable[RoleRule]
) -> Response | None:
    try:
        missing, is_all = _first(uncovered(_held(rbac, user, namespace), granted))
    except TooManyRights:
        why = "its rules combine too many verbs, groups, resources and names to be compared: give them in several roles"
        return refusal(RBAC_GROUP, PLURALS[kind], name, why)
    if not missing:
        return None
    groups = " ".join(map(quote, user.groups))
    lines = "\n".join([*sorted({_shown(rule) for rule in _compact(missing)}), *(() if is_all else ("and more",))])
    who = f"user {quote(user.name)} (groups=[{groups}])"
    why = f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}"
    return refusal(RBAC_GROUP, PLURALS[kind], name, why)


def _first(parts: Iterable[RoleRule]) -> tuple[list[RoleRule], bool]:
    """As many parts as a person will look at, and whether that is all."""
    first: list[RoleRule] = []
    size = 0
    for part in parts:
        if size > _LONGEST_ANSWER:
            return first, False
        first.append(part)
        size += sum(len(value) + 3 for values in part for value in values)
    return first, True


def _held(rbac: Rbac, user: User, namespace: str) -> list[RoleRule]:
    return [rule for rule, _ in rbac.grants(user, namespace).rules]


def _only_housekeeping(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    def rest(data: Mapping[str, Any]) -> dict[str, Any]:
        metadata = data.get("metadata")
        if not isinstance(metadata, Mapping):
            return dict(data)
        return {**data, "metadata": {key: value for key, value in metadata.items() if key not in _HOUSEKEEPING}}

    return rest(new) == rest(old)


def _compact(rules: Iterable[RoleRule]) -> list[RoleRule]:
    """The same rules, with the verbs on one resource joined."""
    verbs: dict[RoleRule, list[str]] = {}
    for rule in rules:
        verbs.setdefault(rule if rule.urls else rule._replace(verbs=()), []).extend(rule.verbs)
    return [rule._replace(verbs=tuple(dict.fromkeys(together))) for rule, together in verbs.items()]


def _shown(rule: RoleRule) -> str:
    fields = {
        "APIGroups": rule.groups,
        "Resources": rule.resources,
        "NonResourceURLs": rule.urls,
        "ResourceNames": rule.names,
        "Verbs": rule.verbs,
    }
    shown = (f"{name}:[{' '.join(map(quote, values))}]" for name, values in fields.items() if values)
    return f"{{{', '.join(shown)}}}"
