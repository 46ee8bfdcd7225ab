"""Decoding of bytes or parsed data into typed objects; errors carry the path of the field."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data, Object

T = TypeVar("T")

_EXPECTED = re.compile(r"Expected `(?P<want>[^`]*)`, got `(?P<got>[^`]*)`")
_WORDS = {
    "str": "a string", "int": "an integer", "float": "a number", "bool": "true or false", "null": "null",
    "array": "a list", "object": "a map", "datetime": "a time",
}  # fmt: skip


class DecodeError(ValueError):
    """A field has a value of the wrong type. `path` is spelled as in Kubernetes' messages."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


def decode(data: bytes | str, struct: type[T]) -> T:
    """Read JSON straight into a struct; null counts as absent, as in Kubernetes."""
    try:
        return msgspec.json.decode(data, type=struct)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        parsed = msgspec.json.decode(data)
    except RecursionError:
        raise DecodeError("", "nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DecodeError("", f"not JSON: {error}") from None
    return convert(parsed, struct)


def convert(data: Any, struct: type[T]) -> T:
    """Read parsed JSON or YAML into a struct."""
    try:
        return msgspec.convert(data, struct)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(without_nulls(data), struct)
    except msgspec.ValidationError as error:
        raise _explained(str(error)) from None


def from_manifest(data: Data) -> Object | None:
    """The typed object that a manifest holds, or None when its kind is unknown."""
    api_version, name = data.get("apiVersion"), data.get("kind")
    for field, value in (("apiVersion", api_version), ("kind", name)):
        if not value:
            raise DecodeError(field, "is missing: every object says its apiVersion and kind")
        if not isinstance(value, str):
            raise DecodeError(field, "expected a string")
    kind = kinds.find(str(api_version), str(name))
    if kind is None:
        return None
    if kind.upgrade is not None and api_version != kind.api_version:
        data = kind.upgrade(data)
    return convert(data, kind.struct)


_STRING_MAPS = frozenset(("labels", "annotations", "nodeSelector", "matchLabels", "parameters"))


def without_nulls(data: Any) -> Any:
    """The same data as Kubernetes reads it: a null member is absent, but in a map of strings it is an empty one."""
    if isinstance(data, dict):
        return {name: _without_nulls(name, value) for name, value in data.items() if value is not None}
    if isinstance(data, list):
        return [without_nulls(value) for value in data]
    return data


def _without_nulls(name: str, value: Any) -> Any:
    # A pod's nodeSelector is a map of strings; that of a device inventory is not.
    if name in _STRING_MAPS and isinstance(value, dict) and "nodeSelectorTerms" not in value:
        return {key: "" if entry is None else without_nulls(entry) for key, entry in value.items()}
    return without_nulls(value)


def _explained(problem: str) -> DecodeError:
    problem = problem.replace("`key` in ", "")
    what, at, place = problem.rpartition(" - at `") if problem.endswith("`") else (problem, "", "")
    what, path = (what, place.removesuffix("`").removeprefix("$").removeprefix(".")) if at else (problem, "")
    expected = _EXPECTED.fullmatch(what)
    if expected is None:
        return DecodeError(path, what)
    want = " or ".join(_WORDS.get(word, word) for word in expected["want"].split(" | ") if word != "null")
    got = _WORDS.get(expected["got"], expected["got"])
    hint = ": put it in quotes" if want == "a string" and expected["got"] in ("int", "float", "bool") else ""
    return DecodeError(path, f"expected {want}, got {got}{hint}")
