"""What the API server would make of a new object, and what it would say to it, without a server."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from moorage.api.decode import DecodeError
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.features import Gates
from moorage.registry import schema
from moorage.registry.judge import judge
from moorage.registry.metadata import MetadataError
from moorage.registry.prepare import prepare_create
from moorage.registry.schema import ShapeError
from moorage.registry.state import AbsentObject, Denied, State
from moorage.registry.table import strategy_of

_NOW, _UID = "1970-01-01T00:00:00Z", "00000000-0000-0000-0000-000000000000"


class ObjectRefusal(NamedTuple):
    """One reason for which an object is refused: the path of the field, empty when there is none, and the words."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class Trial(NamedTuple):
    """What would become of a new object."""

    stored: Data | None
    """What would be stored; None when it is refused."""
    refusals: list[ObjectRefusal]
    unreadable: ObjectRefusal | None = None
    """A field that holds a value of a wrong type, for which the object is refused before it is looked at."""
    unknown: tuple[str, ...] = ()
    """The paths of fields that the kind does not have."""


def try_create(kind: Kind, sent: Data, state: State, gates: Gates, uid: str = _UID) -> Trial:
    """Create an object in thought, as an administrator, beside the objects of a state. `sent` stays as it is."""
    strategy, data = strategy_of(kind), msgspec.to_builtins(sent)
    if kind.upgrade is not None and data.get("apiVersion") != kind.api_version:
        data = kind.upgrade(data)
    data = strategy.stored_form(data)
    unknown: tuple[str, ...] = ()
    try:
        unknown = tuple(schema.read(kind, data))
        metadata = data.setdefault("metadata", {})
        namespace = metadata.get("namespace") or "default" if kind.namespaced else ""
        prepare_create(strategy, data, namespace, state, _NOW, uid)
        strategy.generate(data)
        errors, _ = judge(strategy, data, None, state, gates, advise=False)
    except (ShapeError, DecodeError) as error:
        return Trial(None, [], ObjectRefusal(error.path, error.message))
    except (MetadataError, Denied, AbsentObject) as error:
        return Trial(None, [ObjectRefusal("", str(error))], unknown=unknown)
    refusals = [ObjectRefusal(error.field, error.body) for error in errors]
    return Trial(None if refusals else data, refusals, unknown=unknown)
