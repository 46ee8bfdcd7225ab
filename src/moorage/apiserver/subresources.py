"""Parts of objects with rules of their own: scale, binding and eviction."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.api import kinds, labels
from moorage.api.decode import DecodeError, convert
from moorage.api.kinds import Kind
from moorage.api.meta import Int32, LabelSelector, Object, Wire
from moorage.api.pod import PodDisruptionBudget
from moorage.apiserver import binding, jsonpatch, mergepatch
from moorage.apiserver.bodies import media_type, parsed
from moorage.apiserver.failures import bad_request, invalid, not_found, unsupported_media_type
from moorage.apiserver.http import Reason, Refused, Request, Response, status
from moorage.apiserver.objects import Data, decode, encode, key, prefix
from moorage.apiserver.options import read_delete_options
from moorage.apiserver.patching import PatchError
from moorage.apiserver.routes import Route
from moorage.apiserver.writing import Writer, is_dry, refused, timestamp
from moorage.store.protocol import Conflict, Item
from moorage.validation import field

_POD = kinds.row("v1", "Pod")
_BUDGET = kinds.row("policy/v1", "PodDisruptionBudget")
_SCALE = Kind("autoscaling", "v1", "Scale", "scales")
_BUDGET_MESSAGE = "Cannot evict pod as it would violate the pod's disruption budget."


def _body(request: Request) -> Data:
    data = parsed(request)
    if not isinstance(data, dict):
        raise bad_request("the body must be an object")
    return data


async def get_scale(writer: Writer, route: Route) -> Response:
    """How many replicas a workload is to have and has."""
    item = await writer.store.get(key(route.kind, route.namespace, route.name))
    if item is None:
        raise not_found(route.kind, route.name)
    return Response(200, msgspec.json.encode(_scale(decode(item))))


async def put_scale(writer: Writer, route: Route, request: Request) -> Response:
    """Say how many replicas a workload is to have."""
    sent = _read_scale(_body(request))
    return await _set_scale(writer, route, request, sent, sent.metadata.resource_version)


async def patch_scale(writer: Writer, route: Route, request: Request) -> Response:
    """The same by a patch of the scale."""
    patch = _PATCHES.get(media_type(request))
    if patch is None:
        raise unsupported_media_type(tuple(_PATCHES))
    item = await writer.store.get(key(route.kind, route.namespace, route.name))
    if item is None:
        raise not_found(route.kind, route.name)
    current = _scale(decode(item))
    try:
        patched = _read_scale(patch(current, msgspec.json.decode(request.body)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from None
    except PatchError as error:
        raise refused(error) from None
    meant = patched.metadata.resource_version
    return await _set_scale(writer, route, request, patched, meant if meant != str(item.revision) else "")


_PATCHES = {
    "application/json-patch+json": jsonpatch.apply,
    "application/merge-patch+json": mergepatch.apply,
    "application/strategic-merge-patch+json": mergepatch.apply,
}


class ScaleSpec(Wire):
    """How many there are to be."""

    replicas: Int32 = 0


class Scale(Object):
    """The size of a workload."""

    spec: ScaleSpec = ScaleSpec()


def _read_scale(data: Any) -> Scale:
    try:
        return convert(data, Scale)
    except DecodeError as error:
        raise bad_request(f"the body must be a Scale: {error}") from None


async def _set_scale(writer: Writer, route: Route, request: Request, sent: Scale, expected: str) -> Response:
    replicas = sent.spec.replicas
    if replicas < 0:
        error = field.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(_SCALE, route.name, [error])

    def change(data: Data) -> Data:
        data["spec"]["replicas"] = replicas
        return data

    whole = Route("update", route.kind, route.version, route.namespace, route.name)
    response = await writer.change(whole, request, change, expected=expected)
    assert isinstance(response.body, bytes)
    return Response(200, msgspec.json.encode(_scale(msgspec.json.decode(response.body))))


def _scale(data: Data) -> Data:
    metadata = data["metadata"]
    kept = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    selector = convert(data["spec"].get("selector") or {}, LabelSelector)
    current = {"replicas": (data.get("status") or {}).get("replicas", 0), "selector": str(labels.from_struct(selector))}
    spec = {"replicas": data["spec"].get("replicas", 0)}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept, "spec": spec, "status": current}


async def bind(writer: Writer, route: Route, request: Request) -> Response:
    """Assign a pod to a node, once."""
    return await binding.bind(writer.store, route, request, timestamp(writer.now()), dry=is_dry(request))


async def evict(writer: Writer, route: Route, request: Request) -> Response:
    """Delete a pod if the disruption budgets allow it."""
    sent = _body(request) if request.body else {}
    asked = sent.get("deleteOptions") or {}
    if not isinstance(asked, dict):
        raise bad_request("deleteOptions must be an object")
    options = read_delete_options({**asked, "dryRun": ["All"]} if is_dry(request) else asked)
    item = await writer.store.get(key(_POD, route.namespace, route.name))
    if item is None:
        raise not_found(_POD, route.name)
    pod = decode(item)
    budgets = await _budgets(writer, route.namespace, pod)
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise Refused(status(500, Reason.INTERNAL_ERROR, message))
    running = (pod.get("status") or {}).get("phase") not in ("Pending", "Succeeded", "Failed")
    if budgets and running and not pod["metadata"].get("deletionTimestamp"):
        await _spend(writer, budgets[0], pod, dry=bool(options.dry_run))
    one = Route("delete", _POD, "v1", route.namespace, route.name)
    await writer.delete_latest(one, request, item, options)
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(201, msgspec.json.encode(body))


async def _budgets(writer: Writer, namespace: str, pod: Data) -> list[Item]:
    found = []
    pod_labels = pod["metadata"].get("labels") or {}
    for item in (await writer.store.list(prefix(_BUDGET, namespace))).items:
        budget = convert(decode(item), PodDisruptionBudget)
        if budget.spec.selector is not None and labels.from_struct(budget.spec.selector).matches(pod_labels):
            found.append(item)
    return found


async def _spend(writer: Writer, item: Item, pod: Data, *, dry: bool) -> None:
    """Take one of the disruptions that a budget allows; Refused (429) when there is none."""
    while True:
        budget = decode(item)
        state = budget.setdefault("status", {})
        name = budget["metadata"]["name"]
        allowed = state.get("disruptionsAllowed", 0)
        if allowed <= 0 or state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            healthy, desired = state.get("currentHealthy", 0), state.get("desiredHealthy", 0)
            why = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
            causes = [{"reason": "DisruptionBudget", "message": why}]
            raise Refused(status(429, Reason.TOO_MANY_REQUESTS, _BUDGET_MESSAGE, {"causes": causes}))
        if dry:
            return
        state["disruptionsAllowed"] = allowed - 1
        state.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = timestamp(writer.now())
        try:
            await writer.store.update(item.key, encode(budget), item.revision)
        except Conflict as error:
            item = error.current
        else:
            return
