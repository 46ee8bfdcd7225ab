"""Declarations: the variables, functions, macros and types that an expression may mention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

from moorage.cel import types
from moorage.cel.check.unify import has_variables
from moorage.cel.library import Hints, Library, Overload
from moorage.cel.syntax.macros import Macro
from moorage.cel.syntax.parser import MacroKey
from moorage.cel.types import Type


class Field(NamedTuple):
    """A field of an object type: its type, the attribute that holds it, and whether that may be None for absent."""

    type: Type
    attribute: str
    optional: bool = False


Candidate = tuple[Overload, bool]
"""An overload, and whether type parameters occur in its signature."""


class Declarations:
    """What expressions may mention: variables, functions, macros and types; and how strictly they are checked.

    Values are passed to a program in the order of `variables`. An object is read by attributes: `objects` says which
    attribute holds which field.
    """

    always: ClassVar[tuple[Library, ...]] = ()
    """Libraries that are included without being named."""

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
        self.libraries = (*self.always, *libraries)
        for library in self.libraries:
            self._include(library)

    def _include(self, library: Library) -> None:
        self.macros.update({(macro.name, macro.args, macro.method): macro for macro in library.macros})
        self.type_names.update(library.types)
        for function in library.functions:
            allowed = [one for one in function.overloads if self.cross_type_comparison or not one.cross_type]
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
