"""Who may do what: roles and bindings, indexed, and decisions that are remembered until one of those changes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from moorage.api.labels import NOTHING, LabelMatcher, SelectorError, from_struct
from moorage.api.meta import LabelSelector
from moorage.apiserver.access.roles import RBAC_GROUP, Binding, Role, Rule, SubjectRef, read_binding, read_role
from moorage.apiserver.base.users import User, service_account_name
from moorage.apiserver.http.messages import Reason, Response, status
from moorage.gotext import quote

REMEMBERED = 50_000
"""How many decisions are kept: a client that asks for ever other things must not fill the memory."""

log = logging.getLogger(__name__)


class Attributes(NamedTuple):
    """What is to be done: a verb on a resource or, without one, on a path."""

    verb: str
    resource: str = ""
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Decision(NamedTuple):
    """Whether it may be done, and by which binding, or what went wrong in finding out."""

    allowed: bool
    reason: str = ""


class Subject(NamedTuple):
    """Whom a binding is about, spelled as users are: a service account is the user that it acts as."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Bound:
    """A binding, ready for use: the role and, with the words that describe them, those who have it."""

    namespace: str
    name: str
    role_kind: str
    role: str
    subjects: Mapping[Subject, str]

    def source(self, subject: str) -> str:
        """The binding as the reason of a decision."""
        own = f'RoleBinding "{self.name}/{self.namespace}"' if self.namespace else f'ClusterRoleBinding "{self.name}"'
        return f'RBAC: allowed by {own} of {self.role_kind} "{self.role}" to {subject}'


@dataclass(frozen=True, slots=True)
class ClusterRole:
    """Rules, or what selects the roles whose rules it gathers."""

    labels: Mapping[str, str]
    rules: tuple[Rule, ...]
    gathers: tuple[LabelMatcher, ...] | None


class Grants(NamedTuple):
    """What a user holds in one namespace: rules, each with its reason, and the roles that could not be found."""

    rules: tuple[tuple[Rule, str], ...]
    errors: tuple[str, ...]

    @property
    def denial(self) -> Decision:
        """The answer when no rule allows it."""
        if not self.errors:
            return _DENIED
        joined = ", ".join(self.errors)
        return Decision(False, f"RBAC: {joined if len(self.errors) == 1 else f'[{joined}]'}")


class _Verdict(NamedTuple):
    """The answer for a verb on a resource: for some names, and for all others."""

    names: Mapping[str, Decision]
    others: Decision


_MASTERS = Decision(True)
_DENIED = Decision(False)
_BINDING_KINDS = frozenset(("RoleBinding", "ClusterRoleBinding"))


class Rbac:
    """The evaluator. `put` and `remove` keep it up to date; users in system:masters may do everything."""

    def __init__(self, objects: Iterable[Mapping[str, Any]] = ()) -> None:
        self._roles: dict[tuple[str, str], tuple[Rule, ...]] = {}
        self._cluster_roles: dict[str, ClusterRole] = {}
        self._bindings: dict[tuple[str, str], Bound] = {}
        self._bound: dict[tuple[str, Subject], dict[str, Bound]] = {}
        self._grants: dict[tuple[str, tuple[str, ...], str], Grants] = {}
        self._verdicts: dict[tuple[object, ...], _Verdict] = {}
        for each in objects:
            self.put(each["kind"], each)

    def put(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take note of a new or changed object. One that cannot be understood gives nothing to anybody."""
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
            log.warning("%s %s gives no rights: %s", kind, f"{namespace}/{name}" if namespace else name, error)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Take note that an object is gone."""
        self._grants.clear()
        self._verdicts.clear()
        if kind in _BINDING_KINDS:
            binding = self._bindings.pop((namespace, name), None)
            for subject in binding.subjects if binding else ():
                held = self._bound[namespace, subject]
                del held[name]
                if not held:
                    del self._bound[namespace, subject]
        elif kind == "Role":
            self._roles.pop((namespace, name), None)
        else:
            self._cluster_roles.pop(name, None)

    def replace(self, kind: str, objects: Iterable[Mapping[str, Any]]) -> None:
        """Take note of all objects of a kind: those that are not among them are gone."""
        objects = list(objects)
        for namespace, name in self._places(kind) - set(map(_place, objects)):
            self.remove(kind, namespace, name)
        for each in objects:
            self.put(kind, each)

    def decide(self, user: User, asked: Attributes) -> Decision:
        """Whether a user may do something."""
        if user.privileged:
            return _MASTERS
        verb, resource, group, subresource, namespace, name, path = asked
        key = (user.name, user.groups, verb, resource, group, subresource, namespace, "" if resource else path)
        verdict = self._verdicts.get(key)
        if verdict is None:
            if len(self._verdicts) >= REMEMBERED:
                self._verdicts.clear()
            verdict = self._verdicts[key] = self._verdict(user, asked)
        return verdict.names.get(name, verdict.others) if verdict.names else verdict.others

    def grants(self, user: User, namespace: str) -> Grants:
        """All that a user holds in a namespace, what it holds everywhere included."""
        key = (user.name, user.groups, namespace)
        grants = self._grants.get(key)
        if grants is None:
            if len(self._grants) >= REMEMBERED:
                self._grants.clear()
            grants = self._grants[key] = self._collect(user, namespace)
        return grants

    def rules(self, role_kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """The rules of a role, gathered ones included; None when there is no such role."""
        if role_kind == "Role":
            return self._roles.get((namespace, name))
        role = self._cluster_roles.get(name) if role_kind == "ClusterRole" else None
        if role is None or role.gathers is None:
            return None if role is None else role.rules
        return tuple(dict.fromkeys(rule for gathered in self._gathered(name) for rule in gathered.rules))

    def _gathered(self, name: str) -> Iterator[ClusterRole]:
        """The roles with rules of their own that a role gathers, directly or through others that gather."""
        seen, waiting = {name}, [name]
        while waiting:
            role = self._cluster_roles[waiting.pop()]
            if role.gathers is None:
                yield role
                continue
            for each in sorted(self._cluster_roles.keys() - seen, reverse=True):
                if any(selector.matches(self._cluster_roles[each].labels) for selector in role.gathers):
                    seen.add(each)
                    waiting.append(each)

    def _bind(self, namespace: str, name: str, binding: Binding) -> None:
        subjects: dict[Subject, str] = {}
        for each in binding.subjects or ():
            for subject, words in _subject(each, namespace):
                subjects.setdefault(subject, words)
        bound = Bound(namespace, name, binding.role_ref.kind, binding.role_ref.name, subjects)
        self._bindings[namespace, name] = bound
        for subject in subjects:
            self._bound.setdefault((namespace, subject), {})[name] = bound

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
        rules: list[tuple[Rule, str]] = []
        errors: list[str] = []
        for bound, subject in self._bindings_of(user, namespace):
            found = self.rules(bound.role_kind, bound.namespace, bound.role)
            if found is None:
                errors.append(f'{bound.role_kind.lower()}.{RBAC_GROUP} "{bound.role}" not found')
                continue
            source = bound.source(subject)
            rules.extend((rule, source) for rule in found)
        return Grants(tuple(rules), tuple(errors))

    def _bindings_of(self, user: User, namespace: str) -> Iterator[tuple[Bound, str]]:
        subjects = (Subject("User", user.name), *(Subject("Group", group) for group in user.groups))
        for place in ("", namespace) if namespace else ("",):
            held: dict[str, Bound] = {}
            for subject in subjects:
                held.update(self._bound.get((place, subject), {}))
            for name in sorted(held):
                yield held[name], next(words for subject, words in held[name].subjects.items() if subject in subjects)


def _place(data: Mapping[str, Any]) -> tuple[str, str]:
    metadata = data["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def _cluster_role(role: Role) -> ClusterRole:
    gathers = None if role.aggregation_rule is None else tuple(map(_selector, role.selectors))
    return ClusterRole(role.metadata.labels or {}, role.own_rules, gathers)


def _selector(selector: LabelSelector) -> LabelMatcher:
    """A selector that cannot be understood gathers nothing."""
    try:
        return from_struct(selector)
    except SelectorError:
        return NOTHING


def _subject(subject: SubjectRef, namespace: str) -> Iterator[tuple[Subject, str]]:
    """A service account without a namespace is one of the binding's own, if that has one."""
    if subject.kind in ("User", "Group"):
        yield Subject(subject.kind, subject.name), f'{subject.kind} "{subject.name}"'
    elif subject.kind == "ServiceAccount" and (place := subject.namespace or namespace):
        user = service_account_name(place, subject.name)
        yield Subject("User", user), f'{subject.kind} "{subject.name}/{place}"'


_AS_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def forbidden(user: User, asked: Attributes, reason: str = "") -> Response:
    """The answer to who may not do what was asked."""
    said = f"User {quote(user.name)} cannot {asked.verb} "
    if not asked.resource:
        said += f"path {quote(asked.path)}"
    else:
        part = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        place = f"in the namespace {quote(asked.namespace)}" if asked.namespace else "at the cluster scope"
        said += f"resource {quote(part)} in API group {quote(asked.group)} {place}"
    said = said.translate(_AS_TEXT)
    return refusal(asked.group, asked.resource, asked.name, f"{said}: {reason}" if reason else said)


def refusal(group: str, resource: str, name: str, why: str) -> Response:
    """Status 403 about an object, a kind of objects, or neither."""
    what = f"{resource}.{group}" if group else resource
    start = f"{what} {quote(name)} is forbidden" if name and what else f"{what} is forbidden" if what else "forbidden"
    details = {"name": name, "group": group, "kind": resource}
    return status(403, Reason.FORBIDDEN, f"{start}: {why}", details)
