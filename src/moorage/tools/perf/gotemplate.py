"""As much of Go's text/template as workload files use: fields, variables, if, range, pipelines and arithmetic."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any, NamedTuple

_ACTION = re.compile(r"\{\{(?P<before>-\s)?\s*(?P<body>.*?)\s*(?P<after>\s-)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:\\.|[^"\\])*")|(?P<raw>`[^`]*`)|(?P<number>-?\d+(?:\.\d+)?)'
    r"|(?P<path>\$?\w*(?:\.\w+)+|\$\w*|\.)|(?P<word>\w+)|(?P<sign>:=|[()|=]))\s*"
)
_WORDS = {"true": True, "false": False, "nil": None}


class TemplateError(ValueError):
    """A template that cannot be read or filled in; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Scope(NamedTuple):
    """The dot and the variables that an action sees."""

    dot: Any
    variables: dict[str, Any]


_Value = Callable[[_Scope], Any]
_Part = Callable[[_Scope], str]


class Template:
    """A text with actions in {{ }}. Raises TemplateError."""

    def __init__(self, text: str) -> None:
        self.is_plain = "{{" not in text
        self._text = text
        self._parts, end = _Reader(text).block()
        if end is not None:
            raise TemplateError(f"unexpected {{{{{end.body}}}}}", end.line)

    def render(self, values: Mapping[str, Any]) -> str:
        """The text with its actions evaluated for some values."""
        if self.is_plain:
            return self._text
        return _joined(self._parts, _Scope(values, {"$": values}))


def _joined(parts: list[_Part], scope: _Scope) -> str:
    return "".join([part(scope) for part in parts])


class _Action(NamedTuple):
    body: str
    line: int


class _Reader:
    """Turns the pieces of a text into functions, block by block."""

    def __init__(self, text: str) -> None:
        self._pieces = _pieces(text)

    def block(self) -> tuple[list[_Part], _Action | None]:
        """The parts up to an {{end}} or {{else}} that closes them, and that action."""
        parts: list[_Part] = []
        for piece in self._pieces:
            if isinstance(piece, str):
                parts.append(_constant(piece))
                continue
            word, _, rest = piece.body.partition(" ")
            if word in ("end", "else"):
                return parts, piece
            if word in ("if", "range"):
                parts.append(self._compound(word, rest, piece))
            elif not piece.body.startswith("/*"):
                parts.append(_simple(piece))
        return parts, None

    def _compound(self, word: str, rest: str, action: _Action) -> _Part:
        inside, end = self.block()
        otherwise: list[_Part] = []
        if end is not None and end.body.startswith("else if "):
            otherwise, end = [self._compound("if", end.body.removeprefix("else if "), end)], _Action("end", end.line)
        elif end is not None and end.body == "else":
            otherwise, end = self.block()
        if end is None or end.body != "end":
            raise TemplateError(f"{{{{{action.body}}}}} has no {{{{end}}}}", action.line)
        if word == "range":
            return _range(rest, inside, otherwise, action)
        condition = _pipeline(rest, action)
        return lambda scope: _joined(inside if condition(scope) else otherwise, scope)


def _pieces(text: str) -> Iterator[str | _Action]:
    at, trim = 0, False
    for match in _ACTION.finditer(text):
        before = text[at : match.start()]
        before = before.lstrip() if trim else before
        yield before.rstrip() if match["before"] else before
        yield _Action(match["body"], text.count("\n", 0, match.start()) + 1)
        at, trim = match.end(), bool(match["after"])
    yield text[at:].lstrip() if trim else text[at:]


def _simple(action: _Action) -> _Part:
    name, assigned, rest = action.body.partition(":=")
    if not assigned:
        value = _pipeline(action.body, action)
        return lambda scope: _shown(value(scope))
    value, name = _pipeline(rest, action), name.strip()

    def assign(scope: _Scope) -> str:
        scope.variables[name] = value(scope)
        return ""

    return assign


def _range(rest: str, inside: list[_Part], otherwise: list[_Part], action: _Action) -> _Part:
    name, assigned, values = rest.rpartition(":=")
    pipeline, name = _pipeline(values if assigned else rest, action), name.strip()

    def repeat(scope: _Scope) -> str:
        over = pipeline(scope)
        rounds = [
            _joined(inside, _Scope(each, scope.variables | ({name: each} if name else {})))
            for each in (range(over) if isinstance(over, int) else over or ())
        ]
        return "".join(rounds) if rounds else _joined(otherwise, scope)

    return repeat


def _pipeline(text: str, action: _Action) -> _Value:
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise TemplateError(f"{{{{{action.body}}}}} cannot be read", action.line)
        kind = str(match.lastgroup)
        tokens.append((kind, match[kind]))
        at = match.end()
    tokens.reverse()
    value = _commands(tokens, action)
    if tokens:
        raise TemplateError(f"unexpected {tokens[-1][1]} in {{{{{action.body}}}}}", action.line)
    return value


def _commands(tokens: list[tuple[str, str]], action: _Action) -> _Value:
    value = _command(tokens, action, None)
    while tokens and tokens[-1][1] == "|":
        tokens.pop()
        value = _command(tokens, action, value)
    return value


def _command(tokens: list[tuple[str, str]], action: _Action, piped: _Value | None) -> _Value:
    if not tokens:
        raise TemplateError(f"a value is missing in {{{{{action.body}}}}}", action.line)
    kind, word = tokens[-1]
    if kind != "word" or word in _WORDS:
        return _operand(tokens, action)
    tokens.pop()
    if word not in _FUNCTIONS:
        raise TemplateError(f"unknown function {word}: there are {', '.join(_FUNCTIONS)}", action.line)
    function = _FUNCTIONS[word]
    arguments: list[_Value] = []
    while tokens and tokens[-1][1] not in ("|", ")"):
        arguments.append(_operand(tokens, action))
    if piped is not None:
        arguments.append(piped)

    def call(scope: _Scope) -> Any:
        try:
            return function(*(argument(scope) for argument in arguments))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise TemplateError(f"{{{{{action.body}}}}}: {word}: {error}", action.line) from None

    return call


def _operand(tokens: list[tuple[str, str]], action: _Action) -> _Value:
    kind, word = tokens.pop()
    if word == "(":
        value = _commands(tokens, action)
        if not tokens or tokens.pop()[1] != ")":
            raise TemplateError(f"a ) is missing in {{{{{action.body}}}}}", action.line)
        return value
    if kind == "path":
        return _path(word)
    if kind in ("text", "raw", "number"):
        return _constant(word[1:-1] if kind == "raw" else json.loads(word))
    if word in _WORDS:
        return _constant(_WORDS[word])
    raise TemplateError(f"unexpected {word} in {{{{{action.body}}}}}", action.line)


def _constant(value: Any) -> _Value:
    return lambda _: value


def _path(word: str) -> _Value:
    first, *fields = word.split(".")
    fields = [each for each in fields if each]

    def value(scope: _Scope) -> Any:
        current = scope.variables.get(first) if first else scope.dot
        for field in fields:
            current = current.get(field) if isinstance(current, Mapping) else None
        return current

    return value


def _shown(value: Any) -> str:
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _whole(function: Callable[..., float]) -> Callable[..., int]:
    return lambda *numbers: int(function(*numbers))


def _sum(*numbers: Any) -> float:
    return sum(map(float, numbers))


def _product(*numbers: Any) -> float:
    return reduce(operator.mul, map(float, numbers), 1.0)


def _difference(one: Any, other: Any) -> float:
    return float(one) - float(other)


def _quotient(one: Any, other: Any) -> float:
    return float(one) / float(other)


def _equals(one: Any, *others: Any) -> bool:
    return one in others


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "and": lambda *values: reduce(lambda one, other: one and other, values),
    "or": lambda *values: reduce(lambda one, other: one or other, values),
    "not": operator.not_,
    "eq": _equals,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "Int": lambda value: int(float(value)),
    "JSON": lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
    "Mod": lambda one, other: int(float(one)) % int(float(other)),
    "AddInt": _whole(_sum),
    "AddFloat": _sum,
    "SubtractInt": _whole(_difference),
    "SubtractFloat": _difference,
    "MultiplyInt": _whole(_product),
    "MultiplyFloat": _product,
    "DivideInt": _whole(_quotient),
    "DivideFloat": _quotient,
}
