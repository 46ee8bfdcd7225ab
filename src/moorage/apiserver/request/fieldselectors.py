"""Field selectors: the text of a query, such as `spec.nodeName=n1,status.phase!=Failed`, as a predicate of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from moorage.api.labels import SelectorError
from moorage.api.meta import Data
from moorage.bounded import short_texts
from moorage.gotext import quote

FieldText = Callable[[Data], str]
"""Gives the text of one field of an object."""
Predicate = Callable[[Data], bool]
"""Tells whether an object is selected."""


def _path(path: str, default: str = "") -> FieldText:
    """The text of a field; true and false are spelled as JSON does."""
    head, _, tail = path.partition(".")
    if not tail:
        return lambda item: _text(item.get(head), default)

    def get(item: Data) -> str:
        part = item.get(head)
        return _text(part.get(tail), default) if isinstance(part, dict) else default

    return get


def _text(value: Any, default: str) -> str:
    if isinstance(value, str):
        return value or default
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else default


def _either(*getters: FieldText) -> FieldText:
    """The first of several fields that is not empty."""
    return lambda item: next((text for get in getters if (text := get(item))), "")


def _pod_ip(item: Data) -> str:
    status = item.get("status")
    addresses = status.get("podIPs") if isinstance(status, dict) else None
    if not isinstance(addresses, list) or not addresses or not isinstance(addresses[0], dict):
        return ""
    return _text(addresses[0].get("ip"), "")


def _pool_name(item: Data) -> str:
    spec = item.get("spec")
    return _path("pool.name")(spec) if isinstance(spec, dict) else ""


_NAME = {"metadata.name": _path("metadata.name")}
_NAMES = {**_NAME, "metadata.namespace": _path("metadata.namespace")}

# An event is one object under two groups, whose fields have two spellings.
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_ABOUT = {part: _either(_path(f"involvedObject.{part}"), _path(f"regarding.{part}")) for part in _REFERENCE}
_REPORTER = _either(_path("reportingComponent"), _path("reportingController"))
_EVENT = {**_NAMES, "reason": _path("reason"), "type": _path("type")}
_SOURCE = _either(_path("source.component"), _path("deprecatedSource.component"), _REPORTER)

_FIELDS: dict[tuple[str, str], dict[str, FieldText]] = {
    ("", "Pod"): {
        **_NAMES,
        "spec.nodeName": _path("spec.nodeName"),
        "spec.host": _path("spec.nodeName"),
        "spec.restartPolicy": _path("spec.restartPolicy"),
        "spec.schedulerName": _path("spec.schedulerName"),
        "spec.serviceAccountName": _path("spec.serviceAccountName"),
        "spec.hostNetwork": _path("spec.hostNetwork", "false"),
        "status.phase": _path("status.phase"),
        "status.podIP": _pod_ip,
        "status.podIPs": lambda _: "",
        "status.nominatedNodeName": _path("status.nominatedNodeName"),
    },
    ("", "Node"): {**_NAME, "spec.unschedulable": _path("spec.unschedulable", "false")},
    ("", "Namespace"): {**_NAME, "status.phase": _path("status.phase")},
    ("", "Secret"): {**_NAMES, "type": _path("type")},
    ("", "Service"): {**_NAMES, "spec.clusterIP": _path("spec.clusterIP"), "spec.type": _path("spec.type")},
    ("", "Event"): {
        **_EVENT,
        **{f"involvedObject.{part}": get for part, get in _ABOUT.items()},
        "reportingComponent": _REPORTER,
        "source": _SOURCE,
    },
    ("events.k8s.io", "Event"): {
        **_EVENT,
        **{f"regarding.{part}": get for part, get in _ABOUT.items()},
        "reportingController": _REPORTER,
    },
    ("", "ReplicationController"): {**_NAMES, "status.replicas": _path("status.replicas", "0")},
    ("batch", "Job"): {**_NAMES, "status.successful": _path("status.succeeded", "0")},
    ("resource.k8s.io", "ResourceSlice"): {
        **_NAME,
        "spec.nodeName": _path("spec.nodeName"),
        "spec.driver": _path("spec.driver"),
        "spec.pool.name": _pool_name,
    },
}
_REFUSALS = {
    ("batch", "Job"): "field label {quoted} not supported for Job",
    ("resource.k8s.io", "ResourceSlice"): "field label not supported for {version}, Kind=ResourceSlice: {label}",
}
_REFUSAL = "field label not supported: {label}"
_ONLY_NAMES = '{quoted} is not a known field selector: only "metadata.name", "metadata.namespace"'


class FieldRequirement(NamedTuple):
    """One condition on one field."""

    field: str
    equal: bool
    value: str


class FieldSelector:
    """All of some requirements. Without any it selects everything."""

    __slots__ = ("matches", "requirements")

    def __init__(self, requirements: tuple[FieldRequirement, ...], getters: Mapping[str, FieldText]) -> None:
        self.requirements = requirements
        self.matches: Predicate = _all([_predicate(getters[each.field], each) for each in requirements])
        """Whether an object is selected."""

    def exact(self, field: str) -> str | None:
        """The one value that a field must have, None when several will do."""
        return next((each.value for each in self.requirements if each.field == field and each.equal), None)


def _all(predicates: list[Predicate]) -> Predicate:
    if not predicates:
        return lambda _: True
    if len(predicates) == 1:
        return predicates[0]
    return lambda item: all(predicate(item) for predicate in predicates)


def _predicate(get: FieldText, requirement: FieldRequirement) -> Predicate:
    value = requirement.value
    return (lambda item: get(item) == value) if requirement.equal else (lambda item: get(item) != value)


@short_texts(1024)
def parse(text: str, api_version: str, kind: str) -> FieldSelector:
    """The selector of a query about objects of a kind. Raises SelectorError."""
    group = api_version.rpartition("/")[0]
    getters = _FIELDS.get((group, kind))
    refusal = _ONLY_NAMES if getters is None else _REFUSALS.get((group, kind), _REFUSAL)
    requirements = tuple(_requirement(text, term) for term in sorted(_terms(text)) if term)
    known = _NAMES if getters is None else getters
    for label, _, _ in requirements:
        if label not in known:
            raise SelectorError(refusal.format(label=label, quoted=quote(label), version=api_version))
    return FieldSelector(requirements, known)


def _terms(text: str) -> list[str]:
    """The parts between commas; a comma after a backslash is data."""
    terms, start, escaped = [], 0, False
    for place, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            terms.append(text[start:place])
            start = place + 1
    return [*terms, text[start:]]


def _requirement(text: str, term: str) -> FieldRequirement:
    head, equals, tail = term.partition("=")
    if not equals:
        raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
    equal = not head.endswith("!")
    return FieldRequirement(head if equal else head[:-1], equal, _unescaped(tail.removeprefix("=") if equal else tail))


def _unescaped(text: str) -> str:
    plain, escaped = [], False
    for char in text:
        if escaped:
            if char not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
            plain.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            plain.append(char)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(plain)
