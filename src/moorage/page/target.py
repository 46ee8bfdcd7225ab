"""Where a change of a pod's rules lasts: in the template of the workload that makes it, or in the pod itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.kinds import Kind
from moorage.api.meta import Data, Object, OwnerReference
from moorage.api.pod import Pod
from moorage.client import ApiError, Client
from moorage.page.rules import rules_of, with_rules
from moorage.tools.convert import pods_of, to_native

_OWNERS = 3
"""A pod belongs to a Job, that to a CronJob; longer chains are not followed."""
_POD = kinds.row("v1", "Pod")
_ON_DELETE = "its pods get the change when they are deleted"
_BY_STRATEGY = {"OnDelete": _ON_DELETE, "Recreate": "all its pods are replaced at once"}
_CONSEQUENCES = {
    "ReplicaSet": "only new pods get the change",
    "ReplicationController": "only new pods get the change",
    "CronJob": "its next Job gets the change",
    "Job": "only a suspended Job whose pods have not begun can be changed",
}


@dataclass(frozen=True, slots=True)
class RulesTarget:
    """An object whose rules can be changed."""

    kind: Kind
    data: Data
    """As the API server has it."""
    obstacle: str = ""
    """Why a change would not last here, or cannot be made; empty when it can."""

    @property
    def name(self) -> str:
        """`Deployment default/web`."""
        metadata = self.data["metadata"]
        return f"{self.kind.kind} {metadata.get('namespace', '')}/{metadata['name']}"

    @property
    def holder(self) -> Data:
        """What holds the metadata and the specification of the pods."""
        return next(pods_of({"apiVersion": self.kind.api_version, "kind": self.kind.kind, **self.data}))

    @property
    def native(self) -> Data:
        """The same with the rules in its annotations written into the fields that they stand for. Raises RulesError."""
        return to_native({"apiVersion": self.kind.api_version, "kind": self.kind.kind, **self.data})

    def rules(self) -> Data:
        """Its rules. Raises RulesError."""
        return rules_of(next(pods_of(self.native))["spec"])

    def changed(self, rules: Data) -> Data:
        """The object with other rules, in their fields. Raises RulesError."""
        data = self.native
        holder = next(pods_of(data))
        holder["spec"] = with_rules(holder["spec"], rules)
        return data

    def typed(self, data: Data | None = None) -> Object:
        """The object, or what it would be. Raises DecodeError."""
        return convert(data or self.data, self.kind.struct)

    @property
    def consequence(self) -> str:
        """What a change leads to, said beforehand."""
        spec = self.data.get("spec") or {}
        if self.kind is not _POD:
            strategy = (spec.get("strategy") or spec.get("updateStrategy") or {}).get("type", "")
            usual = _CONSEQUENCES.get(self.kind.kind, "its pods are replaced one after the other")
            return f"Saving goes to the template of {self.name}: {_BY_STRATEGY.get(strategy, usual)}."
        if spec.get("schedulingGates"):
            fixed = "nodeSelector and node affinity can be narrowed until its scheduling gates are removed"
        else:
            fixed = "nodeSelector and affinity are immutable"
        return f"Saving goes to the pod itself, which has no owner: tolerations can only be added, {fixed}."


async def owners_of(client: Client, pod: Pod) -> tuple[list[RulesTarget], str]:
    """The owners of a pod from the nearest on, and why there may be more that cannot be changed here."""
    owners: list[RulesTarget] = []
    item: Object = pod
    for _ in range(_OWNERS):
        owner = next((each for each in item.metadata.owner_references if each.controller), None)
        if owner is None:
            break
        found = await _owner(client, owner, pod.metadata.namespace)
        if isinstance(found, str):
            return owners, found
        owners.append(found)
        item = found.typed()
    return owners, ""


async def target_of(client: Client, pod: Pod) -> RulesTarget:
    """Where a change of a pod's rules lasts. Raises ApiError."""
    owners, obstacle = await owners_of(client, pod)
    if owners:
        return replace(owners[-1], obstacle=obstacle)
    raw = await client.get(_POD, pod.metadata.namespace, pod.metadata.name)
    return RulesTarget(_POD, msgspec.json.decode(raw), obstacle)


async def _owner(client: Client, owner: OwnerReference, namespace: str) -> RulesTarget | str:
    """The object that a reference names, or why nothing can be changed there."""
    kind = kinds.find(owner.api_version, owner.kind)
    name = f"{owner.kind} {namespace}/{owner.name}"
    if kind is None or not kind.pod_spec:
        return f"It belongs to {name} ({owner.api_version}), whose template is not known here: change it there."
    try:
        data: Any = msgspec.json.decode(await client.get(kind, namespace, owner.name))
        target = RulesTarget(kind, data)
        target.typed()
    except (ApiError, DecodeError) as error:
        return f"It belongs to {name}, which cannot be read: {error}"
    return target


async def template_of(client: Client, name: str) -> RulesTarget | None:
    """The workload of a name such as `default/Deployment/web`; None when there is none. Raises ApiError."""
    namespace, _, rest = name.partition("/")
    kind_name, _, own = rest.partition("/")
    kind = next((each for each in kinds.KINDS if each.kind == kind_name and each.pod_spec), None)
    if kind is None or kind is _POD or not own:
        return None
    return RulesTarget(kind, msgspec.json.decode(await client.get(kind, namespace, own)))
