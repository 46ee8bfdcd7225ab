"""Privilege escalation: nobody may grant rights that they do not have, by a role or by a binding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import msgspec

from moorage.apiserver.access.rbac import Attributes, Rbac, refusal
from moorage.apiserver.access.roles import ALL, RBAC_GROUP, Role, RoleBinding, RoleRule, read_binding, read_role
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


def uncovered(held: Iterable[RoleRule], granted: Iterable[RoleRule]) -> list[RoleRule]:
    """The parts of the granted rules that no held rule covers: one verb on one resource or path each."""
    held = tuple(held)
    return [part for rule in granted for part in _parts(rule) if not any(_covers(own, part) for own in held)]


def _role(rbac: Rbac, user: User, kind: str, namespace: str, new: Role, old: Role) -> Response | None:
    name = new.metadata.name
    if rbac.decide(user, Attributes("escalate", PLURALS[kind], RBAC_GROUP, "", namespace, name)).allowed:
        return None
    if refused := _not_held(rbac, user, kind, namespace, name, new.own_rules):
        return refused
    if (new.selectors or old.selectors) and uncovered(_held(rbac, user, ""), EVERYTHING):
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
    missing = uncovered(_held(rbac, user, namespace), granted)
    if not missing:
        return None
    groups = " ".join(map(quote, user.groups))
    lines = "\n".join(sorted({_shown(rule) for rule in _compact(missing)}))
    who = f"user {quote(user.name)} (groups=[{groups}])"
    why = f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}"
    return refusal(RBAC_GROUP, PLURALS[kind], name, why)


def _held(rbac: Rbac, user: User, namespace: str) -> list[RoleRule]:
    return [rule for rule, _ in rbac.grants(user, namespace).rules]


def _only_housekeeping(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    def rest(data: Mapping[str, Any]) -> dict[str, Any]:
        metadata = data.get("metadata")
        if not isinstance(metadata, Mapping):
            return dict(data)
        return {**data, "metadata": {key: value for key, value in metadata.items() if key not in _HOUSEKEEPING}}

    return rest(new) == rest(old)


def _parts(rule: RoleRule) -> Iterator[RoleRule]:
    single: list[tuple[str, ...]] = [(name,) for name in rule.names] or [()]
    for group, resource, verb, names in product(rule.groups, rule.resources, rule.verbs, single):
        yield RoleRule((verb,), (group,), (resource,), names)
    for url, verb in product(rule.urls, rule.verbs):
        yield RoleRule((verb,), urls=(url,))


def _covers(held: RoleRule, part: RoleRule) -> bool:
    """Whether a rule allows everything that a rule with one verb and one resource or path allows."""
    if not held.allows_verb(part.verbs[0]):
        return False
    if part.urls:
        return held.allows_path(part.urls[0])
    resource, _, subresource = part.resources[0].partition("/")
    if held.names and not (part.names and part.names[0] in held.names):
        return False
    return held.allows_resource(part.groups[0], resource, subresource)


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
