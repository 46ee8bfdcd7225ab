"""Make the tables of fields and of protobuf messages from a checkout of Kubernetes: kubernetes_fields.py PATH VERSION.

Names and types come from the Go types that Kubernetes' OpenAPI document is made of: they also say what that document
does not, which fields are pointers and what they are called in error messages. The document itself says which fields
are required. Numbers come from the proto files. Kinds that Kubernetes does not have are left out: their structs say it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from moorage.api.kinds import BINDING, KINDS, REVIEWS, Kind

SOURCE = Path(__file__).parents[1] / "src" / "moorage"
FIELDS = SOURCE / "registry" / "fields.json"
PROTOBUF = SOURCE / "apiserver" / "request" / "protobuf.json"

OWN_FIELDS: Mapping[str, dict[str, str]] = {
    "v1.DeviceToleration": {"expression": "s"},
    "v1.NodeSelectorTerm": {"matchCELExpressions": "[s"},
    "v1.Toleration": {"expression": "s"},
}
"""Fields of the enhancements, which Kubernetes does not have."""

_META = "k8s.io/apimachinery/pkg/apis/meta/v1"
_MORE_KINDS = (
    ("authentication.k8s.io", "TokenRequest"),
    ("autoscaling", "Scale"),
    ("policy", "Eviction"),
)
_OPTIONS = ("CreateOptions", "DeleteOptions", "PatchOptions", "UpdateOptions")
_LETTERS = {
    "string": "s", "bool": "b", "int32": "i", "int64": "l", "bytes": "B",
    f"{_META}.Time": "t", f"{_META}.MicroTime": "m", f"{_META}.FieldsV1": "*",
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "q",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "x",
    "k8s.io/apimachinery/pkg/runtime.RawExtension": "*",
}  # fmt: skip
_ENVELOPE = {
    "authorization.v1.ExtraValue": {"1": "items:[s"},
    "intstr.IntOrString": {"1": "type:l", "2": "intVal:i", "3": "strVal:s"},
    "meta.v1.Timestamp": {"1": "seconds:l", "2": "nanos:i"},
    "quantity.Quantity": {"1": "string:?s"},
    "runtime.RawExtension": {"1": "raw:r"},
    "runtime.TypeMeta": {"1": "apiVersion:s", "2": "kind:s"},
    "runtime.Unknown": {
        "1": "typeMeta:runtime.TypeMeta", "2": "raw:r", "3": "contentEncoding:s", "4": "contentType:s"
    },
}  # fmt: skip
"""What protobuf wraps around objects and single values; JSON has nothing like it."""

_IMPORT = re.compile(r'^\s+(?:(\w+) )?"(k8s\.io/[^"]+)"', re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) =? ?([\w.\[\]*]+)$", re.MULTILINE)
_FIELD = re.compile(r'^\s+(?:\w+\s+)?(\S+)\s+`.*?json:"([^"]*)"(.*)$', re.MULTILINE)
_NUMBER = re.compile(r'protobuf:"\w+,(\d+)')
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_PROTO_FIELD = re.compile(r"^  (?:(optional|repeated) (\S+)|map<string, (\S+)>) \w+ = (\d+);", re.MULTILINE)


@dataclass(frozen=True)
class GoField:
    """A field of a Go struct; without a name, its fields lie flat in the struct."""

    name: str
    type: str
    omitted_when_zero: bool
    number: str


class GoPackage:
    """The types of a package of Kubernetes' API, and their protobuf messages."""

    def __init__(self, staging: Path, path: str) -> None:
        self.path = path
        self._folder = staging / path
        self.structs: dict[str, list[GoField]] = {}
        self.named: dict[str, str] = {}
        for file in sorted(self._folder.glob("*.go")):
            if not re.search(r"_test\.go$|generated", file.name):
                self._add(file.read_text())

    @cached_property
    def messages(self) -> dict[str, list[tuple[str, str, str]]]:
        """The number, the kind of list and the type of each field of each message."""
        text = (self._folder / "generated.proto").read_text()
        return {
            name: [(number, "{" if value else "[" if how == "repeated" else "", plain or value)
                   for how, plain, value, number in _PROTO_FIELD.findall(body)]
            for name, body in _MESSAGE.findall(text)
        }  # fmt: skip

    @property
    def short(self) -> str:
        """Its group and version: core.v1."""
        return ".".join(self.path.split("/")[-2:])

    def _add(self, text: str) -> None:
        imports = {alias or path.rpartition("/")[2]: path for alias, path in _IMPORT.findall(text)}
        for name, body in _STRUCT.findall(text):
            found = _FIELD.findall(body)
            self.structs[name] = [self._field(go_type, tag, more, imports) for go_type, tag, more in found]
        for name, base in _NAMED.findall(text):
            self.named[name] = self._qualified(base, imports)

    def _field(self, go_type: str, tag: str, more: str, imports: Mapping[str, str]) -> GoField:
        name, *options = tag.split(",")
        number = _NUMBER.search(more)
        return GoField(name, self._qualified(go_type, imports), "omitempty" in options, number[1] if number else "")

    def _qualified(self, go_type: str, imports: Mapping[str, str]) -> str:
        """A type with the path of its package, after what it is a pointer, list or map of."""
        go_type = go_type.replace("[]byte", "bytes")
        inner = re.sub(r"^(\*|\[\]|map\[[\w.]+\])*", "", go_type)
        prefix = re.sub(r"map\[[\w.]+\]", "{", go_type.removesuffix(inner)).replace("[]", "[").replace("*", "?")
        package, _, name = inner.rpartition(".")
        if package:
            return f"{prefix}{imports.get(package, package)}.{name}"
        return f"{prefix}{name if name in _LETTERS else f'{self.path}.{name}'}"


class GoSource:
    """A checkout of Kubernetes."""

    def __init__(self, checkout: Path) -> None:
        self._openapi = checkout / "api" / "openapi-spec" / "swagger.json"
        self._staging = checkout / "staging" / "src"
        self._packages: dict[str, GoPackage] = {}
        minor = (self._staging / "k8s.io/component-base/version/base.go").read_text()
        self.minor = re.findall(r'DefaultKubeBinaryVersion = "([\d.]+)"', minor)[0]

    def package(self, path: str) -> GoPackage:
        """The package at a path."""
        if path not in self._packages:
            self._packages[path] = GoPackage(self._staging, path)
        return self._packages[path]

    def api(self, group: str, version: str) -> GoPackage:
        """The package of a group and version of the API."""
        return self.package(f"k8s.io/api/{group.split('.', maxsplit=1)[0] or 'core'}/{version}")

    def kinds(self) -> Iterator[tuple[Kind, str]]:
        """The kinds that Kubernetes has, with their types: if need be, of a version with the same fields."""
        for kind in (*KINDS, BINDING, *REVIEWS):
            for version in (kind.version, *kind.alike_versions):
                package = self.api(kind.group, version)
                if kind.kind in package.structs:
                    yield kind, f"{package.path}.{kind.kind}"
                    break

    @cached_property
    def _definitions(self) -> dict[str, dict[str, list[str]]]:
        definitions: dict[str, dict[str, list[str]]] = json.loads(self._openapi.read_bytes())["definitions"]
        return definitions

    def required(self, go_type: str) -> list[str]:
        """The fields of a struct that must be given."""
        name = go_type.replace("k8s.io/", "io.k8s.", 1).replace("/", ".")
        return sorted(self._definitions.get(name, {}).get("required", ()))

    def fields(self, go_type: str) -> Iterator[GoField]:
        """The fields of a struct, those that lie flat in it included."""
        for field in self.struct(go_type):
            if field.name:
                yield field
            else:
                yield from self.fields(field.type)

    def struct(self, go_type: str) -> list[GoField]:
        """The fields of a struct as Go has them."""
        path, _, name = go_type.rpartition(".")
        return [field for field in self.package(path).structs[name] if field.name != "-"]

    def resolved(self, go_type: str) -> tuple[str, str, str]:
        """What a type is a pointer, list or map of; its letter or its struct; what Go calls it when it is a letter."""
        prefix, inner = re.findall(r"^([?\[{]*)(.*)$", go_type)[0]
        if inner in _LETTERS:
            return prefix, _LETTERS[inner], ""
        path, _, name = inner.rpartition(".")
        base = self.package(path).named.get(name)
        if base is None:
            return prefix, inner, ""
        more, letter, _ = self.resolved(base)
        named = "" if more else f"{path.rpartition('/')[2]}.{name}"
        return prefix + more, letter, named


def reached(source: GoSource, go_types: Iterable[str]) -> list[str]:
    """All structs that these hold, by package."""
    pending, found = list(go_types), set()
    while pending:
        go_type = pending.pop()
        if go_type not in found:
            found.add(go_type)
            inner = [source.resolved(field.type)[1] for field in source.fields(go_type)]
            pending.extend(each for each in inner if "/" in each)
    return sorted(found)


def fields_table(source: GoSource, version: str) -> str:
    """The content of fields.json."""
    kinds = {f"{kind.group}/{kind.kind}": go_type for kind, go_type in source.kinds()}
    kinds |= {f"{group}/{kind}": f"{source.api(group, 'v1').path}.{kind}" for group, kind in _MORE_KINDS}
    kinds["/DeleteOptions"] = f"{_META}.DeleteOptions"
    names: dict[str, str] = {}
    for go_type in reached(source, kinds.values()):
        path, _, name = go_type.rpartition(".")
        plain = f"{path.rpartition('/')[2]}.{name}"
        names[go_type] = f"{source.package(path).short}.{name}" if plain in names.values() else plain
    types = {
        name: {field.name: _code(source, field, names) for field in source.fields(go_type)}
        | OWN_FIELDS.get(name, {})
        for go_type, name in names.items()
    }  # fmt: skip
    lines = ",\n".join(f'"{name}": {_row(types[name], ", ", ": ")}' for name in sorted(types))
    rows = ",\n".join(f'"{spelling}": "{names[kinds[spelling]]}"' for spelling in sorted(kinds))
    required = {name: source.required(go_type) for go_type, name in names.items()}
    needed = ",\n".join(f'"{name}": {json.dumps(required[name])}' for name in sorted(required) if required[name])
    return (
        f'{{\n"kubernetes": {{"version": "{version}"}},\n"kinds": {{\n{rows}\n}},\n"types": {{\n{lines}\n}},\n'
        f'"required": {{\n{needed}\n}}\n}}\n'
    )


def _code(source: GoSource, field: GoField, names: Mapping[str, str]) -> str:
    prefix, inner, named = source.resolved(field.type)
    return f"{prefix}{names.get(inner, inner)}{named and f'={named}'}"


def _row(fields: Mapping[str, str], comma: str, colon: str) -> str:
    return "{" + comma.join(f'"{name}"{colon}"{fields[name]}"' for name in _ordered(fields)) + "}"


def _ordered(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (int(name) if name.isdigit() else 0, name))


def protobuf_table(source: GoSource, version: str) -> str:
    """The content of protobuf.json."""
    kinds: dict[str, str] = {f"*/{name}": f"{_META}.{name}" for name in _OPTIONS}
    for kind, own_type in source.kinds():
        kinds[f"{kind.api_version}/{kind.kind}"] = own_type
        for older in kind.older_versions:
            path = f"k8s.io/api/{kind.group.split('.')[0]}/{older}"
            if kind.kind in source.package(path).structs:
                kinds[f"{kind.group}/{older}/{kind.kind}"] = f"{path}.{kind.kind}"
    kinds |= {f"{group}/v1/{kind}".lstrip("/"): f"{source.api(group, 'v1').path}.{kind}" for group, kind in _MORE_KINDS}
    messages = dict(_ENVELOPE)
    pending = list(kinds.values())
    while pending:
        go_type = pending.pop()
        if _short(go_type) not in messages:
            message = _message(source, go_type)
            messages[_short(go_type)] = {
                number: f"{name}:{prefix}{_short(inner)}" for number, name, prefix, inner in message
            }
            pending.extend(inner for *_, inner in message if "/" in inner)
    rows = ",\n".join(f'"{spelling}":"{_short(kinds[spelling])}"' for spelling in sorted(kinds))
    lines = ",\n".join(f'"{name}":{_row(messages[name], ",", ":")}' for name in sorted(messages))
    return f'{{"kubernetes":{{"version":"{version}"}},"kinds":{{\n{rows}\n}},"messages":{{\n{lines}\n}}}}\n'


def _short(go_type: str) -> str:
    path, _, name = go_type.rpartition(".")
    return f"{'.'.join(path.split('/')[-2:])}.{name}" if path else name


def _message(source: GoSource, go_type: str) -> list[tuple[str, str, str, str]]:
    """The number, JSON name, prefix and type of each field of a message."""
    path, _, name = go_type.rpartition(".")
    tags = {field.number: field for field in source.struct(go_type) if field.number}
    found = []
    for number, prefix, proto in source.package(path).messages[name]:
        field = tags[number]
        inner = _proto_type(proto, path)
        kept = inner in _LETTERS.values() and not prefix and inner in "sbil"
        zero = "?" if kept and (field.type[0] == "?" or not field.omitted_when_zero) else ""
        found.append((number, field.name, prefix + zero, inner))
    return found


def _proto_type(proto: str, path: str) -> str:
    """The letter of a protobuf type, or the Go type of a message."""
    scalar = {"string": "s", "bool": "b", "int32": "i", "int64": "l", "bytes": "B", "ExtraValue": "e"}.get(proto)
    if scalar:
        return scalar
    package, _, name = proto.lstrip(".").rpartition(".")
    go_type = f"{package.replace('.', '/').replace('k8s/io', 'k8s.io') or path}.{name}"
    return _LETTERS.get(go_type, go_type)


def generate(checkout: Path, version: str) -> dict[Path, bytes]:
    """The content of both files; the version must be that of the checkout."""
    source = GoSource(checkout)
    if not version.startswith(f"v{source.minor}."):
        raise ValueError(f"{checkout} is Kubernetes v{source.minor}, not {version}: name its version, such as v1.36.4")
    return {FIELDS: fields_table(source, version).encode(), PROTOBUF: protobuf_table(source, version).encode()}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("name a checkout of Kubernetes and its version, such as ../kubernetes v1.36.4")
    made = generate(Path(sys.argv[1]), sys.argv[2])
    for written, content in made.items():
        written.write_bytes(content)
    known = json.loads(made[FIELDS])["kinds"]
    if own := [kind.kind for kind in KINDS if f"{kind.group}/{kind.kind}" not in known]:
        print(f"not in Kubernetes, so their structs say which fields they have: {', '.join(own)}")
