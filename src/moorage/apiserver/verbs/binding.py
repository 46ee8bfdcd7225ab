"""Binding: a pod is assigned to a node, once."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.meta import Data, Object, Wire
from moorage.apiserver.base.objects import key
from moorage.apiserver.http.failures import bad_request, conflict, not_found
from moorage.apiserver.http.messages import Refused, Request, Response
from moorage.apiserver.request.bodies import check_small, media_type, parsed
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs import answers
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.writing import is_dry, unmet_precondition
from moorage.store.protocol import KeyMissing, RevisionConflict

_POD = kinds.row("v1", "Pod")


class BindingTarget(Wire):
    """What a pod is bound to."""

    kind: str = ""
    name: str = ""


class Binding(Object):
    """A request to bind the pod of the same name to a node."""

    target: BindingTarget = BindingTarget()


class _Head(Wire):
    name: str
    uid: str
    deletion_timestamp: str | None = None
    generation: int = 0


class _Place(Wire):
    node_name: str | None = None
    scheduling_gates: list[msgspec.Raw] | None = None


class _Pod(NamedTuple):
    """The parts of a pod that decide whether it may be bound."""

    head: _Head
    place: _Place


_Parts = dict[str, msgspec.Raw]
_parts = msgspec.json.Decoder(_Parts).decode
_binding = msgspec.json.Decoder(Binding).decode
_head, _place = msgspec.json.Decoder(_Head).decode, msgspec.json.Decoder(_Place).decode


async def _parsed(request: Request) -> Binding:
    check_small(request)
    if media_type(request) == "application/json":
        try:
            return _binding(request.body)
        except (msgspec.DecodeError, UnicodeError):
            pass  # the error is found when the body is read as any other
    try:
        return convert(await parsed(request), Binding)
    except DecodeError as error:
        raise bad_request(f"the body must be a Binding: {error}") from None


async def _read(route: Route, request: Request) -> Binding:
    """The binding in a request; Refused when it is not valid, or not about the pod that the path names."""
    binding = await _parsed(request)
    if route.name and binding.metadata.name not in ("", route.name):
        raise bad_request("name in URL does not match name in Binding object")
    if not route.name and not binding.metadata.name:
        raise bad_request("metadata.name: Required value: the pod to bind")
    if binding.target.kind not in ("", "Node"):
        raise bad_request(f'target.kind: Unsupported value: "{binding.target.kind}": supported values: "Node", ""')
    if not binding.target.name:
        raise bad_request("target.name: Required value: the node to bind to")
    return binding


async def bind(backend: Backend, route: Route, request: Request) -> Response:
    """Assign a pod to a node."""
    store, moment, dry = backend.store, backend.timestamp(), is_dry(request)
    binding = await _read(route, request)
    name = route.name or binding.metadata.name
    where = key(_POD, route.namespace, name)
    while True:
        item = await store.get(where)
        if item is None:
            raise not_found(_POD, name)
        parts = _parts(item.value)
        pod = _Pod(_head(parts["metadata"]), _place(parts["spec"]))
        if problem := _problem(pod, str(item.revision), binding):
            raise _conflict(name, problem)
        if dry:
            break
        try:
            await store.update(where, _assigned(parts, pod, binding, moment), item.revision)
        except (RevisionConflict, KeyMissing):
            continue
        break
    return answers.created()


def _problem(pod: _Pod, revision: str, binding: Binding) -> str:
    """Why a pod cannot be bound."""
    head, expected = pod.head, binding.metadata
    if problem := unmet_precondition((expected.uid, expected.resource_version), (head.uid, revision)):
        return problem
    if head.deletion_timestamp:
        return f"pod {head.name} is being deleted, cannot be assigned to a host"
    if pod.place.node_name:
        return f'pod {head.name} is already assigned to node "{pod.place.node_name}"'
    if pod.place.scheduling_gates:
        return f"pod {head.name} has non-empty .spec.schedulingGates"
    return ""


def _assigned(parts: _Parts, pod: _Pod, binding: Binding, moment: str) -> bytes:
    """The stored form of the bound pod. The parts that do not change are copied as JSON text, undecoded."""
    changed: Data = {**parts, "spec": {**_parts(parts["spec"]), "nodeName": binding.target.name}}
    added = {"annotations": binding.metadata.annotations, "labels": binding.metadata.labels}
    if any(added.values()):
        metadata = changed["metadata"] = msgspec.json.decode(parts["metadata"])
        for name, values in added.items():
            if values:
                metadata[name] = (metadata.get(name) or {}) | values
    status = changed["status"] = msgspec.json.decode(parts["status"])
    # A nomination that is left would count as capacity that is still reserved.
    status.pop("nominatedNodeName", None)
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": moment,
        "observedGeneration": pod.head.generation,
    }
    conditions = [condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"]
    status["conditions"] = [*conditions, scheduled]
    return msgspec.json.encode(changed)


def _conflict(name: str, why: str) -> Refused:
    return conflict(_POD, name, why, of="pods/binding")
