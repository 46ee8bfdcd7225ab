"""Optional values: `optional.of`, `.?field`, `[?index]`, `orValue` and the macros that map over them."""

from __future__ import annotations

from typing import Any

from moorage.cel import types, values
from moorage.cel.ast import Expr, Ident
from moorage.cel.errors import EvalError
from moorage.cel.library import Function, Library, Overload
from moorage.cel.stdlib.operators import index_list, index_map, whole
from moorage.cel.syntax.macros import Expander, Macro, MacroError
from moorage.cel.types import BOOL, DYN, INT, STRING
from moorage.cel.values import NONE, Optional

_K, _V = types.param("K"), types.param("V")
_LIST, _MAP, _OPTIONAL = types.list_of(_V), types.map_of(_K, _V), types.optional_of(_V)


def find_in_list(elements: list[Any], index: Any) -> Optional:
    """The element at an index, if there is one."""
    position = whole(index)
    if position is None:
        return Optional(index_list(elements, index))
    return Optional(elements[position]) if 0 <= position < len(elements) else NONE


def find_in_map(mapping: dict[Any, Any], key: Any) -> Optional:
    """The value of a key, if the map has it."""
    held = values.to_key(key)
    return Optional(mapping[held]) if held in mapping else NONE


def find(container: Any, key: Any) -> Optional:
    """What is at an index or key, if anything is, in a container that may itself be optional."""
    if isinstance(container, Optional):
        return find(container.value, key) if container.present else NONE
    if isinstance(container, dict):
        return find_in_map(container, key)
    if isinstance(container, list | tuple):
        return find_in_list(container, key)  # type: ignore[arg-type]
    raise EvalError("no such overload")


def lookup(container: Any, key: Any) -> Any:
    """What is at an index or key; an error when nothing is, except in an optional."""
    if isinstance(container, Optional):
        return find(container, key)
    if isinstance(container, dict):
        return index_map(container, key)
    if isinstance(container, list | tuple):
        return index_list(container, key)
    raise EvalError("no such overload")


def _of_non_zero(value: Any) -> Optional:
    return NONE if values.is_zero(value) else Optional(value)


def _unwrap(elements: list[Any]) -> list[Any]:
    for element in elements:
        if not isinstance(element, Optional):
            raise EvalError(f"value {element} is not optional")
    return [element.value for element in elements if element.present]


def _or(first: Optional, second: Any) -> Any:
    return first if first.present else second


def _or_value(first: Optional, second: Any) -> Any:
    return first.value if first.present else second


def _opt_map(make: Expander, target: Any, args: list[Expr]) -> Expr:
    mapped = make.call("optional.of", _bound(make, target, args, "optMap"))
    return make.call("_?_:_", make.method("hasValue", target), mapped, make.call("optional.none"))


def _opt_flat_map(make: Expander, target: Any, args: list[Expr]) -> Expr:
    mapped = _bound(make, target, args, "optFlatMap")
    return make.call("_?_:_", make.method("hasValue", target), mapped, make.call("optional.none"))


def _bound(make: Expander, target: Any, args: list[Expr], macro: str) -> Expr:
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].offset, f"{macro}() variable name must be a simple identifier")
    return make.let(args[0].name, make.method("value", make.copy(target)), args[1])


OPTIONALS = Library(
    "optional",
    functions=(
        Function("optional.of", (Overload("optional_of", (_V,), _OPTIONAL, Optional),)),
        Function("optional.ofNonZeroValue", (Overload("optional_ofNonZeroValue", (_V,), _OPTIONAL, _of_non_zero),)),
        Function("optional.none", (Overload("optional_none", (), _OPTIONAL, lambda: NONE),)),
        Function("value", (Overload("optional_value", (_OPTIONAL,), _V, lambda held: held.value, method=True),)),
        Function(
            "hasValue", (Overload("optional_hasValue", (_OPTIONAL,), BOOL, lambda held: held.present, method=True),)
        ),
        Function("or", (Overload("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, _or, method=True),)),
        Function("orValue", (Overload("optional_orValue_value", (_OPTIONAL, _V), _V, _or_value, method=True),)),
        Function("_?._", (Overload("select_optional_field", (DYN, STRING), _OPTIONAL, find),)),
        Function(
            "_[?_]",
            (
                Overload("list_optindex_optional_int", (_LIST, INT), _OPTIONAL, find_in_list),
                Overload("optional_list_optindex_optional_int", (types.optional_of(_LIST), INT), _OPTIONAL, find),
                Overload("map_optindex_optional_value", (_MAP, _K), _OPTIONAL, find_in_map),
                Overload("optional_map_optindex_optional_value", (types.optional_of(_MAP), _K), _OPTIONAL, find),
            ),
        ),
        Function(
            "_[_]",
            (
                Overload("optional_list_index_int", (types.optional_of(_LIST), INT), _OPTIONAL, find),
                Overload("optional_map_index_value", (types.optional_of(_MAP), _K), _OPTIONAL, find),
            ),
        ),
        Function("last", (Overload("list_last", (_LIST,), _OPTIONAL, lambda held: _end(held, -1), method=True),)),
        Function("first", (Overload("list_first", (_LIST,), _OPTIONAL, lambda held: _end(held, 0), method=True),)),
        Function("optional.unwrap", (Overload("optional_unwrap", (types.list_of(_OPTIONAL),), _LIST, _unwrap),)),
        Function(
            "unwrapOpt", (Overload("optional_unwrapOpt", (types.list_of(_OPTIONAL),), _LIST, _unwrap, method=True),)
        ),
    ),
    macros=(Macro("optMap", 2, _opt_map), Macro("optFlatMap", 2, _opt_flat_map)),
    types={"optional_type": values.OPTIONAL},
)


def _end(elements: list[Any], index: int) -> Optional:
    return Optional(elements[index]) if elements else NONE
