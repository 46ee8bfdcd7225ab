"""What a path names: a kind, perhaps a namespace, a name and a part of the object, and what is to be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moorage.api.kinds import BINDING, KINDS, Kind, row
from moorage.apiserver.http.messages import Request

_NAMESPACE = row("v1", "Namespace")
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}


def _served() -> dict[tuple[str, str, str], Kind]:
    served = {}
    for kind in (*KINDS, BINDING):
        for version in (kind.version, *kind.older_versions):
            served[kind.group, version, kind.plural] = kind
    return served


_SERVED = _served()


class Route(NamedTuple):
    """A request for objects, as authorization and handlers see it."""

    verb: str
    kind: Kind
    version: str
    """The version that the path names: objects are answered in it."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def api_version(self) -> str:
        """Group and version as the answer spells them."""
        return f"{self.kind.group}/{self.version}" if self.kind.group else self.version


def find(request: Request) -> Route | None:
    """The route of a request; None when its path names no kind that is served."""
    segments = request.segments
    if segments[:1] == ("api",) and len(segments) > 2:
        group, version, rest = "", segments[1], segments[2:]
    elif segments[:1] == ("apis",) and len(segments) > 3:
        group, version, rest = segments[1], segments[2], segments[3:]
    else:
        return None
    watching = rest[0] == "watch"
    if watching:
        rest = rest[1:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    kind = _SERVED.get((group, version, rest[0])) if rest else None
    if kind is None or len(rest) > 3 or (namespace and not kind.namespaced):
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and subresource not in kind.subresources:
        return None
    if name and kind.namespaced and not namespace:
        return None
    verb = (_VERBS if name else _COLLECTION_VERBS).get(request.method, "")
    if verb in ("get", "list") and (watching or request.watching):
        verb = "watch"
    if _is_senseless(kind, name, subresource, verb):
        verb = ""
    return Route(verb, kind, version, namespace, name, subresource)


def unserved(segments: Sequence[str]) -> str:
    """The objects that a path asks for and that are not served, in words; empty when it asks for something else."""
    match segments:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return ""
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest or (group, version, rest[0]) in _SERVED:
        return ""
    return f"{rest[0]} of {group}/{version}" if group else f"{rest[0]} of {version}"


def _is_senseless(kind: Kind, name: str, subresource: str, verb: str) -> bool:
    """Whether a path has no such verb: only collections take what is new, and namespaces are deleted one by one."""
    if kind is BINDING:
        return bool(name) or verb != "create"
    return bool(verb == "create" and name and not subresource) or (kind is _NAMESPACE and verb == "deletecollection")
