"""Bodies of requests: valid objects of every kind with mistakes in them, and patches, in every media type."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import yaml
from tests.apiserver.request.wire_bytes import written
from tests.live.manifests import manifest

from fuzzing.texts import LANGUAGES, LONG, edge, expression, pick, quantity, schedule, version, word
from moorage.api.kinds import KINDS, Kind, find
from moorage.match.operators import COMPARISONS
from moorage.registry.schema import field_table
from mutations import changed, draw, some_value

Data = dict[str, Any]
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
NAMES = tuple(f"x{number}" for number in range(8))
_OBJECTS = yaml.safe_load((Path(__file__).parents[1] / "differential.yaml").read_text())
_DIRECTIVES = ("$patch", "$retainKeys", "$deleteFromPrimitiveList/finalizers", "$setElementOrder/containers", "$x")
_POINTERS = (
    "", "/", "/metadata", "/metadata/name", "/metadata/labels", "/metadata/labels/a~1b", "/spec", "/spec/replicas",
    "/spec/containers/0", "/spec/containers/-", "/spec/containers/01", "/spec/tolerations/-", "/status", "/kind",
    "/metadata/annotations/a~2", "/data/a", "/spec/-1", "//", "spec", "/spec/template/spec/containers/0/image",
)  # fmt: skip


class Body(NamedTuple):
    """Bytes and what they are said to be."""

    content: bytes = b""
    media_type: str = ""


def _valid() -> dict[Kind, list[Data]]:
    valid: dict[Kind, list[Data]] = {}
    for obj in _OBJECTS:
        kind = find(obj["apiVersion"], obj["kind"])
        assert kind is not None
        valid.setdefault(kind, []).append(obj)
    for kind in KINDS:
        valid.setdefault(kind, []).append(manifest(kind, "x0"))
    return valid


VALID = _valid()


def some_object(random: Random, kind: Kind, name: str) -> Data:
    """An object of a kind: valid, with one or two likely mistakes, or with a value that no field expects."""
    obj: Data = copy.deepcopy(random.choice(VALID[kind]))
    code = field_table()["kinds"][f"{kind.group}/{kind.kind}"]
    mistakes = [draw(random, code, obj) for _ in range(random.choice((0, 0, 1, 1, 1, 2, 4)))]
    obj = changed(obj, [change for several in mistakes for change in several])
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and random.random() < 0.95:
        metadata["name"] = name
        metadata.pop("namespace", None)
    status = field_table()["types"][code].get("status")
    if status and random.random() < 0.2:
        obj["status"] = some_value(random, status, 0)
    if random.random() < 0.4:
        _spoil(random, obj)
    return obj


def _spoil(random: Random, obj: Any) -> None:
    """Put texts of the right language into fields that are written in one, and something wrong at one place."""
    places = list(_places(obj))
    for holder, key in places:
        if key in LANGUAGES and random.random() < 0.5:
            holder[key] = LANGUAGES[key](random)
    if places and random.random() < 0.3:
        holder, key = random.choice(places)
        holder[key] = (
            edge(random)
            if random.random() < 0.6
            else random.choice((word(random), quantity(random), version(random), expression(random)))
        )
    if random.random() < 0.3:
        _add_expressions(random, obj)
    if places and random.random() < 0.1:
        _inflate(random, *random.choice(places))


def _inflate(random: Random, holder: Any, key: Any) -> None:
    """Make one value of an object large: many items, many keys or a long text."""
    value, count = holder[key], random.choice((50, 300, 3_000, 10_000))
    if isinstance(value, list) and value:
        item = value[0]
        holder[key] = [{**item, "name": f"n{n}"} if isinstance(item, dict) else item for n in range(count)]
    elif isinstance(value, dict) and value:
        item = next(iter(value.values()))
        holder[key] = {f"k{n}": item for n in range(count)}
    elif isinstance(value, str) and value:
        holder[key] = value * count


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        found.append((value, key))
        found += _places(item)
    return found


def _add_expressions(random: Random, obj: Any) -> None:
    """Give every pod in an object tolerations and a node selector that are written in CEL."""
    for holder, key in _places(obj):
        if key != "containers" or not isinstance(holder, dict):
            continue
        operator = random.choice(tuple(COMPARISONS))
        tolerations = [{"expression": expression(random)}, {"key": "v", "operator": operator, "value": version(random)}]
        holder["tolerations"] = random.sample(tolerations, random.randrange(3))
        terms = [
            {"matchCELExpressions": [{"expression": expression(random)}]},
            {"matchExpressions": [{"key": "v", "operator": operator, "values": [version(random)]}]},
        ]
        required = {"nodeSelectorTerms": random.sample(terms, random.randrange(1, 3))}
        holder["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def encoded(random: Random, obj: Any) -> Body:
    """An object in some media type, now and then with bytes that nobody would write."""
    kind = random.choice((JSON, JSON, JSON, YAML, PROTOBUF))
    if kind == PROTOBUF:
        try:
            content = written(obj)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            kind = JSON
    if kind == JSON:
        content = json.dumps(obj, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    elif kind == YAML:
        content = yaml.safe_dump(obj, allow_unicode=True, default_flow_style=random.random() < 0.5).encode()
    if random.random() < 0.08:
        content = _garbled(random, content)
    return Body(
        content, random.choice((kind,) * 60 + (JSON, YAML, PROTOBUF, "", "text/plain", f"{kind}; charset=latin-1"))
    )


def _garbled(random: Random, content: bytes) -> bytes:
    """Bytes with a mistake: cut off, repeated, replaced, wrapped or nested."""
    at = random.randrange(len(content) + 1)
    to = random.randrange(at, len(content) + 1)
    piece = random.choice(
        (b"\x00", b"\xff", b"\xed\xa0\x80", b'"\\ud800"', b"[" * LONG, b'{"a":' * LONG, b"NaN", b"1e999", b"-",
        b"&a *a",
         b"*a", b"!!python/object:x", b"%TAG ! x:\n---\n", b"---\n", b"<<: {a: 1}\n", b'"a":1,"a":2,', b"\r",
         b"\xef\xbb\xbf",
         b"9" * 5_000, b"\x80" * 12, b"!!binary x", b"? [a]\n", b"0b1", b"1:2:3", b"2001-99-99")
    )  # fmt: skip
    return random.choice(
        (content[:at], content[:at] + piece + content[at:], content[:at] + content[to:], content * 2, content + piece,
         content[:at] + content[at:to] * 3 + content[to:], content[:at] + piece + content[to:], piece, piece + content)
    )  # fmt: skip


def patch(random: Random, kind: Kind, name: str) -> Body:
    """A patch of an object, in one of the four media types."""
    media_type = random.choice((JSON_PATCH, MERGE_PATCH, STRATEGIC, STRATEGIC, APPLY, APPLY))
    obj = some_object(random, kind, name)
    if media_type == JSON_PATCH:
        content: Any = [_operation(random, obj) for _ in range(random.choice((0, 1, 2, 5)))]
    else:
        content = obj if media_type == APPLY else _part(random, obj)
    if media_type == STRATEGIC and random.random() < 0.6:
        _direct(random, content)
    text = json.dumps(edge(random) if random.random() < 0.03 else content).encode()
    if random.random() < 0.05:
        text = _garbled(random, text)
    return Body(text, random.choice((media_type,) * 60 + (JSON, MERGE_PATCH, "x/y")))


def _part(random: Random, obj: Data) -> Data:
    keys = [key for key in obj if random.random() < 0.6]
    part = {key: obj[key] for key in keys}
    for holder, key in random.sample(places := _places(part), min(len(places), 2)):
        holder[key] = random.choice((None, holder[key], edge(random)))
    return part


def _direct(random: Random, obj: Any) -> None:
    """Put directives of a strategic merge patch at random places."""
    holders = [holder for holder, _ in _places(obj) if isinstance(holder, dict)]
    for _ in range(random.randrange(1, 4)):
        if holders:
            value = pick(random, "delete", "replace", "merge", ["a"], [{"name": "app"}])
            random.choice(holders)[random.choice(_DIRECTIVES)] = value


def _operation(random: Random, obj: Data) -> Any:
    operation: Data = {
        "op": random.choice(("add", "remove", "replace", "test", "move", "copy", word(random))),
        "path": random.choice((*_POINTERS, word(random))),
    }
    if random.random() < 0.8:
        operation["value"] = pick(random, obj, obj.get("spec"), word(random), schedule(random), 1, "a", {}, [])
    if random.random() < 0.4:
        operation["from"] = random.choice(_POINTERS)
    return random.choice((operation,) * 20 + (None, [], "x"))
