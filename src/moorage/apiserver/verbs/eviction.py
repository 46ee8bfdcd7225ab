"""Eviction: a pod is deleted if the disruption budgets allow it."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.labels import Labels, selects
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decode, encode, key, prefix
from moorage.apiserver.base.offload import offload
from moorage.apiserver.base.pacing import in_slices
from moorage.apiserver.http.failures import bad_request, not_found
from moorage.apiserver.http.messages import Reason, Refused, Request, Response, status
from moorage.apiserver.request.bodies import parsed
from moorage.apiserver.request.options import read_delete_options
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs import answers
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.delete import delete_latest
from moorage.apiserver.verbs.writing import is_dry
from moorage.store.protocol import Item, RevisionConflict

_POD = kinds.row("v1", "Pod")
_BUDGET = kinds.row("policy/v1", "PodDisruptionBudget")
_BUDGET_MESSAGE = "Cannot evict pod as it would violate the pod's disruption budget."


async def evict(backend: Backend, route: Route, request: Request) -> Response:
    """Delete a pod if the disruption budgets allow it."""
    sent = await parsed(request) if request.body else {}
    if not isinstance(sent, dict):
        raise bad_request("the body must be an object")
    delete_options = sent.get("deleteOptions") or {}
    if not isinstance(delete_options, dict):
        raise bad_request("deleteOptions must be an object")
    options = read_delete_options({**delete_options, "dryRun": ["All"]} if is_dry(request) else delete_options)
    item = await backend.store.get(key(_POD, route.namespace, route.name))
    if item is None:
        raise not_found(_POD, route.name)
    pod = decode(item)
    budgets = await _budgets(backend, route.namespace, pod)
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise Refused(status(500, Reason.INTERNAL_ERROR, message))
    running = (pod.get("status") or {}).get("phase") not in ("Pending", "Succeeded", "Failed")
    if budgets and running and not pod["metadata"].get("deletionTimestamp"):
        await _spend(backend, budgets[0], pod, dry=bool(options.dry_run))
    one = Route("delete", _POD, "v1", route.namespace, route.name)
    await delete_latest(backend, one, request, item, options)
    return answers.created()


async def _budgets(backend: Backend, namespace: str, pod: Data) -> list[Item]:
    """The budgets of a pod; with a second one it is known that there are too many."""
    budgets: list[Item] = []
    labels = pod["metadata"].get("labels") or {}
    async for item in in_slices((await backend.store.list(prefix(_BUDGET, namespace))).items):
        if await offload(len(item.value), _is_of, item, labels):
            budgets.append(item)
        if len(budgets) > 1:
            break
    return budgets


def _is_of(budget: Item, labels: Labels) -> bool:
    selector = (decode(budget).get("spec") or {}).get("selector")
    return selector is not None and selects(selector, labels)


async def _spend(backend: Backend, item: Item, pod: Data, *, dry: bool) -> None:
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
        state.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = backend.timestamp()
        try:
            await backend.store.update(item.key, encode(budget), item.revision)
        except RevisionConflict as error:
            item = error.current
        else:
            return
