"""Field validation: repeated keys and unknown fields of a body are refused, warned of or ignored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.api.yamltext import RepeatedKey
from moorage.apiserver.request import repeatedkeys
from moorage.gotext import quote
from moorage.registry import schema
from moorage.registry.schema import ShapeError
from moorage.validation.field import FieldError, not_supported

_MOST = 100
"""Kubernetes reports no more problems than these."""


_LONGEST_PATHS = 4 << 20
"""Characters of the paths in a body by whose order its problems are sorted."""


class Level(Enum):
    """What `fieldValidation` in a query asks for."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"


class BodyError(Exception):
    """The body is not a valid object of its kind. The message is that of a 400."""

    def __init__(self, kind: Kind, problem: str) -> None:
        super().__init__(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {problem}')
        self.problem = problem


def level_of(text: str) -> Level | FieldError:
    """The level that a query names; an empty text is the default."""
    try:
        return Level(text) if text else Level.WARN
    except ValueError:
        return not_supported("fieldValidation", text, ("", "Ignore", "Strict", "Warn"))


def repeated_keys(body: bytes, data: object, level: Level) -> list[str]:
    """The warnings about keys that a JSON body repeats."""
    if level is Level.IGNORE:
        return []
    return [_warning(path, repeated=True) for path in repeatedkeys.in_json(body, data)]


def repeated_yaml_keys(keys: Sequence[RepeatedKey]) -> list[str]:
    """The warning about keys that a YAML body repeats, as Kubernetes words it."""
    lines = [f"  line {line}: key {quote(key)} already set in map" for line, key in keys]
    return ["yaml: unmarshal errors:\n" + "\n".join(lines)] if lines else []


def check(
    kind: Kind,
    obj: Data,
    level: Level,
    problems: Iterable[str] = (),
    before: Data | None = None,
    body: bytes = b"",
) -> list[str]:
    """Bring an object to the form that is stored; the warnings about its fields.

    `problems` are those that were found already, in JSON in this `body`, `before` the object that was patched: its
    unknown fields are no fault of the patch. BodyError when a field holds what it cannot hold, and when the level is
    strict and there is anything to say.
    """
    try:
        unknown = schema.read(kind, obj) if before is None else _read_changed(kind, obj, before)
    except ShapeError as error:
        raise BodyError(kind, str(error)) from None
    if level is Level.IGNORE or not (unknown or problems):
        return []
    warnings = list(dict.fromkeys([*problems, *(_warning(path, repeated=False) for path in unknown)]))
    if problems and unknown and body:
        warnings = _in_order(warnings, body)
    warnings = warnings[:_MOST]
    if level is Level.STRICT:
        raise BodyError(kind, f"strict decoding error: {', '.join(warnings)}")
    return warnings


def _read_changed(kind: Kind, obj: Data, before: Data) -> list[str]:
    """The unknown fields of a patched object: only what changed has to be brought to the stored form."""
    changed = _differing(obj, before)
    parts = [(obj, list(changed), changed)]
    new, old_metadata = changed.get("metadata"), before.get("metadata")
    if isinstance(new, dict) and isinstance(old_metadata, dict):
        inner = changed["metadata"] = _differing(new, old_metadata)
        parts = [(new, list(inner), inner), (obj, [name for name in changed if name != "metadata"], changed)]
    if "apiVersion" in obj:
        changed["apiVersion"] = obj["apiVersion"]
    unknown = schema.read(kind, changed)
    for part, names, read in parts:
        for name in names:
            if name in read:
                part[name] = read[name]
            else:
                del part[name]
    old = {*schema.read(kind, msgspec.to_builtins(before))} if unknown else ()
    return [place for place in unknown if place not in old]


def _differing(new: Data, old: Data) -> Data:
    """The fields that a patch has not left as they were; a null is one that it has set."""
    return {name: value for name, value in new.items() if value is None or old.get(name) is not value}


def _warning(path: str, *, repeated: bool) -> str:
    return f"{'duplicate' if repeated else 'unknown'} field {quote(path)}"


def _in_order(warnings: list[str], body: bytes) -> list[str]:
    """The warnings in the order of the text; those about paths that are not in it come last."""
    wanted, order, length = set(warnings), dict[str, int](), 0
    for place, repeated in repeatedkeys.places_in_json(body):
        length += place.length
        if length > _LONGEST_PATHS:
            break
        if (warning := _warning(str(place), repeated=repeated)) in wanted:
            order.setdefault(warning, len(order))
    return sorted(warnings, key=lambda warning: order.get(warning, len(order)))
