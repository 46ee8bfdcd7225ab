"""What a kind is: everything about its objects that other kinds do differently, in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.registry import merging, namesyntax
from moorage.registry.checks import Errors
from moorage.registry.merging import MergeShape
from moorage.registry.namesyntax import Syntax
from moorage.registry.printing import columns
from moorage.registry.printing.cells import PrintedRow
from moorage.registry.printing.columns import Columns
from moorage.registry.selectable import FieldText
from moorage.registry.state import Dependency, State
from moorage.registry.usage import COUNT, Usage

SPEC = (("spec",),)
"""The generation counts changes of the spec."""
RESET_METADATA = ("deletionTimestamp", "labels", "annotations", "finalizers", "ownerReferences")


def _nothing(*_: Any) -> None:
    """Leave the object as it is."""


def _same(obj: Data) -> Data:
    return obj


def _none(*_: Any) -> Iterator[Any]:
    return iter(())


@dataclass(frozen=True, slots=True)
class Part:
    """A sub-resource that is a part of the spec."""

    replaced: Callable[[Data, Data], Data]
    """The spec to be stored, of the new and the old one."""
    errors: Callable[[Data, Data], Errors]
    admit: Callable[[Data, Data, State], None] = _nothing
    limits: Callable[[Data, Data, State], None] = _nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How objects of one kind are filled in, judged, updated, merged, selected and printed.

    The functions change the new object at most, in place, and read nothing but their arguments. `now` is the time as
    objects spell it.
    """

    kind: Kind
    summary: str = ""
    """What the kind is, in a sentence, when it has no struct whose docstring says so."""
    names: Syntax = namesyntax.subdomain
    prefix_checked: tuple[str, ...] = ("create", "update")
    """The verbs with which `generateName` is judged by the syntax of names."""
    bare_finalizers: tuple[str, ...] = ()
    """The verbs, create and update, with which finalizers need no prefix."""

    stored_form: Callable[[Data], Data] = _same
    """An object of this kind in the spelling in which it is stored."""
    defaults: Callable[[Data, str], None] = _nothing
    """Set what an object leaves open: (object, now)."""
    depends_on: tuple[Dependency, ...] = ()
    """The other objects on which `admit`, `conflicts` and `limits` depend."""
    admit: Callable[[Data, Data | None, State], None] = _nothing
    """Set or refuse what depends on other objects: (new, old, state). Raises Denied."""
    limits: Callable[[Data, Data | None, State], None] = _nothing
    """Refuse a valid object because of other objects: (new, old, state). Raises Denied."""
    usage: Usage = COUNT
    """What an object uses of a quota."""
    own_fields: tuple[str, ...] = ()
    """The names of fields by which the rest of a new object depends on its own name, labels or identity."""

    create: Callable[[Data, str], None] = _nothing
    """Prepare a new object, whose status is empty: (object, now)."""
    generate: Callable[[Data], None] = _nothing
    """Set what the server generates for a prepared new object and no field manager owns."""
    keeps_status: bool = False
    """Whether a new object keeps the status that the client sent."""
    update: Callable[[Data, Data, str], None] = _nothing
    """Keep what an update cannot change: (new, old, now)."""
    update_status: Callable[[Data, Data, str], None] = _nothing
    """The same for an update of the status: (new status, old status, now)."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    conditional: bool = False
    """Whether an update must name the resourceVersion that it replaces."""
    first_generation: int = 0
    counted: tuple[tuple[str, ...], ...] = ()
    """The paths of fields whose changes increase the generation."""
    status_keeps: tuple[str, ...] = ()
    """Metadata that an update of the status cannot change."""
    status_owns_metadata: bool = True
    """Whether who updates the status owns the metadata that it sends."""

    errors: Callable[[Data, Data | None], Errors] = _none
    """What is wrong with a new object, or with an update: (new, old)."""
    is_frozen: bool = False
    """Whether an update cannot change the spec: what is wrong with it is told on create only."""
    conflicts: Callable[[Data, Data | None, State], Errors] = _none
    """What is wrong with an otherwise valid object because of other objects: (new, old, state)."""
    status_errors: Callable[[Data, Data], Errors] = _none
    warnings: Callable[[Data], Iterable[str]] = _none
    """What is valid in a new object but hardly intended, in the words of Kubernetes."""

    fields: Mapping[str, FieldText] | None = None
    """The fields that can be selected; None when only the name and the namespace can."""
    field_refusal: str = "field label not supported: {label}"
    """The answer to a selector by another field."""
    merge: MergeShape = merging.OBJECT
    columns: Columns = columns.PLAIN
    row_conditions: Callable[[PrintedRow], list[dict[str, str]]] = lambda _: []
    """The conditions of a row of a Table."""
