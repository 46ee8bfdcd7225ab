"""The OpenAPI operations of each kind, path by path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from moorage.api.kinds import Kind
from moorage.apiserver.describe.discovery import SUBRESOURCES, Subresource, path_of, verbs_of
from moorage.apiserver.describe.models import GVK, META, Schema, name_of, ref

_ELSEWHERE = frozenset(("attach", "exec", "log", "portforward", "proxy"))
"""Subresources that only a kubelet with containers could serve."""

_STRING: Schema = {"type": "string"}
_INTEGER: Schema = {"type": "integer"}
_BOOLEAN: Schema = {"type": "boolean"}

_PARAMETERS: Mapping[str, tuple[Schema, str]] = {
    "allowWatchBookmarks": (_BOOLEAN, "Whether a watch may send bookmarks, which tell how far it has come."),
    "continue": (_STRING, "Where the last page of a list ended, in the server's words."),
    "dryRun": (_STRING, "All: do everything but keep the result."),
    "fieldManager": (_STRING, "Who changes the object: the fields are noted as set by this manager."),
    "fieldSelector": (_STRING, "Only objects whose fields are so, such as `spec.nodeName=n1`."),
    "fieldValidation": (
        _STRING,
        "What unknown fields are met with: Strict refuses, Warn warns, Ignore is silent.",
    ),
    "force": (_BOOLEAN, "Whether an apply takes fields from other managers."),
    "gracePeriodSeconds": (_INTEGER, "How long the object has to finish; 0 is not at all."),
    "labelSelector": (_STRING, "Only objects whose labels are so, such as `app=web,tier in (a,b)`."),
    "limit": (_INTEGER, "How many objects a page has at most."),
    "orphanDependents": (
        _BOOLEAN,
        "Whether what belongs to the object stays; propagationPolicy says it better.",
    ),
    "propagationPolicy": (
        _STRING,
        "What becomes of what belongs to the object: Background, Foreground, Orphan.",
    ),
    "resourceVersion": (_STRING, "How new the answer must at least be, or exactly which state is wanted."),
    "resourceVersionMatch": (_STRING, "How resourceVersion is meant: NotOlderThan or Exact."),
    "sendInitialEvents": (_BOOLEAN, "Whether a watch begins with the objects that are there."),
    "timeoutSeconds": (_INTEGER, "How long a list or watch may take."),
    "watch": (_BOOLEAN, "Whether to send changes as they come, instead of a list."),
}

_LIST = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
    "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch",
)  # fmt: skip
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")

_PATCHES = (
    "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)  # fmt: skip

_METHODS: Mapping[str, tuple[str, str, tuple[str, ...], str]] = {
    "get": ("get", "read", (), "Read {0}."),
    "list": ("get", "list", _LIST, "List or watch {0}."),
    "create": ("post", "create", _WRITE, "Create {0}."),
    "update": ("put", "replace", _WRITE, "Replace {0}."),
    "patch": ("patch", "patch", (*_WRITE, "force"), "Change a part of {0}."),
    "delete": ("delete", "delete", _DELETE, "Delete {0}."),
    "deletecollection": ("delete", "deleteCollection", (*_DELETE, *_LIST[1:7]), "Delete {0}."),
}
"""For each verb: the HTTP method, how operations are named, the parameters and the text."""

_ON_COLLECTIONS = ("list", "create", "deletecollection")
_CODES = {"create": {"200": "OK", "201": "Created", "202": "Accepted"}, "update": {"200": "OK", "201": "Created"}}


def paths(kind: Kind, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every path of a kind and its subresources in a version, with its operations."""
    base = path_of(kind.group, version)
    space = "/namespaces/{namespace}" if kind.namespaced else ""
    one = _Operations(kind, version)
    verbs = verbs_of(kind)
    collection = [verb for verb in _ON_COLLECTIONS if verb in verbs]
    yield f"{base}{space}/{kind.plural}", one.path(collection, named=False)
    if kind.namespaced and "list" in verbs:
        yield f"{base}/{kind.plural}", one.path(["list"], named=False, everywhere=True)
    if "get" in verbs:
        item = f"{base}{space}/{kind.plural}/{{name}}"
        yield item, one.path([verb for verb in verbs if verb in _METHODS and verb not in _ON_COLLECTIONS])
        for part in sorted(set(kind.subresources) - _ELSEWHERE):
            yield f"{item}/{part}", one.path(SUBRESOURCES[part].verbs, part)


class _Operations:
    """The operations of one kind in one version."""

    def __init__(self, kind: Kind, version: str) -> None:
        self._kind = kind
        self._version = version

    def path(
        self, verbs: Iterable[str], part: str = "", *, named: bool = True, everywhere: bool = False
    ) -> dict[str, Any]:
        """All operations of a path, with its path parameters."""
        placeholders = [
            *([_placeholder("name", f"The name of the {self._kind.kind}.")] if named else []),
            *([_placeholder("namespace", "The namespace.")] if self._kind.namespaced and not everywhere else []),
        ]
        operations = {_METHODS[verb][0]: self._operation(verb, part, everywhere) for verb in verbs}
        return {**({"parameters": placeholders} if placeholders else {}), **operations}

    def _operation(self, verb: str, part: str, everywhere: bool) -> dict[str, Any]:
        kind = self._kind
        _, action, parameters, text = _METHODS[verb]
        group, version, name = self._subject(part)
        schema = name_of(group, version, name)
        many = verb in ("list", "deletecollection")
        what = f"{kind.plural} of all namespaces" if everywhere else kind.plural if many else f"a {kind.kind}"
        operation: dict[str, Any] = {
            "description": text.format(f"the {part} of {what}" if part else what),
            "operationId": self._operation_id(action, part, everywhere),
            "tags": [f"{_short(kind.group)}_{self._version}"],
            **({"parameters": [_parameter(name) for name in parameters]} if parameters else {}),
            "responses": _responses(verb, ref(f"{schema}List") if verb == "list" else ref(schema)),
            "x-kubernetes-action": verb,
            GVK: {"group": group, "version": version, "kind": name},
        }
        if body := self._body(verb, schema):
            operation["requestBody"] = body
        return operation

    def _subject(self, part: str) -> tuple[str, str, str]:
        """Group, version and kind of what is sent and received."""
        sub = SUBRESOURCES[part] if part else Subresource()
        if sub.version:
            return sub.group, sub.version, sub.kind
        return self._kind.group, self._version, sub.kind or self._kind.kind

    def _operation_id(self, action: str, part: str, everywhere: bool) -> str:
        kind = self._kind
        scope = "Namespaced" if kind.namespaced and not everywhere else ""
        where = f"{_short(kind.group).capitalize()}{self._version.capitalize()}{scope}"
        return f"{action}{where}{kind.kind}{part.capitalize()}{'ForAllNamespaces' if everywhere else ''}"

    def _body(self, verb: str, schema: str) -> dict[str, Any]:
        if verb in ("create", "update"):
            return {"content": {"*/*": {"schema": ref(schema)}}, "required": True}
        if verb == "patch":
            return {"content": {form: {"schema": ref(f"{META}.Patch")} for form in _PATCHES}, "required": True}
        if verb in ("delete", "deletecollection"):
            return {"content": {"*/*": {"schema": ref(f"{META}.DeleteOptions")}}}
        return {}


def _short(group: str) -> str:
    return group.partition(".")[0] or "core"


def _placeholder(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": text, "schema": _STRING}


def _parameter(name: str) -> dict[str, Any]:
    schema, text = _PARAMETERS[name]
    return {"name": name, "in": "query", "description": text, "schema": schema}


def _responses(verb: str, schema: Schema) -> dict[str, Any]:
    """The responses of a verb. A delete returns the object while it is terminating, a Status when it is gone."""
    if verb in ("delete", "deletecollection"):
        codes, schema = {"200": "OK", "202": "Accepted"}, {"oneOf": [schema, ref(f"{META}.Status")]}
    else:
        codes = _CODES.get(verb, {"200": "OK"})
    responses = {
        code: {"description": text, "content": {"application/json": {"schema": schema}}} for code, text in codes.items()
    }
    failure = {"description": "Failure", "content": {"application/json": {"schema": ref(f"{META}.Status")}}}
    return {**responses, "401": {"description": "Unauthorized"}, "default": failure}
