"""Binding: a pod is assigned to a node, once."""

from __future__ import annotations

import msgspec

from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.meta import Object, Wire
from moorage.apiserver.bodies import parsed
from moorage.apiserver.failures import bad_request, conflict, not_found
from moorage.apiserver.http import Refused, Request, Response
from moorage.apiserver.objects import Data, decode, encode, key
from moorage.apiserver.routes import Route
from moorage.store.protocol import Conflict, Missing, Store

_POD = kinds.row("v1", "Pod")


class Target(Wire):
    """What a pod is bound to."""

    kind: str = ""
    name: str = ""


class Binding(Object):
    """The wish to bind the pod of the same name."""

    target: Target = Target()


def read(route: Route, request: Request) -> Binding:
    """The binding in a request; Refused when it is none, or is about another pod than the path names."""
    try:
        binding = convert(parsed(request), Binding)
    except DecodeError as error:
        raise bad_request(f"the body must be a Binding: {error}") from None
    if route.name and binding.metadata.name not in ("", route.name):
        raise bad_request("name in URL does not match name in Binding object")
    if not route.name and not binding.metadata.name:
        raise bad_request("metadata.name: Required value: the pod to bind")
    if binding.target.kind not in ("", "Node"):
        raise bad_request(f'target.kind: Unsupported value: "{binding.target.kind}": supported values: "Node", ""')
    if not binding.target.name:
        raise bad_request("target.name: Required value: the node to bind to")
    return binding


async def bind(store: Store, route: Route, request: Request, moment: str, *, dry: bool) -> Response:
    """Assign a pod to a node."""
    binding = read(route, request)
    name = route.name or binding.metadata.name
    where = key(_POD, route.namespace, name)
    while True:
        item = await store.get(where)
        if item is None:
            raise not_found(_POD, name)
        data = decode(item)
        if problem := _problem(data, binding):
            raise _conflict(name, problem)
        _assign(data, binding, moment)
        if dry:
            break
        try:
            await store.update(where, encode(data), item.revision)
        except (Conflict, Missing):
            continue
        break
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(201, msgspec.json.encode(body))


def _problem(pod: Data, binding: Binding) -> str:
    """Why a pod cannot be bound."""
    metadata, spec = pod["metadata"], pod["spec"]
    name, meant = metadata["name"], binding.metadata
    for expected, found, words in (
        (meant.uid, metadata["uid"], "UID"),
        (meant.resource_version, metadata["resourceVersion"], "ResourceVersion"),
    ):
        if expected and expected != found:
            return f"Precondition failed: {words} in precondition: {expected}, {words} in object meta: {found}"
    if metadata.get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _assign(pod: Data, binding: Binding, moment: str) -> None:
    pod["spec"]["nodeName"] = binding.target.name
    for name, added in (("annotations", binding.metadata.annotations), ("labels", binding.metadata.labels)):
        if added:
            pod["metadata"][name] = (pod["metadata"].get(name) or {}) | added
    status = pod["status"]
    # The nomination has served its purpose, and others would take it for room that is still reserved.
    status.pop("nominatedNodeName", None)
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": moment}
    others = [each for each in status.get("conditions") or () if each.get("type") != "PodScheduled"]
    status["conditions"] = [*others, scheduled]


def _conflict(name: str, why: str) -> Refused:
    return conflict(_POD, name, why, of="pods/binding")
