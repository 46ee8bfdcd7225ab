"""The fields of a struct in the codes of fields.json, for kinds that Kubernetes does not have."""

from __future__ import annotations

from msgspec import inspect

from moorage.api.kinds import Kind

TypeFields = dict[str, dict[str, str]]
"""The codes of fields, by type and name."""

_LETTERS: dict[type[inspect.Type], str] = {
    inspect.StrType: "s",
    inspect.BoolType: "b",
    inspect.BytesType: "B",
    inspect.DateTimeType: "t",
    inspect.AnyType: "*",
}
_UNIONS: dict[tuple[type[inspect.Type], ...], str] = {
    (inspect.IntType, inspect.StrType): "x",
    (inspect.StrType, inspect.IntType, inspect.FloatType): "q",
}


def add_kind(types: TypeFields, kind: Kind) -> str:
    """Add the fields of a kind's struct, and of the structs in it that are not there yet; returns the kind's type."""
    name = f"{kind.version}.{kind.kind}"
    if name in types:
        name = f"{kind.group.partition('.')[0]}.{name}"
    info = inspect.type_info(kind.struct)
    assert isinstance(info, inspect.StructType)
    _add(types, name, info, kind.version)
    return name


def _add(types: TypeFields, name: str, struct: inspect.StructType, version: str) -> None:
    fields = types[name] = {}
    for field in struct.fields:
        fields[field.encode_name] = _code(types, field.type, version)


def _code(types: TypeFields, info: inspect.Type, version: str) -> str:
    match info:
        case inspect.StructType():
            return _struct(types, info, version)
        case inspect.UnionType():
            return _union(types, info, version)
        case inspect.DictType(value_type=item):
            return "{" + _code(types, item, version)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return "[" + _code(types, item, version)
        case inspect.IntType(le=most):
            return "i" if most == 2**31 - 1 else "l"
    if type(info) not in _LETTERS:
        raise TypeError(f"Kubernetes has no type like {info}: use str, Int32, QuantityText or a struct")
    return _LETTERS[type(info)]


def _struct(types: TypeFields, info: inspect.StructType, version: str) -> str:
    """The type of a struct: Kubernetes' own where it has one of that name, such as v1.ObjectMeta."""
    own, shared = f"{version}.{info.cls.__name__}", f"v1.{info.cls.__name__}"
    if shared in types:
        return shared
    if own not in types:
        _add(types, own, info, version)
    return own


def _union(types: TypeFields, info: inspect.UnionType, version: str) -> str:
    parts = [each for each in info.types if not isinstance(each, inspect.NoneType)]
    pointer = "?" if len(parts) < len(info.types) else ""
    return pointer + (_UNIONS.get(tuple(map(type, parts))) or _code(types, parts[0], version))
