"""What every object has: type, metadata and owners; and label selectors, conditions and references."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, dataclass_transform

import msgspec

Data = dict[str, Any]
"""An object as JSON has it."""
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]
IntOrString = Int32 | str
QuantityText = str | int | float
"""A quantity as JSON has it; `Quantity.of` parses it."""
ResourceList = dict[str, QuantityText]

_ACRONYMS = {"cel": "CEL", "cidr": "CIDR", "ip": "IP", "ips": "IPs", "id": "ID", "uid": "UID"}


def wire_name(name: str) -> str:
    """The JSON spelling of a field: `match_cel_expressions` is `matchCELExpressions`."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(_ACRONYMS.get(word) or word.capitalize() for word in rest)


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Wire(msgspec.Struct, rename=wire_name, frozen=True, omit_defaults=True, gc=False):
    """A part of an object. Fields it does not know are ignored; the bytes it came from keep them.

    Objects are trees, so the garbage collector need not look at them.
    """


class OwnerReference(Wire):
    """The object that an object belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Wire):
    """Name, place and history of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Object(Wire):
    """The head of every object: any kind can be read as this."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class LabelSelectorRequirement(Wire):
    """One condition on labels: In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Wire):
    """Labels and conditions that must all match; an empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Wire):
    """One observed aspect of an object's state."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    observed_generation: Int64 = 0


class ObjectReference(Wire):
    """Any object, by kind and name."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""
