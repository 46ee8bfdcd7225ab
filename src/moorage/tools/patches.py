"""Changes of pods as kubectl commands that can be typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data, Object
from moorage.api.pod import Pod, PodSpec
from moorage.tools.cluster import Cluster
from moorage.tools.settled import AskedPod

_WHOLE = ("node_selector", "affinity", "topology_spread_constraints", "scheduling_gates")
"""The fields of a specification that are replaced as a whole."""


def patch_of(old: PodSpec, new: PodSpec, written: PodSpec) -> list[Data]:
    """What turns one specification into another, as a JSON patch of the one that is written in a template."""
    return [*_tolerations(old, new, written), *_whole(old, new), *_containers(old, new)]


def _tolerations(old: PodSpec, new: PodSpec, written: PodSpec) -> Iterator[Data]:
    for number, (before, after) in enumerate(zip(old.tolerations, new.tolerations, strict=False)):
        if before != after:
            yield {"op": "replace", "path": f"/tolerations/{number}/value", "value": after.value}
    added: list[Any] = [msgspec.to_builtins(each) for each in new.tolerations[len(old.tolerations) :]]
    if added and not written.tolerations:
        yield {"op": "add", "path": "/tolerations", "value": added}
    elif added:
        yield from ({"op": "add", "path": "/tolerations/-", "value": each} for each in added)


def _whole(old: PodSpec, new: PodSpec) -> Iterator[Data]:
    for name in _WHOLE:
        value = getattr(new, name)
        if value != getattr(old, name):
            path = f"/{_camel(name)}"
            data: Any = msgspec.to_builtins(value)
            yield {"op": "add", "path": path, "value": data} if data else {"op": "remove", "path": path}


def _containers(old: PodSpec, new: PodSpec) -> Iterator[Data]:
    for number, (before, after) in enumerate(zip(old.containers, new.containers, strict=True)):
        at = f"/containers/{number}"
        for resource, amount in after.resources.requests.items():
            if before.resources.requests.get(resource) != amount:
                path = f"{at}/resources/requests/{resource.replace('~', '~0').replace('/', '~1')}"
                yield {"op": "add", "path": path, "value": amount}
        for place, (port, moved) in enumerate(zip(before.ports, after.ports, strict=True)):
            if port.host_port != moved.host_port:
                yield {"op": "replace", "path": f"{at}/ports/{place}/hostPort", "value": moved.host_port}
            if port.container_port != moved.container_port:
                yield {"op": "replace", "path": f"{at}/ports/{place}/containerPort", "value": moved.container_port}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def pod_command(asked: AskedPod, spec: PodSpec, cluster: Cluster) -> str:
    """The command that gives a pod, or the workload that makes it, another specification."""
    owner = _top(asked.item.object, cluster)
    kind, old = kinds.of(owner), asked.pod.spec
    where = f"-n {owner.metadata.namespace or 'default'}"
    name = owner.metadata.name or owner.metadata.generate_name
    written = kind.pod_spec_of(owner) or old
    prefix = "/" + (asked.item.within or kind.pod_spec or "spec").replace(".", "/").replace("[", "/").replace("]", "")
    operations = [{**each, "path": prefix + each["path"]} for each in patch_of(old, spec, written)]
    patch = shlex.quote(msgspec.json.encode(operations).decode())
    word = owner.kind.lower() if asked.item.within else kind.singular
    if kind.kind != "Pod":
        return f"kubectl patch {word} {name} {where} --type=json -p {patch}"
    if _only_adds_tolerations(old, spec) or _only_opens_gates(old, spec):
        return f"kubectl patch pod {name} {where} --type=json -p {patch}"
    return (
        f"kubectl get pod {name} {where} -o yaml | kubectl patch --local -f - --type=json -p {patch} -o yaml"
        " | kubectl replace --force -f -"
    )


def _top(item: Object, cluster: Cluster) -> Object:
    """The object whose template makes a pod: its owner's owner, if there is one."""
    for owner in item.metadata.owner_references:
        if not owner.controller:
            continue
        for other in cluster.items:
            found = other.object
            if found.metadata.uid == owner.uid and owner.uid and kinds.of(found).pod_spec:
                return _top(found, cluster)
    return item


def _only_adds_tolerations(old: PodSpec, new: PodSpec) -> bool:
    """Whether the API server takes the change of a pod that exists."""
    before, after = old.tolerations, new.tolerations
    return after[: len(before)] == before and msgspec.structs.replace(new, tolerations=before) == old


def _only_opens_gates(old: PodSpec, new: PodSpec) -> bool:
    return msgspec.structs.replace(new, scheduling_gates=old.scheduling_gates) == old


def delete_command(pod: Pod) -> str:
    """The command that deletes a pod."""
    return f"kubectl delete pod {pod.metadata.name} -n {pod.metadata.namespace}"
