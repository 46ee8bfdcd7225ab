"""Environments: which libraries, variables and object types an expression may use, and how strictly it is checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moorage.cel import types
from moorage.cel.checker import Checked, check
from moorage.cel.errors import Source
from moorage.cel.ext import cidr, format, ip, k8s_lists, lists, quantity, regex, semver, sets, strings, urls  # noqa: A004
from moorage.cel.library import Library, Overload
from moorage.cel.macros import Macro
from moorage.cel.operators import CROSS_TYPE
from moorage.cel.optionals import OPTIONALS
from moorage.cel.parser import MacroKey, parse
from moorage.cel.program import Program, on_enough_stack
from moorage.cel.sizes import Hints
from moorage.cel.stdlib import STDLIB, TWO_VARIABLE_COMPREHENSIONS
from moorage.cel.types import Type
from moorage.cel.unify import has_variables


class Field(NamedTuple):
    """A field of an object type: its type, the attribute that holds it, and whether that may be None for absent."""

    type: Type
    attribute: str
    optional: bool = False


Candidate = tuple[Overload, bool]
"""An overload, and whether type parameters occur in its signature."""


class Env:
    """What expressions are compiled against.

    Values are passed to a program in the order of `variables`. An object is read by attributes: `objects` says which
    attribute holds which field.
    """

    def __init__(
        self,
        libraries: Iterable[Library] = (),
        variables: Mapping[str, Type] | None = None,
        objects: Mapping[str, Mapping[str, Field]] | None = None,
        *,
        container: str = "",
        homogeneous_literals: bool = False,
        cross_type_comparison: bool = False,
        validate_literals: bool = False,
        sizes: Hints | None = None,
    ) -> None:
        self.variables: dict[str, Type] = dict(variables or {})
        self.fields: dict[str, dict[str, Field]] = {name: dict(fields) for name, fields in (objects or {}).items()}
        self.objects: dict[str, dict[str, Type]] = {
            name: {field: declared.type for field, declared in fields.items()} for name, fields in self.fields.items()
        }
        self.container = container
        self.homogeneous_literals = homogeneous_literals
        self.cross_type_comparison = cross_type_comparison
        self.validate_literals = validate_literals
        self.sizes: Hints = sizes or {}
        self.functions: dict[str, tuple[Overload, ...]] = {}
        self.macros: dict[MacroKey, Macro] = {}
        self.type_names: dict[str, Type] = {name: types.object_of(name) for name in self.objects}
        self._candidates: dict[tuple[str, int, bool], tuple[Candidate, ...]] = {}
        self.libraries = (STDLIB, *libraries)
        for library in self.libraries:
            self._include(library)

    def _include(self, library: Library) -> None:
        self.macros.update({(macro.name, macro.args, macro.method): macro for macro in library.macros})
        self.type_names.update(library.types)
        for function in library.functions:
            allowed = [one for one in function.overloads if self.cross_type_comparison or one.id not in CROSS_TYPE]
            self.functions[function.name] = (*self.functions.get(function.name, ()), *allowed)
            for overload in allowed:
                key = (function.name, len(overload.args), overload.method)
                generic = any(map(has_variables, (*overload.args, overload.result)))
                self._candidates[key] = (*self._candidates.get(key, ()), (overload, generic))

    def candidates(self, function: str, args: int, *, method: bool) -> tuple[Candidate, ...]:
        """The overloads that take this many arguments, the receiver included."""
        return self._candidates.get((function, args, method), ())

    def resolve(self, name: str) -> tuple[str, Type] | None:
        """The full name and type of a variable, or of a type."""
        for candidate in self._names(name):
            if candidate in self.variables:
                return candidate, self.variables[candidate]
            if candidate in self.type_names:
                return candidate, types.type_of(self.type_names[candidate])
        return None

    def resolve_type(self, name: str) -> Type | None:
        """The type of a name."""
        return next((self.type_names[full] for full in self._names(name) if full in self.type_names), None)

    def function(self, name: str) -> str | None:
        """The full name of a function."""
        return next((full for full in self._names(name) if full in self.functions), None)

    def _names(self, name: str) -> tuple[str, ...]:
        """What a name can mean: in the container first, then in what is around it."""
        if name.startswith("."):
            return (name[1:],)
        if not self.container:
            return (name,)
        parts = self.container.split(".")
        return (*(".".join((*parts[:size], name)) for size in range(len(parts), 0, -1)), name)

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
    variables: Mapping[str, Type],
    objects: Mapping[str, Mapping[str, Field]],
    *,
    sizes: Hints | None = None,
    more: Iterable[Library] = (),
) -> Env:
    """An environment with the libraries and settings of Kubernetes 1.36, and with those that only some places have."""
    return Env(
        (*KUBERNETES, *more),
        variables,
        objects,
        homogeneous_literals=True,
        cross_type_comparison=True,
        validate_literals=True,
        sizes=sizes,
    )
