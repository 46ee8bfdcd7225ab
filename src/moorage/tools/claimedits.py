"""What could be changed of the claims of a pod: one that is missing, and which devices a request tolerates."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec

from moorage.api.claims import NO_PROVISIONER, claims_of, waits_for_consumer
from moorage.api.meta import ObjectMeta
from moorage.api.node import Node
from moorage.api.pod import Pod, Toleration
from moorage.api.resource import DeviceRequest, ResourceClaim, ResourceSlice
from moorage.api.volume import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    StorageClass,
    VolumeResourceRequirements,
)
from moorage.features import Gates
from moorage.match.operators import comparison
from moorage.scheduler.asking import Asking
from moorage.tools.edits import Alternatives, Depth, Edit, nearest

_replace = msgspec.structs.replace


def missing_claims(asking: Asking, pod: Pod) -> list[Alternatives]:
    """The claims that a pod names and that there are not, each as a new claim of a class that can make a volume."""
    classes = [
        each
        for each in asking.all_of(StorageClass)
        if waits_for_consumer(each) and each.provisioner not in ("", NO_PROVISIONER)
    ]
    return [
        tuple(_new_claim(pod, use.claim, each.metadata.name) for each in classes[:1])
        for use in claims_of(pod)
        if not use.ephemeral and asking.get(PersistentVolumeClaim, pod.metadata.namespace, use.claim) is None
    ]


def _new_claim(pod: Pod, name: str, class_name: str) -> Edit:
    spec = PersistentVolumeClaimSpec(
        access_modes=("ReadWriteOnce",),
        resources=VolumeResourceRequirements(requests={"storage": "1Gi"}),
        storage_class_name=class_name,
    )
    metadata = ObjectMeta(name=name, namespace=pod.metadata.namespace)
    claim = PersistentVolumeClaim("v1", "PersistentVolumeClaim", metadata, spec)
    command = f"echo {shlex.quote(msgspec.json.encode(claim).decode())} | kubectl create -f -"
    stored = _replace(
        claim,
        metadata=_replace(metadata, uid=f"new-{name}"),
        status=PersistentVolumeClaimStatus(phase="Pending"),
    )
    return Edit(Depth.NODE, (), f"a claim {name} of class {class_name}", command=command, put=(stored,))


def device_edits(asking: Asking, pod: Pod, node: Node, gates: Gates) -> Iterator[Edit]:
    """The thresholds of device requests moved as far as the taints of the devices of a node demand."""
    generated = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or generated.get(entry.name) or ""
        claim = asking.get(ResourceClaim, pod.metadata.namespace, name)
        for place, request in enumerate(claim.spec.devices.requests if claim else ()):
            for number in range(len(request.exactly.tolerations) if request.exactly else 0):
                assert claim is not None
                yield from _moved(asking, claim, (place, number), node, gates)


def _moved(asking: Asking, claim: ResourceClaim, at: tuple[int, int], node: Node, gates: Gates) -> Iterator[Edit]:
    place, number = at
    request = claim.spec.devices.requests[place]
    assert request.exactly is not None
    toleration = request.exactly.tolerations[number]
    compared = comparison(toleration.operator, gates)
    if compared is None:
        return
    values = _taint_values(asking, node, toleration)
    moves = [move for value in values if (move := nearest(compared, compared.values.value, value, toleration.value))]
    moves.sort(key=lambda move: move[1])
    if len(moves) >= (count := max(request.exactly.count, 1)):
        bound, distance = moves[count - 1]
        text = (
            f"`{compared.name} {bound}` instead of `{compared.name} {toleration.value}` in request {request.name} of"
            f" claim {claim.metadata.name}"
        )
        path = f"/spec/devices/requests/{place}/exactly/tolerations/{number}/value"
        patch = msgspec.json.encode([{"op": "replace", "path": path, "value": bound}]).decode()
        where = f"resourceclaim {claim.metadata.name} -n {claim.metadata.namespace}"
        command = (
            f"kubectl get {where} -o yaml | kubectl patch --local -f - --type=json -p {shlex.quote(patch)} -o yaml"
            " | kubectl replace --force -f -"
        )
        yield Edit(Depth.THRESHOLD, distance, text, command=command, put=(_with_bound(claim, at, bound),))


def _taint_values(asking: Asking, node: Node, toleration: Toleration) -> list[str]:
    """The values that taints of the key of a toleration have on the devices of a node."""
    return [
        taint.value
        for each in asking.all_of(ResourceSlice)
        if each.spec.node_name == node.metadata.name
        for device in each.spec.devices
        for taint in device.taints
        if taint.key == toleration.key and toleration.effect in ("", taint.effect)
    ]


def _with_bound(claim: ResourceClaim, at: tuple[int, int], bound: str) -> ResourceClaim:
    place, number = at
    requests = list[DeviceRequest](claim.spec.devices.requests)
    exactly = requests[place].exactly
    assert exactly is not None
    tolerations = list(exactly.tolerations)
    tolerations[number] = _replace(tolerations[number], value=bound)
    requests[place] = _replace(requests[place], exactly=_replace(exactly, tolerations=tuple(tolerations)))
    devices = _replace(claim.spec.devices, requests=tuple(requests))
    return _replace(claim, spec=_replace(claim.spec, devices=devices))
