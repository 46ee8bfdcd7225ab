"""The access reviews of authorization.k8s.io and the user info of authentication.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from moorage.api.decode import DecodeError, convert
from moorage.api.meta import Int64, ObjectMeta, Wire
from moorage.apiserver.access.rbac import Attributes, Rbac
from moorage.apiserver.access.roles import RoleRule
from moorage.apiserver.base.users import User
from moorage.apiserver.http.failures import bad_request, invalid_as
from moorage.validation.field import FieldError, invalid

GROUP = "authorization.k8s.io"


class ResourceAttributes(Wire):
    """The resource attributes of a review."""

    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class NonResourceAttributes(Wire):
    """The path attributes of a review."""

    verb: str = ""
    path: str = ""


class AccessSpec(Wire):
    """The spec of an access review. A review of oneself has no user."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, tuple[str, ...]] = {}
    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None

    @property
    def attributes(self) -> Attributes:
        """The attributes for the authorizer."""
        if (about := self.resource_attributes) is not None:
            return Attributes(
                about.verb, about.resource, about.group, about.subresource, about.namespace, about.name
            )  # fmt: skip
        path = self.non_resource_attributes or NonResourceAttributes()
        return Attributes(path.verb, path=path.path)


class AccessReview(Wire):
    """A SelfSubjectAccessReview, SubjectAccessReview or LocalSubjectAccessReview."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AccessSpec = AccessSpec()


class RulesSpec(Wire):
    """The spec of a SelfSubjectRulesReview."""

    namespace: str = ""


class RulesReview(Wire):
    """A SelfSubjectRulesReview."""

    spec: RulesSpec = RulesSpec()


class TokenSpec(Wire):
    """The spec of a TokenReview, and of a TokenRequest."""

    token: str = ""
    audiences: tuple[str, ...] = ()
    expiration_seconds: Int64 | None = None


class TokenReview(Wire):
    """A TokenReview, or a TokenRequest."""

    spec: TokenSpec = TokenSpec()


def token_spec(review: dict[str, Any]) -> TokenSpec:
    """The spec of a TokenReview or a TokenRequest. Refused when it is not one."""
    try:
        return convert(review, TokenReview).spec
    except DecodeError as error:
        raise bad_request(str(error)) from None


def self_subject_access_review(rbac: Rbac, user: User, review: dict[str, Any]) -> dict[str, Any]:
    """The status of a SelfSubjectAccessReview. Refused when the review is invalid."""
    decoded = _read(review)
    _check("SelfSubjectAccessReview", _has_one_target(decoded.spec))
    return _access(rbac, user, decoded.spec)


def subject_access_review(rbac: Rbac, review: dict[str, Any]) -> dict[str, Any]:
    """The status of a SubjectAccessReview. Refused when the review is invalid."""
    decoded = _read(review)
    _check("SubjectAccessReview", _has_one_target(decoded.spec), _has_subject(decoded.spec))
    return _access(rbac, _subject(decoded.spec), decoded.spec)


def local_subject_access_review(rbac: Rbac, namespace: str, review: dict[str, Any]) -> dict[str, Any]:
    """The status of a LocalSubjectAccessReview. Refused when the review is about another namespace."""
    decoded = _read(review)
    _check(
        "LocalSubjectAccessReview",
        _has_one_target(decoded.spec),
        _has_subject(decoded.spec),
        _in_namespace(decoded.spec, namespace),
    )
    return _access(rbac, _subject(decoded.spec), decoded.spec)


def self_subject_rules_review(rbac: Rbac, user: User, review: dict[str, Any]) -> dict[str, Any]:
    """The status of a SelfSubjectRulesReview. Refused without a namespace."""
    try:
        namespace = msgspec.convert(review, RulesReview).spec.namespace
    except msgspec.ValidationError as error:
        raise bad_request(str(error)) from None
    if not namespace:
        raise bad_request("no namespace on request")
    grants = rbac.grants(user, namespace)
    answer: dict[str, Any] = {
        "resourceRules": [_resource_rule(rule) for rule, _ in grants.rules if rule.resources],
        "nonResourceRules": [
            {"verbs": rule.verbs, "nonResourceURLs": rule.urls} for rule, _ in grants.rules if rule.urls
        ],
        "incomplete": False,
    }
    if grants.errors:
        answer["evaluationError"] = ", ".join(grants.errors)
    return answer


def user_info(user: User) -> dict[str, Any]:
    """A user as the UserInfo of SelfSubjectReview and TokenReview."""
    fields = {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": dict(user.extra)}
    return {name: value for name, value in fields.items() if value}


def _read(review: dict[str, Any]) -> AccessReview:
    try:
        return msgspec.convert(review, AccessReview)
    except msgspec.ValidationError as error:
        raise bad_request(str(error)) from None


def _access(rbac: Rbac, user: User, spec: AccessSpec) -> dict[str, Any]:
    decision = rbac.decide(user, spec.attributes)
    return {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}


def _subject(spec: AccessSpec) -> User:
    return User(spec.user, spec.groups, spec.uid, spec.extra)


def _resource_rule(rule: RoleRule) -> dict[str, Any]:
    fields = {"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources, "resourceNames": rule.names}
    return {name: value for name, value in fields.items() if value}


def _has_one_target(spec: AccessSpec) -> Iterator[FieldError]:
    if (spec.resource_attributes is None) == (spec.non_resource_attributes is None):
        problem = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid("spec", spec.non_resource_attributes, problem)


def _has_subject(spec: AccessSpec) -> Iterator[FieldError]:
    if not spec.user and not spec.groups:
        yield invalid("spec.user", spec.user, "at least one of user or group must be specified")


def _in_namespace(spec: AccessSpec, namespace: str) -> Iterator[FieldError]:
    if spec.resource_attributes and spec.resource_attributes.namespace != namespace:
        place = spec.resource_attributes.namespace
        yield invalid("spec.resourceAttributes.namespace", place, "must match metadata.namespace")
    if spec.non_resource_attributes:
        problem = "disallowed on this kind of request"
        yield invalid("spec.nonResourceAttributes", spec.non_resource_attributes, problem)


def _check(kind: str, *checks: Iterator[FieldError]) -> None:
    errors = [error for check in checks for error in check]
    if errors:
        raise invalid_as(GROUP, kind, "", errors)
