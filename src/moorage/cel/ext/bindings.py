"""Names for parts of an expression: `cel.bind(name, value, body)`."""

from __future__ import annotations

from typing import Any

from moorage.cel.ast import Expr, Ident
from moorage.cel.library import Library
from moorage.cel.syntax.macros import Expander, Macro, variable


def _expand_bind(make: Expander, target: Any, args: list[Expr]) -> Expr | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name = variable(args[0], "cel.bind() variable names must be simple identifiers")
    return make.let(name, args[1], args[2])


LIBRARY = Library("cel.bindings", (), macros=(Macro("bind", 3, _expand_bind),))
