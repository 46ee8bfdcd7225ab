"""The route of a request: what its path names, what is to be done with that, and what authorization is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moorage.api.kinds import BINDING, KINDS, REVIEWS, Kind, row
from moorage.apiserver.http.messages import Request

_NAMESPACE = row("v1", "Namespace")
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_NO_KIND = Kind("", "", "", "")
_REVIEWS = {(kind.group, kind.version, kind.plural): kind for kind in REVIEWS}


def _served() -> dict[tuple[str, str, str], Kind]:
    served = {}
    for kind in (*KINDS, BINDING):
        for version in (kind.version, *kind.older_versions):
            served[kind.group, version, kind.plural] = kind
    return served


_SERVED = _served()


class Route(NamedTuple):
    """A request as authorization and handlers see it: for objects, for a review, or for a document at a path."""

    verb: str
    kind: Kind
    """The kind of the objects; one without a name for a document."""
    version: str
    """The version that the path names: objects are answered in it."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    endpoint: str = ""
    """With the verb, the key in the table of handlers: empty for whole objects, otherwise the sub-resource, the
    resource of a review, or a slash and the first segment of the path of a document.
    """
    path: str = ""
    """The whole path; empty for objects."""

    @property
    def api_version(self) -> str:
        """Group and version as the answer spells them."""
        return f"{self.kind.group}/{self.version}" if self.kind.group else self.version


def find(request: Request) -> Route:
    """The route of a request. A path that names nothing is one of a document that does not exist."""
    return _objects(request) or _review(request) or _document(request)


def _review(request: Request) -> Route | None:
    match request.segments:
        case ["apis", group, version, resource]:
            namespace = ""
        case ["apis", group, version, "namespaces", namespace, resource]:
            pass
        case _:
            return None
    kind = _REVIEWS.get((group, version, resource))
    if kind is None or request.method != "POST" or kind.namespaced != bool(namespace):
        return None
    return Route("create", kind, version, namespace, endpoint=resource, path=request.path)


def _document(request: Request) -> Route:
    head = request.segments[0] if request.segments else ""
    return Route(request.method.lower(), _NO_KIND, "", endpoint=f"/{head}", path=request.path)


def _objects(request: Request) -> Route | None:
    """The route of a request for objects; None when its path names no kind that is served."""
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
    if _is_unsupported(kind, name, subresource, verb):
        verb = ""
    endpoint = "binding" if kind is BINDING else subresource
    return Route(verb, kind, version, namespace, name, subresource, endpoint)


def unserved(segments: Sequence[str]) -> str:
    """The resource in a path that is not served, in words; empty when the path is not one of objects."""
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


def _is_unsupported(kind: Kind, name: str, subresource: str, verb: str) -> bool:
    """Whether a path does not take a verb: objects are created in collections, and namespaces deleted one by one."""
    if kind is BINDING:
        return bool(name) or verb != "create"
    return bool(verb == "create" and name and not subresource) or (kind is _NAMESPACE and verb == "deletecollection")
