"""Environments: what expressions are compiled against, and the one that Kubernetes gives new expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moorage.cel.check.checker import Checked, check
from moorage.cel.check.declarations import Declarations, Field
from moorage.cel.errors import Source
from moorage.cel.ext import cidr, format, ip, k8s_lists, lists, quantity, regex, semver, sets, strings, urls  # noqa: A004
from moorage.cel.library import Function, Hints, Library
from moorage.cel.program import Program, on_enough_stack
from moorage.cel.stdlib.optionals import OPTIONALS
from moorage.cel.stdlib.standard import STDLIB, TWO_VARIABLE_COMPREHENSIONS
from moorage.cel.syntax.parser import parse
from moorage.cel.types import Type


class Env(Declarations):
    """Compiles expressions against its declarations; the standard library is always among them."""

    always = (STDLIB,)

    def check(self, text: str, *, lenient: bool = False) -> Checked:
        """Parse and type-check an expression; CompileError with everything that is wrong with it."""
        source = Source(text)
        expr = parse(source, self.macros, optional_syntax="_?._" in self.functions)
        return on_enough_stack(lambda: check(self, source, expr, lenient=lenient))

    def compile(self, text: str, *, lenient: bool = False) -> Program:
        """Check an expression and make a program of it."""
        return on_enough_stack(lambda: Program(self.check(text, lenient=lenient)))


KUBERNETES = (
    OPTIONALS,
    TWO_VARIABLE_COMPREHENSIONS,
    *(module.LIBRARY for module in (strings, sets, lists, urls, regex, k8s_lists, quantity, ip, cidr, format, semver)),
)
"""The libraries that Kubernetes 1.36 gives new expressions, and `semver.compare`."""


def kubernetes(
    variables: Mapping[str, Type] | None = None,
    objects: Mapping[str, Mapping[str, Field]] | None = None,
    *,
    functions: Iterable[Function] = (),
    sizes: Hints | None = None,
    more: Iterable[Library] = (),
) -> Env:
    """An environment with the libraries and settings of Kubernetes 1.36, one's own functions and further libraries."""
    return Env(
        (*KUBERNETES, *more, Library("own", tuple(functions))),
        variables,
        objects,
        homogeneous_literals=True,
        cross_type_comparison=True,
        validate_literals=True,
        sizes=sizes,
    )
