"""The RBAC authorizer: roles and bindings, indexed, and decisions that are cached until one of those changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from moorage.api.labels import NOTHING, LabelMatcher, SelectorError, from_struct
from moorage.api.meta import LabelSelector
from moorage.apiserver.access.roles import RBAC_GROUP, Role, RoleBinding, RoleRule, SubjectRef, read_binding, read_role
from moorage.apiserver.base.users import User, service_account_name
from moorage.apiserver.http.messages import Reason, Response, status
from moorage.bounded import Bounded
from moorage.gotext import quote
from moorage.logs import Log

MOST_DECISIONS, MOST_BYTES = 50_000, 32 << 20
"""How many decisions are cached, and how large they may be together."""
_ENTRY = 200
"""About how many bytes a decision or a rule takes besides its texts."""

_LOG = Log(__name__)


class Attributes(NamedTuple):
    """What a request does: a verb on a resource or, without one, on a path."""

    verb: str
    resource: str = ""
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Decision(NamedTuple):
    """Whether the request is allowed, and by which binding, or which roles were not found."""

    allowed: bool
    reason: str = ""


class Subject(NamedTuple):
    """A user or a group of a binding. A service account is a user here, by the name that it is authenticated with."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class IndexedBinding:
    """A RoleBinding or ClusterRoleBinding as it is looked up: its role, and its subjects with their descriptions."""

    namespace: str
    name: str
    role_kind: str
    role: str
    subjects: Mapping[Subject, str]

    def source(self, subject: str) -> str:
        """The reason of a decision that this binding allows."""
        own = f'RoleBinding "{self.name}/{self.namespace}"' if self.namespace else f'ClusterRoleBinding "{self.name}"'
        return f'RBAC: allowed by {own} of {self.role_kind} "{self.role}" to {subject}'


@dataclass(frozen=True, slots=True)
class ClusterRole:
    """The rules of a ClusterRole, or the selectors of the ClusterRoles that it aggregates."""

    labels: Mapping[str, str]
    rules: tuple[RoleRule, ...]
    aggregates: tuple[LabelMatcher, ...] | None


class Grants(NamedTuple):
    """The rules that a user has in one namespace, each with its reason, and the roles that were not found."""

    rules: tuple[tuple[RoleRule, str], ...]
    errors: tuple[str, ...]

    @property
    def denial(self) -> Decision:
        """The decision when no rule allows the request."""
        if not self.errors:
            return _DENIED
        joined = ", ".join(self.errors)
        return Decision(False, f"RBAC: {joined if len(self.errors) == 1 else f'[{joined}]'}")


class _Verdict(NamedTuple):
    """The decision on a verb and a resource: for some object names, and for all others."""

    names: Mapping[str, Decision]
    others: Decision


_MASTERS = Decision(True)
_DENIED = Decision(False)
_BINDING_KINDS = frozenset(("RoleBinding", "ClusterRoleBinding"))


class Rbac:
    """The authorizer. `put` and `remove` keep it up to date; the group system:masters may do everything."""

    def __init__(self, objects: Iterable[Mapping[str, Any]] = ()) -> None:
        self._roles: dict[tuple[str, str], tuple[RoleRule, ...]] = {}
        self._cluster_roles: dict[str, ClusterRole] = {}
        self._bindings: dict[tuple[str, str], IndexedBinding] = {}
        self._by_subject: dict[tuple[str, Subject], dict[str, IndexedBinding]] = {}
        self._grants: Bounded[tuple[str, tuple[str, ...], str], Grants] = Bounded(MOST_DECISIONS, MOST_BYTES)
        self._verdicts: Bounded[tuple[object, ...], _Verdict] = Bounded(MOST_DECISIONS, MOST_BYTES)
        for item in objects:
            self.put(item["kind"], item)

    def put(self, kind: str, data: Mapping[str, Any]) -> None:
        """Add or replace a role or a binding. One that cannot be decoded grants nothing."""
        namespace, name = _place(data)
        self.remove(kind, namespace, name)
        try:
            if kind in _BINDING_KINDS:
                self._bind(namespace, name, read_binding(data))
            elif kind == "Role":
                self._roles[namespace, name] = read_role(data).own_rules
            else:
                self._cluster_roles[name] = _cluster_role(read_role(data))
        except msgspec.ValidationError as error:
            _LOG.warning("Object cannot be read and gives no rights", kind=kind, object=(namespace, name), err=error)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove a role or a binding."""
        self._grants.clear()
        self._verdicts.clear()
        if kind in _BINDING_KINDS:
            binding = self._bindings.pop((namespace, name), None)
            for subject in binding.subjects if binding else ():
                held = self._by_subject[namespace, subject]
                del held[name]
                if not held:
                    del self._by_subject[namespace, subject]
        elif kind == "Role":
            self._roles.pop((namespace, name), None)
        else:
            self._cluster_roles.pop(name, None)

    def replace(self, kind: str, objects: Iterable[Mapping[str, Any]]) -> None:
        """Replace all objects of a kind by these."""
        objects = list(objects)
        for namespace, name in self._places(kind) - set(map(_place, objects)):
            self.remove(kind, namespace, name)
        for item in objects:
            self.put(kind, item)

    def decide(self, user: User, asked: Attributes) -> Decision:
        """Whether a user may do something."""
        if user.privileged:
            return _MASTERS
        verb, resource, group, subresource, namespace, name, path = asked
        key = (user.name, user.groups, verb, resource, group, subresource, namespace, "" if resource else path)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._verdict(user, asked)
            asked_for = len(verb) + len(resource) + len(group) + len(subresource) + len(namespace) + len(path)
            self._verdicts.put(key, verdict, _size(user) + asked_for + len(verdict.names) * _ENTRY)
        return verdict.names.get(name, verdict.others) if verdict.names else verdict.others

    def grants(self, user: User, namespace: str) -> Grants:
        """The rules that a user has in a namespace, cluster-wide ones included."""
        key = (user.name, user.groups, namespace)
        grants = self._grants.get(key)
        if grants is None:
            grants = self._collect(user, namespace)
            self._grants.put(key, grants, _size(user) + len(namespace) + len(grants.rules) * _ENTRY)
        return grants

    def rules(self, role_kind: str, namespace: str, name: str) -> tuple[RoleRule, ...] | None:
        """The rules of a role, aggregated ones included; None when there is no such role."""
        if role_kind == "Role":
            return self._roles.get((namespace, name))
        role = self._cluster_roles.get(name) if role_kind == "ClusterRole" else None
        if role is None or role.aggregates is None:
            return None if role is None else role.rules
        return tuple(dict.fromkeys(rule for aggregated in self._aggregated(name) for rule in aggregated.rules))

    def _aggregated(self, name: str) -> Iterator[ClusterRole]:
        """The ClusterRoles that a ClusterRole aggregates, directly or through others that aggregate."""
        seen, pending = {name}, [name]
        while pending:
            role = self._cluster_roles[pending.pop()]
            if role.aggregates is None:
                yield role
                continue
            for other in sorted(self._cluster_roles.keys() - seen, reverse=True):
                if any(selector.matches(self._cluster_roles[other].labels) for selector in role.aggregates):
                    seen.add(other)
                    pending.append(other)

    def _bind(self, namespace: str, name: str, binding: RoleBinding) -> None:
        subjects: dict[Subject, str] = {}
        for reference in binding.subjects or ():
            for subject, words in _subject(reference, namespace):
                subjects.setdefault(subject, words)
        indexed = IndexedBinding(namespace, name, binding.role_ref.kind, binding.role_ref.name, subjects)
        self._bindings[namespace, name] = indexed
        for subject in subjects:
            self._by_subject.setdefault((namespace, subject), {})[name] = indexed

    def _places(self, kind: str) -> set[tuple[str, str]]:
        if kind in _BINDING_KINDS:
            return {place for place in self._bindings if bool(place[0]) is (kind == "RoleBinding")}
        return set(self._roles) if kind == "Role" else {("", name) for name in self._cluster_roles}

    def _verdict(self, user: User, asked: Attributes) -> _Verdict:
        grants = self.grants(user, asked.namespace)
        names: dict[str, Decision] = {}
        for rule, source in grants.rules:
            if not rule.allows_verb(asked.verb):
                continue
            if not asked.resource:
                if rule.allows_path(asked.path):
                    return _Verdict({}, Decision(True, source))
            elif rule.allows_resource(asked.group, asked.resource, asked.subresource):
                if not rule.names:
                    return _Verdict(names, Decision(True, source))
                for name in rule.names:
                    names.setdefault(name, Decision(True, source))
        return _Verdict(names, grants.denial)

    def _collect(self, user: User, namespace: str) -> Grants:
        rules: list[tuple[RoleRule, str]] = []
        errors: list[str] = []
        for binding, subject in self._bindings_of(user, namespace):
            role_rules = self.rules(binding.role_kind, binding.namespace, binding.role)
            if role_rules is None:
                errors.append(f'{binding.role_kind.lower()}.{RBAC_GROUP} "{binding.role}" not found')
                continue
            source = binding.source(subject)
            rules.extend((rule, source) for rule in role_rules)
        return Grants(tuple(rules), tuple(errors))

    def _bindings_of(self, user: User, namespace: str) -> Iterator[tuple[IndexedBinding, str]]:
        subjects = (Subject("User", user.name), *(Subject("Group", group) for group in user.groups))
        for place in ("", namespace) if namespace else ("",):
            held: dict[str, IndexedBinding] = {}
            for subject in subjects:
                held.update(self._by_subject.get((place, subject), {}))
            for name in sorted(held):
                yield held[name], next(words for subject, words in held[name].subjects.items() if subject in subjects)


def _size(user: User) -> int:
    return _ENTRY + len(user.name) + sum(map(len, user.groups))


def _place(data: Mapping[str, Any]) -> tuple[str, str]:
    metadata = data["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def _cluster_role(role: Role) -> ClusterRole:
    aggregates = None if role.aggregation_rule is None else tuple(map(_selector, role.selectors))
    return ClusterRole(role.metadata.labels or {}, role.own_rules, aggregates)


def _selector(selector: LabelSelector) -> LabelMatcher:
    """A selector that cannot be parsed selects nothing."""
    try:
        return from_struct(selector)
    except SelectorError:
        return NOTHING


def _subject(subject: SubjectRef, namespace: str) -> Iterator[tuple[Subject, str]]:
    """A subject with its description. A service account without a namespace is in the namespace of the binding."""
    if subject.kind in ("User", "Group"):
        yield Subject(subject.kind, subject.name), f'{subject.kind} "{subject.name}"'
    elif subject.kind == "ServiceAccount" and (place := subject.namespace or namespace):
        user = service_account_name(place, subject.name)
        yield Subject("User", user), f'{subject.kind} "{subject.name}/{place}"'


_AS_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def forbidden(user: User, asked: Attributes, reason: str = "") -> Response:
    """Status 403 for a request that is not allowed."""
    message = f"User {quote(user.name)} cannot {asked.verb} "
    if not asked.resource:
        message += f"path {quote(asked.path)}"
    else:
        part = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        place = f"in the namespace {quote(asked.namespace)}" if asked.namespace else "at the cluster scope"
        message += f"resource {quote(part)} in API group {quote(asked.group)} {place}"
    message = message.translate(_AS_TEXT)
    return refusal(asked.group, asked.resource, asked.name, f"{message}: {reason}" if reason else message)


def refusal(group: str, resource: str, name: str, why: str) -> Response:
    """Status 403 about an object, a kind of objects, or neither."""
    what = f"{resource}.{group}" if group else resource
    start = f"{what} {quote(name)} is forbidden" if name and what else f"{what} is forbidden" if what else "forbidden"
    details = {"name": name, "group": group, "kind": resource}
    return status(403, Reason.FORBIDDEN, f"{start}: {why}", details)
