"""Whether the API server would take the objects of some manifests: the registry answers, as it does there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.features import Gates
from moorage.registry.state import State
from moorage.registry.table import depended_upon
from moorage.registry.trial import ObjectRefusal, Trial, try_create
from moorage.tools.cluster import ClusterObject
from moorage.validation import admission_errors

_TAKEN = Trial(None, [])


class ManifestAdmission:
    """Tries every object on a cluster that has the others of the same manifests.

    What the manifests do not hold, such as a PriorityClass that a pod names, may exist, unless they are complete: it is
    not held against anybody.
    """

    def __init__(self, items: Iterable[ClusterObject], gates: Gates, *, is_complete: bool = False) -> None:
        self._gates = gates
        self._trials: dict[int, Trial] = {}
        self._uids = 0
        self._objects: dict[str, list[Data]] = defaultdict(list)
        self._state = State(self._objects, is_complete=is_complete)
        for item in items:
            resource = kinds.of(item.object).resource
            if resource in depended_upon():
                stored = (
                    self.trial(item).stored if item.document else msgspec.json.decode(msgspec.json.encode(item.object))
                )
                if stored is not None:
                    self._objects[resource].append(stored)

    def trial(self, item: ClusterObject) -> Trial:
        """What the API server would say to an object. One that came from a running cluster was taken already.

        Of an object whose kind is not ours only what its pods would be refused for is known.
        """
        if item.document is None:
            return _TAKEN
        if item.within:
            errors = admission_errors(item.object, self._gates)
            return Trial(None, [ObjectRefusal(error.field, error.body) for error in errors])
        found = self._trials.get(id(item))
        if found is None:
            found = self._trials[id(item)] = self.created(kinds.of(item.object), item.document.data)
        return found

    def created(self, kind: Kind, data: Data) -> Trial:
        """What the API server would make of a new object, and say to it."""
        self._uids += 1
        return try_create(kind, data, self._state, self._gates, f"00000000-0000-0000-0000-{self._uids:012}")
