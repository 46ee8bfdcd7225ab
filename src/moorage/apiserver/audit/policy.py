"""Audit policies, in the form audit.k8s.io/v1: of which requests how much is written."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from moorage.api.yamltext import YAMLTextError, parse
from moorage.apiserver.base.users import User
from moorage.apiserver.request.routes import Route

AuditStage = Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]
_API_VERSION = "audit.k8s.io/v1"


class AuditLevel(IntEnum):
    """How much is written of a request."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def text(self) -> str:
        """The level as policies and events spell it."""
        return _LEVELS[self]


_LEVELS = ("None", "Metadata", "Request", "RequestResponse")


class PolicyError(ValueError):
    """A file is no audit policy; the sentence says why."""


class _Fields(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class GroupResources(_Fields, frozen=True):
    """Resources of one API group."""

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()

    def match(self, route: Route) -> bool:
        """Whether the objects of a request are among them."""
        if self.group not in (route.kind.group, "*"):
            return False
        if not self.resources:
            return True
        named = not self.resource_names or route.name in self.resource_names
        return named and any(_is_resource(text, route.kind.plural, route.subresource) for text in self.resources)


def _is_resource(text: str, resource: str, subresource: str) -> bool:
    whole = f"{resource}/{subresource}" if subresource else resource
    return text in ("*", whole, f"{resource}/*") or bool(subresource and text == f"*/{subresource}")


class AuditRule(_Fields, frozen=True):
    """Which requests, and how much is written of them; what is empty holds for all."""

    level: Literal["None", "Metadata", "Request", "RequestResponse"]
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[AuditStage, ...] = ()
    omit_managed_fields: bool | None = None

    def match(self, user: User, route: Route) -> bool:
        """Whether a request of a user is meant."""
        if self.users and user.name not in self.users:
            return False
        if self.user_groups and not any(group in self.user_groups for group in user.groups):
            return False
        if self.verbs and route.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return bool(route.kind.plural) and self._match_objects(route)
        if self.non_resource_urls:
            return not route.kind.plural and any(_is_path(text, route.path) for text in self.non_resource_urls)
        return True

    def _match_objects(self, route: Route) -> bool:
        if self.namespaces and route.namespace not in self.namespaces:
            return False
        return not self.resources or any(each.match(route) for each in self.resources)


def _is_path(text: str, path: str) -> bool:
    return path == text or (text.endswith("*") and path.startswith(text.rstrip("*")))


class Treatment(NamedTuple):
    """How a request is written down."""

    level: AuditLevel
    omitted: frozenset[str] = frozenset()
    """The stages that are not written."""
    omit_managed_fields: bool = False


class AuditPolicy(_Fields, frozen=True):
    """Rules, of which the first that matches holds; what none matches is not written."""

    api_version: Literal["audit.k8s.io/v1"]
    kind: Literal["Policy"]
    rules: tuple[AuditRule, ...]
    metadata: dict[str, object] = {}
    omit_stages: tuple[AuditStage, ...] = ()
    omit_managed_fields: bool = False

    def treatment(self, user: User, route: Route) -> Treatment:
        """How a request of a user is written down."""
        for rule in self.rules:
            if rule.match(user, route):
                fields = rule.omit_managed_fields
                return Treatment(
                    AuditLevel(_LEVELS.index(rule.level)),
                    frozenset((*self.omit_stages, *rule.omit_stages)),
                    self.omit_managed_fields if fields is None else fields,
                )
        return _NOTHING

    def may_write(self, stage: str) -> bool:
        """Whether there are requests of which this stage is written."""
        return stage not in self.omit_stages and any(
            rule.level != "None" and stage not in rule.omit_stages for rule in self.rules
        )


_NOTHING = Treatment(AuditLevel.NONE)
METADATA_OF_ALL = AuditPolicy(
    "audit.k8s.io/v1", "Policy", (AuditRule("Metadata"),), omit_stages=("RequestReceived",)
)  # fmt: skip
"""The policy when none is given: one event for each request that is not a watch."""


def read_policy(file: Path) -> AuditPolicy:
    """The policy in a file. Raises PolicyError."""
    try:
        documents: Sequence[object] = [root.data for root in parse(file.read_text("utf-8")) if root]
        if len(documents) != 1:
            raise PolicyError(f"{file}: holds {len(documents)} documents, and a policy is one")
        policy = msgspec.convert(documents[0], AuditPolicy)
    except OSError as error:
        raise PolicyError(f"{file}: {error.strerror}") from None
    except (YAMLTextError, UnicodeError, msgspec.ValidationError) as error:
        raise PolicyError(f"{file}: is no audit policy of {_API_VERSION}: {error}") from None
    if not policy.rules:
        raise PolicyError(f"{file}: has no rules, so that nothing would be written")
    return policy
