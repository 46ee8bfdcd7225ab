"""The OpenAPI schema of every kind: fields and their types, descriptions from structs and glossary, merge keys."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from moorage.api.kinds import KINDS, Kind
from moorage.api.meta import Object, Wire
from moorage.api.resourceversions import SPELLED_AS_V1
from moorage.apiserver.describe import glossary
from moorage.apiserver.describe.discovery import served_versions
from moorage.registry.merging import PLAIN, MergeShape
from moorage.registry.schema import field_table
from moorage.registry.table import shape_of, strategy_of

Schema = dict[str, Any]

REF = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
GVK = "x-kubernetes-group-version-kind"
ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def ref(name: str) -> Schema:
    """A reference to a schema."""
    return {"$ref": REF + name}


_LETTERS: Mapping[str, Schema] = {
    "s": {"type": "string"},
    "b": {"type": "boolean"},
    "i": {"type": "integer", "format": "int32"},
    "l": {"type": "integer", "format": "int64"},
    "q": ref(_QUANTITY),
    "x": ref(_INT_OR_STRING),
    "t": ref(f"{META}.Time"),
    "m": ref(f"{META}.MicroTime"),
    "B": {"type": "string", "format": "byte"},
    "*": ANYTHING,
}
"""The schemas of the type letters in fields.json."""

_SCALARS: Mapping[str, Schema] = {
    _QUANTITY: {
        "description": "A number with a unit, such as `100m`, `1.5Gi` or `1e3`.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    _INT_OR_STRING: {
        "description": "A number, or a share of all such as `25%`.",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
        "format": "int-or-string",
    },
    f"{META}.Time": {"description": "A time, to the second.", "type": "string", "format": "date-time"},
    f"{META}.MicroTime": {"description": "A time, to the microsecond.", "type": "string", "format": "date-time"},
    f"{META}.Patch": {
        "description": "A change to an object, in the form that the content type names.",
        "type": "object",
    },
}

ANSWERS: Mapping[str, Mapping[str, str]] = {
    "v1.ListMeta": {"continue": "s", "remainingItemCount": "?l", "resourceVersion": "s", "selfLink": "s"},
    "v1.Status": {
        "apiVersion": "s", "code": "i", "details": "?v1.StatusDetails", "kind": "s", "message": "s",
        "metadata": "v1.ListMeta", "reason": "s", "status": "s",
    },
    "v1.StatusDetails": {
        "causes": "[v1.StatusCause", "group": "s", "kind": "s", "name": "s", "retryAfterSeconds": "i", "uid": "s",
    },
    "v1.StatusCause": {"field": "s", "message": "s", "reason": "s"},
}  # fmt: skip
"""Types that occur only in responses and are therefore not in fields.json."""

_META_TYPES = frozenset(
    ("Condition", "DeleteOptions", "FieldSelectorRequirement", "LabelSelector", "LabelSelectorRequirement", "ListMeta",
     "ManagedFieldsEntry", "ObjectMeta", "OwnerReference", "Preconditions", "Status", "StatusCause", "StatusDetails")
)  # fmt: skip
_RETAINED = frozenset(
    ("DeploymentSpec.strategy", "PodSpec.resourceClaims", "PodSpec.volumes", "PodStatus.resourceClaimStatuses")
)
"""Unions: a patch lists all keys that stay, so that one variant replaces the other."""


def _type_texts() -> dict[str, str]:
    """The descriptions of types: docstrings of structs, summaries of strategies, or entries of the glossary."""
    modules = {sys.modules[kind.struct.__module__] for kind in KINDS}
    classes = (value for module in modules for value in vars(module).values() if isinstance(value, type))
    texts = {struct.__name__: struct.__doc__ or "" for struct in classes if issubclass(struct, Wire)}
    summaries = {kind.kind: strategy_of(kind).summary for kind in KINDS if kind.struct is Object}
    return {**glossary.TYPES, **summaries, **texts}


class Models:
    """All schemas by name."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        table = field_table()
        self._types: dict[str, Mapping[str, str]] = {**table["types"], **ANSWERS}
        self._kinds: dict[str, str] = table["kinds"]
        self._required: dict[str, list[str]] = table["required"]
        self._names: dict[str, str] = {}
        self._merging: dict[str, Schema] = {}
        self.schemas: dict[str, Schema] = {**_SCALARS}
        rows = {(kind.group, kind.kind): kind for kind in kinds}
        for spelling in sorted(self._kinds, key=lambda spelling: "." in spelling.split("/")[0]):
            group, _, kind = spelling.partition("/")
            self._names[self._kinds[spelling]] = name_of(group, _version(rows.get((group, kind))), kind)
            self._name_parts(self._kinds[spelling], group)
        for answer in ANSWERS:
            self._names[answer] = name_of("", *answer.split("."))
        for group, kind in rows:
            self._merge(self._kinds[f"{group}/{kind}"], shape_of(group, kind), set())
        texts = _type_texts()
        for code in self._names:
            self._add(code, texts)
        for spelling, code in self._kinds.items():
            group, _, kind = spelling.partition("/")
            if kind != "DeleteOptions":
                self._add_kind(self._names[code], group, _version(rows.get((group, kind))), kind)
        for row in rows.values():
            for version in served_versions(row)[1:]:
                self._add_older(row, version)

    def reachable(self, names: Iterable[str]) -> dict[str, Schema]:
        """These schemas with all schemas that they refer to, directly or not."""
        schemas_by_name: dict[str, Schema] = {}
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in schemas_by_name:
                schemas_by_name[name] = self.schemas[name]
                pending.extend(mentioned(schemas_by_name[name]))
        return dict(sorted(schemas_by_name.items()))

    def _name_parts(self, code: str, group: str) -> None:
        """Name all types below a type after the first group that uses them."""
        for field in self._types[code].values():
            inner = _inner(field)
            if inner in self._types and inner not in self._names:
                self._names[inner] = name_of(group, *inner.split(".")[-2:])
                self._name_parts(inner, group)

    def _merge(self, code: str, shape: MergeShape, seen: set[str]) -> None:
        """Record how the fields of a type merge."""
        if code in seen:
            return
        owner = code.rpartition(".")[2]
        for field, form in self._types[code].items():
            part = shape.fields.get(field, PLAIN)
            extensions = _extensions(form, part, f"{owner}.{field}")
            if part is not PLAIN or f"{code}.{field}" not in self._merging:
                self._merging[f"{code}.{field}"] = extensions
            if (inner := _inner(form)) in self._types:
                self._merge(inner, part, seen | {code})

    def _add(self, code: str, texts: Mapping[str, str]) -> None:
        owner = code.rpartition(".")[2]
        properties = {
            field: self._property(form, glossary.text(owner, field), self._merging.get(f"{code}.{field}", {}))
            for field, form in self._types[code].items()
        }
        schema: Schema = {"description": texts.get(owner, ""), "type": "object", "properties": properties}
        if required := self._required.get(code):
            schema["required"] = required
        self.schemas[self._names[code]] = schema

    def _property(self, form: str, text: str, extensions: Schema) -> Schema:
        schema = self._schema(form)
        more = {**({"description": text} if text else {}), **extensions}
        if "$ref" in schema and more:
            return {"allOf": [schema], **more}
        return {**schema, **more}

    def _schema(self, form: str) -> Schema:
        match form[0]:
            case "?":
                return self._schema(form[1:])
            case "[":
                return {"type": "array", "items": self._schema(form[1:])}
            case "{":
                return {"type": "object", "additionalProperties": self._schema(form[1:])}
        letter = form.partition("=")[0]
        return dict(_LETTERS[letter]) if letter in _LETTERS else ref(self._names[form])

    def _add_kind(self, name: str, group: str, version: str, kind: str) -> None:
        self.schemas[name][GVK] = [{"group": group, "version": version, "kind": kind}]
        self.schemas[f"{name}List"] = {
            "description": f"Objects of kind {kind}.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string", "description": glossary.text("", "apiVersion")},
                "kind": {"type": "string", "description": glossary.text("", "kind")},
                "metadata": {
                    "allOf": [ref(f"{META}.ListMeta")],
                    "description": "How old and how complete the list is.",
                },
                "items": {"type": "array", "items": ref(name), "description": "The objects."},
            },
            GVK: [{"group": group, "version": version, "kind": f"{kind}List"}],
        }

    def _add_older(self, row: Kind, version: str) -> None:
        """Describe a kind in an older version: its types are those of the newest, but for what it nests otherwise."""
        newest = name_of(row.group, row.version, "")
        for name, schema in self.reachable([name_of(row.group, row.version, row.kind)]).items():
            if name.startswith(newest):
                older = name_of(row.group, version, name.removeprefix(newest))
                self.schemas[older] = _renamed(schema, REF + newest, REF + name_of(row.group, version, ""))
        if version not in SPELLED_AS_V1:
            self._nest_older(name_of(row.group, version, ""))
        self._add_kind(name_of(row.group, version, row.kind), row.group, version, row.kind)

    def _nest_older(self, prefix: str) -> None:
        """Describe devices with their properties in `basic`, and requests that hold what is asked for themselves."""
        device, request = self.schemas.get(prefix + "Device"), self.schemas.get(prefix + "DeviceRequest")
        if device is not None and "basic" not in device["properties"]:
            basic = {name: schema for name, schema in device["properties"].items() if name != "name"}
            text = "The properties of a device, in versions that nest them."
            self.schemas[prefix + "BasicDevice"] = {"description": text, "type": "object", "properties": basic}
            nested = {"allOf": [ref(prefix + "BasicDevice")], "description": "What the device is like, and its taints."}
            device["properties"] = {"basic": nested, "name": device["properties"]["name"]}
        if request is not None and "exactly" in request["properties"]:
            exactly = self.schemas[prefix + "ExactDeviceRequest"]["properties"]
            own = {name: schema for name, schema in request["properties"].items() if name != "exactly"}
            request["properties"] = dict(sorted({**exactly, **own}.items()))


def _renamed(schema: Any, old: str, new: str) -> Any:
    """A copy of a schema whose references below `old` are to `new`."""
    if isinstance(schema, dict):
        return {name: _renamed(value, old, new) for name, value in schema.items()}
    if isinstance(schema, list):
        return [_renamed(value, old, new) for value in schema]
    return new + schema.removeprefix(old) if isinstance(schema, str) and schema.startswith(old) else schema


def _version(row: Kind | None) -> str:
    """The version of a kind; types that are not stored have the first one."""
    return "v1" if row is None else row.version


def name_of(group: str, version: str, kind: str) -> str:
    """The name of the schema of a kind or of a part of one."""
    if kind in _META_TYPES:
        return f"{META}.{kind}"
    return f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}.{kind}"


def _inner(form: str) -> str:
    """The type of a field or, for lists and maps, of its items."""
    return form.lstrip("?[{").partition("=")[0]


def mentioned(schema: Any) -> Iterator[str]:
    """The names of all schemas that a schema refers to."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(REF)
        for part in schema.values():
            yield from mentioned(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from mentioned(part)


def _extensions(form: str, shape: MergeShape, field: str) -> Schema:
    """The x-kubernetes extensions of a field, for clients that compute patches."""
    extensions: Schema = {}
    form = form.lstrip("?")
    if form[0] == "[":
        extensions["x-kubernetes-list-type"] = "atomic" if not shape.associative else "set" if shape.is_set else "map"
        if shape.associative and shape.keys:
            extensions["x-kubernetes-list-map-keys"] = list(shape.keys)
    elif shape.atomic:
        extensions["x-kubernetes-map-type"] = "atomic"
    strategies = [
        *(["merge"] if shape.merges else ["replace"] if shape.replaces else []),
        *(["retainKeys"] if field in _RETAINED else []),
    ]
    if strategies:
        extensions["x-kubernetes-patch-strategy"] = ",".join(strategies)
    if shape.merge_key:
        extensions["x-kubernetes-patch-merge-key"] = shape.merge_key
    return extensions
