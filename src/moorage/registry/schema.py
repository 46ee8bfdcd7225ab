"""The fields of every kind and their types: wrong types are errors, unknown fields are reported, null is absent."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from pkgutil import get_data
from typing import Any

import msgspec

from moorage.api.kinds import KINDS, Kind
from moorage.api.meta import Data
from moorage.bounded import SHORT, remember_short
from moorage.gotext import quote
from moorage.quantity import Quantity, QuantityError
from moorage.registry.structfields import add_kind

FieldPath = tuple[Any, ...]
"""The path of a value: that of its parent, its name, index or key, and the Go struct of the name; () is the root."""
FieldCheck = Callable[[Any, FieldPath, list[str]], Any]

_TOP: FieldPath = ()
_MAX_DEPTH = 100
_MOST_UNKNOWN, _LONGEST_UNKNOWN = 200, 10_000
_GO_NAMES = {str: "string", int: "number", float: "number", bool: "bool", dict: "object", list: "array"}
_ANYTHING = frozenset(_GO_NAMES)
_TIME = re.compile(r"[-\dT:]{19}Z", re.ASCII)
_MICRO_TIME = re.compile(r"[-\dT:]{19}\.\d{6}Z", re.ASCII)
_SIX_DIGITS = re.compile(r"^.{19}[.,]\d{6}(?!\d)", re.ASCII)
_TIME_PARTS = (
    ("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"), ("15", r"\d\d"),
    (":", ":"), ("04", r"\d\d"), (":", ":"), ("05", r"\d\d(?:[.,]\d+)?"), ("Z07:00", r"Z|[+-]\d\d:\d\d"),
)  # fmt: skip
_RFC3339 = re.compile("".join(f"(?:{pattern})" for _, pattern in _TIME_PARTS), re.ASCII)
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")


class ShapeError(ValueError):
    """A field has a value of a wrong type, in the words of Kubernetes' decoder. `path` is that of the field."""

    def __init__(self, message: str, path: FieldPath) -> None:
        super().__init__(message)
        self.path = _bracketed(path)
        self.message = message.removeprefix(f"{self.path}: ")


class FieldShape:
    """The type of a field."""

    __slots__ = ("accepts", "check", "fields", "go", "item", "pointer", "zero")

    def __init__(
        self,
        accepts: frozenset[type],
        go: str,
        check: FieldCheck | None = None,
        zero: Callable[[], Any] = dict,
        *,
        item: FieldShape | None = None,
        fields: Callable[[], dict[str, FieldShape]] | None = None,
    ) -> None:
        self.accepts = accepts
        self.go = go
        self.check = check
        self.zero = zero
        """The value of null where it cannot be absent: in a list or a map."""
        self.item = item
        self.fields = fields
        self.pointer = False
        """Whether the field is a pointer in Go: an empty value then differs from an absent one."""

    def read(self, value: Any, path: FieldPath, unknown: list[str]) -> Any:
        """The value as Kubernetes would write it."""
        if value is None:
            return self.zero()
        if type(value) not in self.accepts:
            raise _misfit(_described(value, self), self.go, path)
        return value if self.check is None else self.check(value, path, unknown)

    def same(self, left: Any, right: Any) -> bool:
        """Whether two values are semantically equal; None is an absent value."""
        if left is None or right is None:
            value = right if left is None else left
            return value is None or (not self.pointer and self._is_zero(value))
        if type(left) is not type(right):
            return self.go == "resource.Quantity" and _same_quantity(left, right)
        if self.fields is not None:
            return _same_fields(self.fields(), left, right)
        if self.item is not None and type(left) is list:
            return len(left) == len(right) and all(map(self.item.same, left, right))
        if self.item is not None:
            return left.keys() == right.keys() and all(self.item.same(left[key], right[key]) for key in left)
        return bool(left == right) or (self.go == "resource.Quantity" and _same_quantity(left, right))

    def _is_zero(self, value: Any) -> bool:
        if self.fields is None or not value:
            return not value or (self.go == "resource.Quantity" and value == "0")
        return _same_fields(self.fields(), value, {})


def read(kind: Kind, obj: Data) -> list[str]:
    """Bring an object into canonical form, in place; drops its unknown fields and returns them. Raises ShapeError."""
    return read_as(_group(kind, obj), kind.kind, obj)


def read_as(group: str, kind: str, obj: Data) -> list[str]:
    """The same for types that are not stored: a Scale, an Eviction, a Binding."""
    unknown: list[str] = []
    _read_struct(_fields(field_table()["kinds"][f"{group}/{kind}"]), kind, obj, _TOP, unknown)
    return unknown


def same(kind: Kind, new: Data, old: Data, *path: str) -> bool:
    """Whether two objects, or their fields at a path, are semantically equal: 1 CPU is 1000m, empty is absent."""
    shape = _shape(field_table()["kinds"][f"{_group(kind, new)}/{kind.kind}"])
    left: Any = new
    right: Any = old
    for name in path:
        shape = (shape.fields or dict)()[name]
        left = left.get(name) if left else None
        right = right.get(name) if right else None
    return bool(left == right and type(left) is type(right)) or shape.same(left, right)


def has_field(kind: Kind, obj: Data, *path: str) -> bool:
    """Whether objects of a kind have a field at a path."""
    shape: FieldShape | None = _shape(field_table()["kinds"][f"{_group(kind, obj)}/{kind.kind}"])
    for name in path:
        shape = shape.fields().get(name) if shape and shape.fields else None
    return shape is not None


def _group(kind: Kind, obj: Data) -> str:
    """The group of an object's type. Events are in two groups with different fields; their apiVersion decides."""
    return "" if kind.group == "events.k8s.io" and obj.get("apiVersion") == "v1" else kind.group


def _read_struct(fields: dict[str, FieldShape], owner: str, obj: Data, path: FieldPath, unknown: list[str]) -> None:
    dropped = []
    for name, value in obj.items():
        shape = fields.get(name)
        if shape is None:
            _shallow(value, (path, name, owner), unknown)
            if len(unknown) < _MOST_UNKNOWN:
                unknown.append(_dotted((path, name, owner))[:_LONGEST_UNKNOWN])
            dropped.append(name)
        elif type(value) in shape.accepts:
            if shape.check is not None:
                checked = shape.check(value, (path, name, owner), unknown)
                if checked is not value:
                    obj[name] = checked
        elif value is None:
            dropped.append(name)
        else:
            raise _misfit(_described(value, shape), shape.go, (path, name, owner))
    for name in dropped:
        del obj[name]


def _same_fields(fields: dict[str, FieldShape], left: Data, right: Data) -> bool:
    for name in left.keys() | right.keys():
        before, after = left.get(name), right.get(name)
        shape = fields.get(name)
        if shape is None:
            if before != after:
                return False
        elif not shape.same(before, after):
            return False
    return True


def _same_quantity(left: Any, right: Any) -> bool:
    try:
        return Quantity.of(left) == Quantity.of(right)
    except QuantityError:
        return False


@cache
def field_table() -> dict[str, dict[str, Any]]:
    """The type of each kind and the fields of each type: those of fields.json, and of structs that are not in it."""
    content: dict[str, dict[str, Any]] = msgspec.json.decode(get_data("moorage.registry", "fields.json") or b"")
    for kind in KINDS:
        spelling = f"{kind.group}/{kind.kind}"
        if spelling not in content["kinds"]:
            content["kinds"][spelling] = add_kind(content["types"], kind)
    return content


@cache
def _fields(name: str) -> dict[str, FieldShape]:
    return {field: _shape(code) for field, code in field_table()["types"][name].items()}


def _shape(code: str) -> FieldShape:
    """Parse a code of fields.json: `?` a pointer, `[` a list, `{` a map, a letter or a type, and its name in Go."""
    if code[0] == "?":
        shape = _shape(code[1:])
        shape.pointer = True
        return shape
    if code[0] in "[{":
        item = _shape(code[1:])
        if code[0] == "[":
            return FieldShape(frozenset((list,)), f"[]{item.go}", _list_of(item), list, item=item)
        return FieldShape(frozenset((dict,)), f"map[string]{item.go}", _map_of(item), dict, item=item)
    letter, _, go = code.partition("=")
    if letter in _LETTERS:
        accepts, name, check, zero = _LETTERS[letter]
        return FieldShape(accepts, go or name, check, zero)
    return FieldShape(frozenset((dict,)), code, _struct_of(code), fields=lambda: _fields(code))


def _struct_of(name: str) -> FieldCheck:
    owner = name.rpartition(".")[2]

    def check(value: Data, path: FieldPath, unknown: list[str]) -> Data:
        _read_struct(_fields(name), owner, value, path, unknown)
        return value

    return check


def _list_of(item: FieldShape) -> FieldCheck:
    def check(values: list[Any], path: FieldPath, unknown: list[str]) -> list[Any]:
        for index, value in enumerate(values):
            if item.check is not None or type(value) not in item.accepts:
                values[index] = item.read(value, (path, index, ""), unknown)
        return values

    return check


def _map_of(item: FieldShape) -> FieldCheck:
    def check(values: Data, path: FieldPath, unknown: list[str]) -> Data:
        for key, value in values.items():
            if item.check is not None or type(value) not in item.accepts:
                values[key] = item.read(value, (path, key, ""), unknown)
        return values

    return check


def _int(bits: int) -> FieldCheck:
    limit: int = 1 << (bits - 1)

    def check(value: int, path: FieldPath, _: list[str]) -> int:
        if not -limit <= value < limit:
            raise _misfit(f"number {value}", f"int{bits}", path)
        return value

    return check


def _int_or_string(value: Any, path: FieldPath, unknown: list[str]) -> Any:
    return value if type(value) is str else _INT32(value, path, unknown)


def _quantity(value: Any, path: FieldPath, _: list[str]) -> str:
    try:
        return _canonical(value) if not isinstance(value, str) or len(value) <= SHORT else str(Quantity.of(value))
    except QuantityError as error:
        raise ShapeError(f"{_bracketed(path)}: {error}", path) from None


@lru_cache(maxsize=65536, typed=True)
def _canonical(value: Any) -> str:
    return str(Quantity.of(value))


def _bytes(value: str, path: FieldPath, _: list[str]) -> str:
    text = value.replace("\r", "").replace("\n", "")
    odd = _NOT_BASE64.search(text)
    at = len(text) // 4 * 4 if odd is None else odd.start()
    try:
        b64decode(text, validate=True)
    except ValueError:
        raise ShapeError(f"{_bracketed(path)}: illegal base64 data at input byte {at}", path) from None
    return text


def _time(value: str, path: FieldPath, _: list[str]) -> str:
    return value if is_canonical_time(value) else f"{_instant(value, path).isoformat(timespec='seconds')}Z"


@remember_short(4096)
def is_canonical_time(value: str) -> bool:
    """Whether a time is spelt as it is stored. The objects of one write have the same few times."""
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return _TIME.fullmatch(value) is not None and _RFC3339.fullmatch(value) is not None


def _micro_time(value: str, path: FieldPath, _: list[str]) -> str:
    instant = _instant(value, path)
    if not _SIX_DIGITS.search(value):
        rest = value[19:]
        raise ShapeError(
            f'{_bracketed(path)}: parsing time {quote(value)} as "2006-01-02T15:04:05.000000Z07:00": cannot parse '
            f'{quote(rest)} as ".000000"',
            path,
        )
    return value if _MICRO_TIME.fullmatch(value) else f"{instant.isoformat(timespec='microseconds')}Z"


def _instant(value: str, path: FieldPath) -> datetime:
    if _RFC3339.fullmatch(value):
        try:
            return datetime.fromisoformat(value.replace(",", ".")).astimezone(UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            problem = _out_of_range(value)
    else:
        problem = _unreadable(value)
    raise ShapeError(f"{_bracketed(path)}: parsing time {quote(value)}{problem}", path)


def _unreadable(value: str) -> str:
    rest = value
    for name, pattern in _TIME_PARTS:
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return f' as "2006-01-02T15:04:05Z07:00": cannot parse {quote(rest)} as "{name}"'
        rest = rest[match.end() :]
    return f": extra text: {quote(rest)}"


def _out_of_range(value: str) -> str:
    limits = (("month", 5, 1, 12), ("hour", 11, 0, 23), ("minute", 14, 0, 59), ("second", 17, 0, 59))
    wrong = [name for name, at, least, most in limits if not least <= int(value[at : at + 2]) <= most]
    return f": {wrong[0] if wrong else 'day'} out of range"


def _described(value: Any, shape: FieldShape) -> str:
    return f"number {value}" if type(value) is float and shape.accepts == _NUMBER else _GO_NAMES[type(value)]


def _shallow(value: Any, path: FieldPath, _: list[str], room: int = _MAX_DEPTH) -> Any:
    """Refuse a free-form value that is nested too deeply; all other types have a known depth."""
    if type(value) is dict or type(value) is list:
        if room == 0:
            raise ShapeError(f"{_bracketed(path)}: nested deeper than {_MAX_DEPTH} levels", path)
        for child in value.values() if type(value) is dict else value:
            _shallow(child, path, _, room - 1)
    return value


def _misfit(value: str, go: str, path: FieldPath) -> ShapeError:
    owner, names, full = "", [], path
    while path:
        path, step, struct = path
        if struct:
            owner = owner or struct
            names.append(step)
    where = f"struct field {owner}.{'.'.join(reversed(names))}" if names else "value"
    return ShapeError(f"json: cannot unmarshal {value} into Go {where} of type {go}", full)


def _dotted(path: FieldPath) -> str:
    """A path as the strict decoder writes it: `spec.containers[0].foo`."""
    return "".join(_steps(path, ".{}"))


def _bracketed(path: FieldPath) -> str:
    """A path as field errors write it: `spec.containers[0].resources.limits[cpu]`."""
    return "".join(_steps(path, "[{}]"))


def _steps(path: FieldPath, key: str) -> list[str]:
    steps = []
    while path:
        path, step, struct = path
        if struct:
            steps.append(f".{step}" if path else step)
        else:
            steps.append(f"[{step}]" if type(step) is int else key.format(step))
    return steps[::-1]


_INT32 = _int(32)
_TEXT, _NUMBER = frozenset((str,)), frozenset((int,))
_LETTERS: dict[str, tuple[frozenset[type], str, FieldCheck | None, Callable[[], Any]]] = {
    "s": (_TEXT, "string", None, str),
    "b": (frozenset((bool,)), "bool", None, bool),
    "i": (_NUMBER, "int32", _INT32, int),
    "l": (_NUMBER, "int64", _int(64), int),
    "q": (frozenset((str, int, float)), "resource.Quantity", _quantity, lambda: "0"),
    "x": (_TEXT | _NUMBER, "intstr.IntOrString", _int_or_string, int),
    "t": (_TEXT, "v1.Time", _time, str),
    "m": (_TEXT, "v1.MicroTime", _micro_time, str),
    "B": (_TEXT, "[]uint8", _bytes, str),
    "*": (_ANYTHING, "any", _shallow, lambda: None),
}
