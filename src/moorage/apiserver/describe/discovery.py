"""The discovery documents, from the table of kinds: groups, versions, resources and their verbs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from moorage.api.kinds import BINDING, KINDS, REVIEWS, Kind
from moorage.apiserver.describe.documents import StaticDocument, not_acceptable
from moorage.apiserver.http.media import JSON, PLAIN, YAML, Form, negotiate
from moorage.apiserver.http.messages import Request, Response

Groups = dict[str, dict[str, list[Kind]]]

READ_WRITE = ("get", "patch", "update")
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

_VERBS_OF = {
    **{(kind.group, kind.kind): ("create",) for kind in (BINDING, *REVIEWS)},
    ("", "Namespace"): tuple(verb for verb in VERBS if verb != "deletecollection"),
}


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource."""

    verbs: tuple[str, ...] = READ_WRITE
    kind: str = ""
    """The kind that is sent and received; that of the object when empty."""
    group: str = ""
    version: str = ""
    """The version of that kind, when it is not in the group and version of the object."""


SUBRESOURCES: Mapping[str, Subresource] = {
    "attach": Subresource(("create", "get"), "PodAttachOptions"),
    "binding": Subresource(("create",), "Binding"),
    "ephemeralcontainers": Subresource(),
    "eviction": Subresource(("create",), "Eviction", "policy", "v1"),
    "exec": Subresource(("create", "get"), "PodExecOptions"),
    "finalize": Subresource(("update",)),
    "log": Subresource(("get",)),
    "portforward": Subresource(("create", "get"), "PodPortForwardOptions"),
    "proxy": Subresource(("create", "delete", "get", "patch", "update"), "PodProxyOptions"),
    "resize": Subresource(),
    "scale": Subresource(READ_WRITE, "Scale", "autoscaling", "v1"),
    "status": Subresource(),
    "token": Subresource(("create",), "TokenRequest", "authentication.k8s.io", "v1"),
}

OTHER_PATHS = ("/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
AGGREGATED = tuple(Form("apidiscovery.k8s.io", version, "APIGroupDiscoveryList") for version in ("v2", "v2beta1"))
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {"": 2, "beta": 1, "alpha": 0}


def verbs_of(kind: Kind) -> tuple[str, ...]:
    """The verbs of a kind."""
    return _VERBS_OF.get((kind.group, kind.kind), VERBS)


def _age(version: str) -> tuple[int, int, int]:
    """A sort key, newest first: released versions before betas, higher numbers before lower ones."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is not an API version: write v1, v1beta2 or v2alpha1")
    major, stage, minor = match.groups("")
    return -_STAGES[stage], -int(major), -int(minor or 0)


def served_versions(kind: Kind) -> list[str]:
    """The versions in which a kind is served, its own first."""
    return sorted({kind.version, *kind.older_versions}, key=_age)


def all_kinds() -> tuple[Kind, ...]:
    """The stored kinds and the reviews."""
    return (*KINDS, BINDING, *REVIEWS)


def group_versions() -> Groups:
    """The kinds of each version of each group; groups in the order of their first kinds, versions newest first."""
    groups: Groups = {}
    for kind in all_kinds():
        for version in served_versions(kind):
            groups.setdefault(kind.group, {}).setdefault(version, []).append(kind)
    return {
        group: {
            version: sorted(versions[version], key=lambda kind: kind.plural) for version in sorted(versions, key=_age)
        }
        for group, versions in groups.items()
    }


def path_of(group: str, version: str) -> str:
    """The path of a group and version."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def answer(request: Request) -> Response | None:
    """The response to a discovery request; None for any other path."""
    forms = documents().get("/" + "/".join(request.segments))
    if forms is None:
        return None
    form = negotiate(request.headers.get("Accept"), forms)
    return not_acceptable(JSON, YAML) if form is None else forms[form].answer(request)


@cache
def documents() -> dict[str, dict[Form, StaticDocument]]:
    """All discovery documents, by path and by form."""
    groups = group_versions()
    others = {group: versions for group, versions in groups.items() if group}
    by_path = {path: {PLAIN: StaticDocument.of(content)} for path, content in _plain(groups, others)}
    for form in AGGREGATED:
        by_path["/api"][form] = StaticDocument.of(_aggregated({"": groups[""]}, form), form.content_type)
        by_path["/apis"][form] = StaticDocument.of(_aggregated(others, form), form.content_type)
    return by_path


def _plain(groups: Groups, others: Groups) -> Iterator[tuple[str, dict[str, Any]]]:
    listed = [_group(group, versions) for group, versions in others.items()]
    paths = ["/api", "/apis", *OTHER_PATHS]
    for group, versions in groups.items():
        if group:
            paths.append(f"/apis/{group}")
            yield paths[-1], {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}
        for version, kinds in versions.items():
            paths.append(path_of(group, version))
            yield paths[-1], _resource_list(group, version, kinds)
    yield "/api", {"kind": "APIVersions", "versions": list(groups[""]), "serverAddressByClientCIDRs": []}
    yield "/apis", {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    yield "/", {"paths": sorted(paths)}


def _resource_list(group: str, version: str, kinds: Iterable[Kind]) -> dict[str, Any]:
    return {
        "kind": "APIResourceList",
        **({"apiVersion": "v1"} if group else {}),
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [resource for kind in kinds for resource in _resources(kind)],
    }


def _group(group: str, versions: Iterable[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _resources(kind: Kind) -> Iterator[dict[str, Any]]:
    yield {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs_of(kind),
        **({"shortNames": kind.short_names} if kind.short_names else {}),
        **({"categories": kind.categories} if kind.categories else {}),
    }
    for name in sorted(kind.subresources):
        part = SUBRESOURCES[name]
        yield {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            **({"group": part.group, "version": part.version} if part.version else {}),
            "kind": part.kind or kind.kind,
            "verbs": part.verbs,
        }


def _aggregated(groups: Groups, form: Form) -> dict[str, Any]:
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_aggregated_resource(kind) for kind in kinds],
                    "freshness": "Current",
                }
                for version, kinds in versions.items()
            ],
        }
        for group, versions in groups.items()
    ]
    return {"kind": form.kind, "apiVersion": f"{form.group}/{form.version}", "metadata": {}, "items": items}


def _aggregated_resource(kind: Kind) -> dict[str, Any]:
    parts = [
        {
            "subresource": name,
            "responseKind": _response_kind(part.kind or kind.kind, part.group, part.version),
            "verbs": part.verbs,
        }
        for name in sorted(kind.subresources)
        if (part := SUBRESOURCES[name])
    ]
    return {
        "resource": kind.plural,
        "responseKind": _response_kind(kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": verbs_of(kind),
        **({"shortNames": kind.short_names} if kind.short_names else {}),
        **({"categories": kind.categories} if kind.categories else {}),
        **({"subresources": parts} if parts else {}),
    }


def _response_kind(kind: str, group: str = "", version: str = "") -> dict[str, str]:
    """A kind; an empty group and version stand for those of the document."""
    return {"group": group, "version": version, "kind": kind}
