"""How strictly a body is read: keys given twice and fields that do not exist are refused, warned of or let pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.api.yamltext import RepeatedKey
from moorage.apiserver.request import repeatedkeys
from moorage.gotext import quote
from moorage.registry import schema
from moorage.registry.schema import ShapeError
from moorage.validation.field import FieldError, not_supported

_MOST = 100
"""Kubernetes tells of no more problems than these."""


class Level(Enum):
    """What `fieldValidation` in a query asks for."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"


class BodyError(Exception):
    """The body is not an object of the kind that was asked for. The message is that of a 400."""

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
    """What is said of keys that a JSON body gives twice."""
    if level is Level.IGNORE:
        return []
    return [_said(place, again=True) for place in repeatedkeys.in_json(body, data)]


def repeated_yaml_keys(keys: Sequence[RepeatedKey]) -> list[str]:
    """What Kubernetes says of keys that a YAML body gives twice."""
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
    """Bring an object to the form that is kept, and give the warnings.

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
    said = list(dict.fromkeys([*problems, *(_said(place, again=False) for place in unknown)]))
    if problems and unknown and body:
        said = _in_order(said, body)
    said = said[:_MOST]
    if level is Level.STRICT:
        raise BodyError(kind, f"strict decoding error: {', '.join(said)}")
    return said


def _read_changed(kind: Kind, obj: Data, before: Data) -> list[str]:
    """The same for a patched object: what it shares with the one before has that form already."""
    names = [name for name, value in obj.items() if before.get(name) is not value]
    changed = {name: obj[name] for name in ("apiVersion", *names) if name in obj}
    unknown = schema.read(kind, changed)
    for name in names:
        if name in changed:
            obj[name] = changed[name]
        else:
            del obj[name]
    old = {*schema.read(kind, before)} if unknown else ()
    return [place for place in unknown if place not in old]


def _said(place: str, *, again: bool) -> str:
    return f"{'duplicate' if again else 'unknown'} field {quote(place)}"


def _in_order(said: list[str], body: bytes) -> list[str]:
    """What is said, as one meets it in the text; what is not found there comes last."""
    order = {_said(place, again=again): index for index, (place, again) in enumerate(repeatedkeys.places_in_json(body))}
    return sorted(said, key=lambda each: order.get(each, len(order)))
