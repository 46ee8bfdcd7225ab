"""Python's syntax nodes with a position of their own, which `compile` asks for and generated code has no use for."""

from __future__ import annotations

import ast
from typing import Any


class _Placed:
    lineno = 1
    col_offset = 0


class Name(_Placed, ast.Name):
    """A variable."""


class Constant(_Placed, ast.Constant):
    """A literal."""


class Attribute(_Placed, ast.Attribute):
    """`value.attr`."""


class Subscript(_Placed, ast.Subscript):
    """`value[slice]`."""


class _Call(_Placed, ast.Call):
    """`func(args)`."""


class BoolOp(_Placed, ast.BoolOp):
    """`and`, `or`."""


class BinOp(_Placed, ast.BinOp):
    """`+`, `-`, `*`."""


class UnaryOp(_Placed, ast.UnaryOp):
    """`not`, `-`."""


class _Compare(_Placed, ast.Compare):
    """Comparison, equality, membership, identity."""


class IfExp(_Placed, ast.IfExp):
    """`body if test else orelse`."""


class Lambda(_Placed, ast.Lambda):
    """An anonymous function."""


class List(_Placed, ast.List):
    """A list."""


class Tuple(_Placed, ast.Tuple):
    """A tuple."""


class Dict(_Placed, ast.Dict):
    """A dictionary."""


class Starred(_Placed, ast.Starred):
    """`*value`."""


class ListComp(_Placed, ast.ListComp):
    """A list comprehension."""


class DictComp(_Placed, ast.DictComp):
    """A dictionary comprehension."""


class GeneratorExp(_Placed, ast.GeneratorExp):
    """A generator expression."""


class Return(_Placed, ast.Return):
    """A return statement."""


class For(_Placed, ast.For):
    """A for statement."""


class If(_Placed, ast.If):
    """An if statement."""


class Try(_Placed, ast.Try):
    """A try statement."""


class ExceptHandler(_Placed, ast.ExceptHandler):
    """An except clause."""


class FunctionDef(_Placed, ast.FunctionDef):
    """A function."""


class Arg(_Placed, ast.arg):
    """A parameter."""


LOAD = ast.Load()
STORE = ast.Store()


def name(text: str) -> Name:
    """A variable that is read."""
    return Name(text, LOAD)


def constant(value: Any) -> Constant:
    """A literal."""
    return Constant(value)


def call(function: ast.expr, *args: ast.expr) -> ast.Call:
    """A call."""
    return _Call(function, list(args), [])


def attribute(value: ast.expr, attr: str) -> Attribute:
    """An attribute that is read."""
    return Attribute(value, attr, LOAD)


def compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.Compare:
    """A comparison."""
    return _Compare(left, [operator], [right])


def half_open(low: ast.expr, value: ast.expr, high: ast.expr) -> ast.Compare:
    """`low <= value < high`."""
    return _Compare(low, [ast.LtE(), ast.Lt()], [value, high])


def parameters(names: list[str]) -> ast.arguments:
    """Positional parameters."""
    return ast.arguments([], [Arg(param) for param in names], None, [], [], None, [])


def function(name_: str, params: list[str], body: list[ast.stmt]) -> FunctionDef:
    """A function with positional parameters."""
    return FunctionDef(name_, parameters(params), body, [])
