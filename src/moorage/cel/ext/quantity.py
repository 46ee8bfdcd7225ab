"""Resource quantities: `quantity`, `isQuantity`, arithmetic and comparison."""

from __future__ import annotations

from collections.abc import Callable

from moorage.cel.errors import EvalError
from moorage.cel.ext import costs
from moorage.cel.ext.declare import function, method, plain
from moorage.cel.library import Library
from moorage.cel.types import BOOL, DOUBLE, INT, STRING, opaque
from moorage.cel.values import register
from moorage.quantity import Format, Quantity, QuantityError

QUANTITY_TYPE = opaque("kubernetes.Quantity")


def _quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise EvalError(str(error)) from None


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _as_integer(quantity: Quantity) -> int:
    try:
        return quantity.as_integer()
    except QuantityError as error:
        raise EvalError(str(error)) from None


def _with_int(
    combine: Callable[[Quantity, Quantity], Quantity],
) -> Callable[[Quantity, int], Quantity]:
    return lambda quantity, number: combine(quantity, Quantity.integer(number, Format.DECIMAL_EXPONENT))


register(Quantity, QUANTITY_TYPE)

_PARSING = costs.traversal()
_ONE, _TWO, _WITH_INT = (QUANTITY_TYPE,), (QUANTITY_TYPE, QUANTITY_TYPE), (QUANTITY_TYPE, INT)

LIBRARY = Library(
    "kubernetes.quantity",
    (
        function("quantity", plain("string_to_quantity", (STRING,), QUANTITY_TYPE, _quantity, _PARSING)),
        function("isQuantity", plain("is_quantity_string", (STRING,), BOOL, _is_quantity, _PARSING)),
        function("sign", plain("quantity_sign", _ONE, INT, Quantity.sign)),
        function("isGreaterThan", method("quantity_is_greater_than", _TWO, BOOL, lambda a, b: a > b)),
        function("isLessThan", method("quantity_is_less_than", _TWO, BOOL, lambda a, b: a < b)),
        function("compareTo", method("quantity_compare_to", _TWO, INT, Quantity.compare)),
        function("asApproximateFloat", method("quantity_get_float", _ONE, DOUBLE, Quantity.as_approximate_float)),
        function("asInteger", method("quantity_get_int", _ONE, INT, _as_integer)),
        function("isInteger", method("quantity_is_integer", _ONE, BOOL, Quantity.is_integer)),
        function(
            "add",
            method("quantity_add", _TWO, QUANTITY_TYPE, Quantity.__add__),
            method("quantity_add_int", _WITH_INT, QUANTITY_TYPE, _with_int(Quantity.__add__)),
        ),
        function(
            "sub",
            method("quantity_sub", _TWO, QUANTITY_TYPE, Quantity.__sub__),
            method("quantity_sub_int", _WITH_INT, QUANTITY_TYPE, _with_int(Quantity.__sub__)),
        ),
    ),
)
