"""String functions of cel-go: positions, pieces, case, quoting and `format`. Positions count characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from moorage.cel.ast import Call, Expr, ListLiteral, Literal
from moorage.cel.cost.sizes import TRAVERSAL, add_sizes, multiply, product, scale, scaled, total
from moorage.cel.errors import EvalError
from moorage.cel.ext import costs, formatting
from moorage.cel.ext.declare import Costing, function, method, plain
from moorage.cel.library import CallCost, Function, Library, Operand, Size
from moorage.cel.types import DYN, INT, STRING, Type, list_of
from moorage.gotext import SPACE

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_UPPER = str.maketrans(ascii_lowercase, ascii_uppercase)
_QUOTED = str.maketrans(
    {
        "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
        "\\": "\\\\", '"': '\\"',
    }
)  # fmt: skip


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvalError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise EvalError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


def _last_index_of_from(text: str, part: str, start: int) -> int:
    if not part:
        return start
    if start < 0:
        raise EvalError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _lower(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_LOWER)


def _upper(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_UPPER)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if 0 < limit < len(text):
        return [*text[: limit - 1], text[limit - 1 :]]
    return [*text]


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise EvalError(f"index out of range: {start}")
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvalError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise EvalError(f"index out of range: {start}")
    if end > len(text):
        raise EvalError(f"index out of range: {end}")
    return text[start:end]


def _join(texts: Sequence[Any], separator: str = "") -> str:
    try:
        return separator.join(texts)
    except TypeError:
        wrong = next(text for text in texts if not isinstance(text, str))
        raise EvalError(f"join: invalid input: {wrong!r}") from None


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


def _replace_estimate(operands: list[Operand]) -> CallCost:
    text, old, new = (operand.size for operand in operands[:3])
    most = _replaced(text.max, old.min, new.max, shorter=False)
    least = _replaced(text.min, old.max, new.min, shorter=True)
    return CallCost(scale(text, 2 * TRAVERSAL), Size(least, most))


def _replaced(text: int, old: int, new: int, shorter: bool) -> int:
    """The length of a text after `new` characters have replaced `old` ones, where it gets longer or shorter by it."""
    if old == 0:
        # Something is put around every character.
        return total(product(total(text, 1), new), text)
    if new >= old if shorter else new <= old:
        return text
    return product(-(-text // old), new)


def _split_estimate(operands: list[Operand]) -> CallCost:
    text = operands[0].size
    most = costs.pieces(text)
    if len(operands) == 3 and isinstance(operands[2].expr, Literal) and operands[2].expr.value >= 0:
        most = operands[2].expr.value
    return CallCost(scale(text, 2 * TRAVERSAL), Size(0, most), costs.up_to_first(operands))


def _join_estimate(operands: list[Operand]) -> CallCost:
    count, text = operands[0].size, operands[0].element
    size = Size(*multiply(count, scale(text, 1)))
    if len(operands) == 2:
        gaps = Size(max(count.min - 1, 0), max(count.max - 1, 0))
        size = add_sizes(size, Size(*multiply(gaps, scale(operands[1].size, 1))))
    # Upstream estimates half of what it then charges.
    return CallCost(scale(size, 2 * TRAVERSAL), size)


def _quoted_size(operands: list[Operand]) -> Size:
    size = operands[0].size
    return Size(total(size.min, 2), total(product(size.max, 2), 2))


def _check_format(dialect: formatting.Dialect, call: Call, types: dict[int, Type]) -> tuple[Expr, str] | None:
    """A constant template must fit the arguments that are written beside it."""
    if not isinstance(call.target, Literal) or not isinstance(call.args[0], ListLiteral):
        return None
    problem = formatting.problem(dialect, call.target.value, call.args[0].elements, types)
    return problem and (problem[0] or call, problem[1])


_FIRST = costs.traversal(size=costs.first)
_SEARCH = Costing(
    lambda operands: CallCost(scale(operands[0].size, TRAVERSAL)), lambda args, _: int(len(args[0]) * TRAVERSAL)
)
_REPLACE = Costing(_replace_estimate, lambda args, _: scaled(2 * len(args[0]), TRAVERSAL))
_SPLIT = Costing(_split_estimate, lambda args, _: scaled(2 * len(args[0]), TRAVERSAL))
_JOIN = Costing(_join_estimate, lambda _, result: scaled(2 * len(result), TRAVERSAL))
_TEXTS = list_of(STRING)


_FUNCTIONS = (
    function(
        "charAt",
        method("string_char_at_int", (STRING, INT), STRING, _char_at, costs.sized(lambda _: Size(0, 1))),
    ),
    function(
        "indexOf",
        method("string_index_of_string", (STRING, STRING), INT, _index_of, _SEARCH),
        method("string_index_of_string_int", (STRING, STRING, INT), INT, _index_of, _SEARCH),
    ),
    function(
        "lastIndexOf",
        method("string_last_index_of_string", (STRING, STRING), INT, _last_index_of, _SEARCH),
        method("string_last_index_of_string_int", (STRING, STRING, INT), INT, _last_index_of_from, _SEARCH),
    ),
    function("lowerAscii", method("string_lower_ascii", (STRING,), STRING, _lower, _FIRST)),
    function("upperAscii", method("string_upper_ascii", (STRING,), STRING, _upper, _FIRST)),
    function(
        "replace",
        method("string_replace_string_string", (STRING, STRING, STRING), STRING, str.replace, _REPLACE),
        method("string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, str.replace, _REPLACE),
    ),
    function(
        "split",
        method("string_split_string", (STRING, STRING), _TEXTS, _split, _SPLIT),
        method("string_split_string_int", (STRING, STRING, INT), _TEXTS, _split, _SPLIT),
    ),
    function(
        "substring",
        method("string_substring_int", (STRING, INT), STRING, _substring, _FIRST),
        method("string_substring_int_int", (STRING, INT, INT), STRING, _substring_range, _FIRST),
    ),
    function("trim", method("string_trim", (STRING,), STRING, lambda text: text.strip(SPACE), _FIRST)),
    function(
        "join",
        method("list_join", (_TEXTS,), STRING, _join, _JOIN),
        method("list_join_string", (_TEXTS, STRING), STRING, _join, _JOIN),
    ),
    function("strings.quote", plain("strings_quote", (STRING,), STRING, _quote, costs.traversal(size=_quoted_size))),
)
_REVERSE = function(
    "reverse", method("string_reverse", (STRING,), STRING, lambda text: text[::-1], costs.sized(costs.first))
)


def _library(dialect: formatting.Dialect, *more: Function) -> Library:
    template = method(
        "string_format",
        (STRING, list_of(DYN)),
        STRING,
        partial(formatting.formatted, dialect),
        costs.traversal(),
        check=partial(_check_format, dialect),
    )
    return Library("cel.lib.ext.strings", (*_FUNCTIONS, function("format", template), *more))


LIBRARY = _library(formatting.LOCALIZED)
"""Version 2, which Kubernetes has."""

LATEST = _library(formatting.PLAIN, _REVERSE)
"""Version 4, which the CEL specification describes: `reverse`, and `format` without a locale."""
