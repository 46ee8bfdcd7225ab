"""Python operations that do what an overload does, when the types of its operands are certain."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Protocol

from moorage.cel.ast import Call, Expr, ListLiteral, Literal
from moorage.cel.codegen import pyast
from moorage.cel.codegen.pyast import LOAD, attribute, call, constant
from moorage.cel.stdlib import operators
from moorage.cel.types import Type, TypeKind


class Emitter(Protocol):
    """What a shortcut needs of the generator: the operands' types and their code."""

    @property
    def types(self) -> dict[int, Type]:
        """The types of all nodes, by node id."""

    def types_of(self, operands: list[Expr]) -> list[Type]:
        """The types of nodes."""

    def emit(self, expr: Expr) -> ast.expr:
        """The Python expression for a node."""

    def hold(self, value: Any) -> ast.expr:
        """A value that generated code reads as a global."""


Shortcut = Callable[[Emitter, list[Expr]], ast.expr | None]
"""The Python expression, or None when these operands need the overload's implementation."""

_PLAIN = frozenset(
    (TypeKind.BOOL, TypeKind.INT, TypeKind.UINT, TypeKind.STRING, TypeKind.BYTES, TypeKind.TIMESTAMP, TypeKind.DURATION)
)
_KEYS = frozenset((TypeKind.STRING, TypeKind.INT, TypeKind.UINT))
_LAST_CHARACTER = chr(0x10FFFF)


def _same(kind: Type) -> bool:
    """Whether Python's equality is CEL's. Lists may be tuples, and NaN in a container would equal itself."""
    if kind.kind is TypeKind.MAP:
        return kind.params[0].kind in _KEYS and kind.params[1].kind in _PLAIN
    return kind.kind in _PLAIN or kind.kind is TypeKind.DOUBLE


def _equality(operator: type[ast.cmpop]) -> Shortcut:
    def emit(emitter: Emitter, operands: list[Expr]) -> ast.expr | None:
        first, second = emitter.types_of(operands)
        if first != second or not _same(first):
            return None
        return pyast.compare(emitter.emit(operands[0]), operator(), emitter.emit(operands[1]))

    return emit


def _comparison(operator: type[ast.cmpop]) -> Shortcut:
    def emit(emitter: Emitter, operands: list[Expr]) -> ast.expr | None:
        return pyast.compare(emitter.emit(operands[0]), operator(), emitter.emit(operands[1]))

    return emit


def _arithmetic(operator: type[ast.operator], check: Callable[[int], int] | None = None) -> Shortcut:
    def emit(emitter: Emitter, operands: list[Expr]) -> ast.expr:
        result = pyast.BinOp(emitter.emit(operands[0]), operator(), emitter.emit(operands[1]))
        return result if check is None else call(emitter.hold(check), result)

    return emit


def _method(attr: str) -> Shortcut:
    def emit(emitter: Emitter, operands: list[Expr]) -> ast.expr:
        return call(attribute(emitter.emit(operands[0]), attr), emitter.emit(operands[1]))

    return emit


def _starts_with(emitter: Emitter, operands: list[Expr]) -> ast.expr:
    text, prefix = operands
    if not isinstance(prefix, Literal) or not prefix.value or prefix.value[-1] == _LAST_CHARACTER:
        return call(attribute(emitter.emit(text), "startswith"), emitter.emit(prefix))
    # Two comparisons take half the time of a method call: what starts with "ab" lies between "ab" and "ac".
    after = prefix.value[:-1] + chr(ord(prefix.value[-1]) + 1)
    return pyast.half_open(constant(prefix.value), emitter.emit(text), constant(after))


def _identity(emitter: Emitter, operands: list[Expr]) -> ast.expr:
    return emitter.emit(operands[0])


def _not(emitter: Emitter, operands: list[Expr]) -> ast.expr:
    return pyast.UnaryOp(ast.Not(), emitter.emit(operands[0]))


def _contains(emitter: Emitter, operands: list[Expr]) -> ast.expr:
    return pyast.compare(emitter.emit(operands[1]), ast.In(), emitter.emit(operands[0]))


def _concatenation(emitter: Emitter, operands: list[Expr]) -> ast.expr:
    both = [pyast.Starred(emitter.emit(operand), LOAD) for operand in operands]
    return pyast.List([*both], LOAD)


def _index_map(emitter: Emitter, operands: list[Expr]) -> ast.expr | None:
    mapping, key = emitter.types_of(operands)
    if mapping.params[0].kind not in _KEYS or key.kind not in _KEYS:
        return None
    return pyast.Subscript(emitter.emit(operands[0]), emitter.emit(operands[1]), LOAD)


def _index_list(emitter: Emitter, operands: list[Expr]) -> ast.expr | None:
    index = operands[1]
    if not isinstance(index, Literal) or index.value < 0:
        return None
    return pyast.Subscript(emitter.emit(operands[0]), constant(index.value), LOAD)


def _in_map(emitter: Emitter, operands: list[Expr]) -> ast.expr | None:
    key, mapping = emitter.types_of(operands)
    if mapping.params[0].kind not in _KEYS or key.kind not in _KEYS:
        return None
    return pyast.compare(emitter.emit(operands[0]), ast.In(), emitter.emit(operands[1]))


def _in_list(emitter: Emitter, operands: list[Expr]) -> ast.expr | None:
    value, container = emitter.types_of(operands)
    if value.kind not in _PLAIN or container.params[0] != value:
        return None
    elements = operands[1]
    constants = elements.elements if isinstance(elements, ListLiteral) and not elements.optional else [elements]
    known = [element.value for element in constants if isinstance(element, Literal)]
    haystack = emitter.hold(frozenset(known)) if len(known) == len(constants) else emitter.emit(elements)
    return pyast.compare(emitter.emit(operands[0]), ast.In(), haystack)


def _size(emitter: Emitter, operands: list[Expr]) -> ast.expr:
    return call(emitter.hold(len), emitter.emit(operands[0]))


def _has_value(emitter: Emitter, operands: list[Expr]) -> ast.expr:
    return attribute(emitter.emit(operands[0]), "present")


def _value(emitter: Emitter, operands: list[Expr]) -> ast.expr:
    return attribute(emitter.emit(operands[0]), "value")


def lookup_with_default(emitter: Emitter, target: Expr, default: Expr) -> ast.expr | None:
    """`map[?key].orValue(constant)` as one look-up."""
    if not isinstance(target, Call) or target.function != "_[?_]" or not isinstance(default, Literal):
        return None
    mapping, key = target.args
    kind = emitter.types[mapping.id]
    if kind.kind is not TypeKind.MAP or kind.params[0].kind not in _KEYS or emitter.types[key.id].kind not in _KEYS:
        return None
    return call(attribute(emitter.emit(mapping), "get"), emitter.emit(key), emitter.emit(default))


# Doubles are not here: their order refuses NaN.
_ORDERED = (
    "bool", "int64", "uint64", "string", "bytes", "timestamp", "duration", "int64_uint64", "uint64_int64",
)  # fmt: skip
_ORDERS: dict[str, type[ast.cmpop]] = {
    "less": ast.Lt,
    "less_equals": ast.LtE,
    "greater": ast.Gt,
    "greater_equals": ast.GtE,
}

SHORTCUTS: dict[str, Shortcut] = {
    "equals": _equality(ast.Eq),
    "not_equals": _equality(ast.NotEq),
    **{f"{order}_{kind}": _comparison(operator) for order, operator in _ORDERS.items() for kind in _ORDERED},
    "logical_not": _not,
    "add_string": _arithmetic(ast.Add),
    "add_bytes": _arithmetic(ast.Add),
    "add_double": _arithmetic(ast.Add),
    "add_int64": _arithmetic(ast.Add, operators.int_range),
    "add_uint64": _arithmetic(ast.Add, operators.uint_range),
    "add_list": _concatenation,
    "subtract_double": _arithmetic(ast.Sub),
    "subtract_int64": _arithmetic(ast.Sub, operators.int_range),
    "subtract_uint64": _arithmetic(ast.Sub, operators.uint_range),
    "multiply_double": _arithmetic(ast.Mult),
    "multiply_int64": _arithmetic(ast.Mult, operators.int_range),
    "multiply_uint64": _arithmetic(ast.Mult, operators.uint_range),
    "index_list": _index_list,
    "index_map": _index_map,
    "in_list": _in_list,
    "in_map": _in_map,
    "starts_with_string": _starts_with,
    "ends_with_string": _method("endswith"),
    "contains_string": _contains,
    **dict.fromkeys(("size_string", "size_bytes", "size_list", "size_map"), _size),
    **dict.fromkeys(("string_size", "bytes_size", "list_size", "map_size"), _size),
    **dict.fromkeys(
        (
            "to_dyn", "bool_to_bool", "bytes_to_bytes", "double_to_double", "duration_to_duration", "int64_to_int64",
            "string_to_string", "timestamp_to_timestamp", "uint64_to_uint64",
        ),
        _identity,
    ),
    "optional_hasValue": _has_value,
    "optional_value": _value,
}  # fmt: skip
