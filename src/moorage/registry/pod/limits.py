"""What the LimitRanges of a namespace give to its pods, and what they refuse of pods and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.api.meta import Data, ResourceList
from moorage.api.pod import Pod
from moorage.api.quota import LimitRange, LimitRangeItem
from moorage.quantity import Quantity
from moorage.registry.pod.totals import LIMITS, REQUESTS, pod_level, quantities, total
from moorage.registry.state import Denied, Dependency, State
from moorage.registry.usage import Quantities

_LIMIT_RANGE = kinds.row("v1", "LimitRange")
POD_LIMITS = Dependency(_LIMIT_RANGE, in_namespace=True, updates=("resize",))
CLAIM_LIMITS = Dependency(_LIMIT_RANGE, in_namespace=True, updates=("",))
CONTAINER, POD, CLAIM = "Container", "Pod", "PersistentVolumeClaim"
"""What a limit is on."""
_ANNOTATION = "kubernetes.io/limit-ranger"
MAX_MILLI = (2**63 - 1) // 1000
"""The largest amount that Kubernetes compares in thousandths."""


class _Asked(NamedTuple):
    """What a container, a pod or a claim asks for."""

    requests: Quantities
    limits: Quantities


def give_defaults(pod: Data, _: Data | None, state: State) -> None:
    """Set the requests and limits that the containers of a pod leave open."""
    for limit_range in _limit_ranges(pod, state):
        given: list[str] = []
        defaults = [limit for limit in limit_range.spec.limits if limit.type == CONTAINER]
        requests = {name: amount for limit in defaults for name, amount in limit.default_request.items()}
        limits = {name: amount for limit in defaults for name, amount in limit.default.items()}
        for field, what in (("containers", "container"), ("initContainers", "init container")):
            for container in pod["spec"].get(field) or ():
                whom = f"{what} {container.get('name', '')}"
                given += _fill(container, "requests", requests, f"request for {whom}")
                given += _fill(container, "limits", limits, f"limit for {whom}")
        if given:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(given)}"


def _fill(container: Data, part: str, defaults: ResourceList, what: str) -> Iterator[str]:
    """Set the amounts that a container lacks, and say which."""
    if not defaults:
        return
    amounts = container.setdefault("resources", {}).setdefault(part, {})
    lacking = sorted(defaults.keys() - amounts.keys())
    amounts.update((name, defaults[name]) for name in lacking)
    if lacking:
        yield f"{', '.join(lacking)} {what}"


def limit_pod(new: Data, old: Data | None, state: State) -> None:
    """Refuse a pod that asks for less or more than the LimitRanges of its namespace allow. Raises Denied."""
    if limit_ranges := _limit_ranges(new, state):
        pod = convert(new, Pod)
        containers = [
            _Asked(quantities(container.resources.requests), quantities(container.resources.limits))
            for container in (*pod.spec.containers, *pod.spec.init_containers)
        ]
        whole = _Asked(_together(pod, REQUESTS), _together(pod, LIMITS))
        _limit(old, limit_ranges, {CONTAINER: containers, POD: [whole]}, _compute_problems)


def _together(pod: Pod, part: str) -> Quantities:
    of_pod = pod_level(pod.spec, part)
    return total(pod.spec, part) | {name: of_pod[name] for name in ("cpu", "memory") if name in of_pod}


def limit_claim(new: Data, old: Data | None, state: State) -> None:
    """Refuse a claim on less or more storage than the LimitRanges of its namespace allow. Raises Denied."""
    if limit_ranges := _limit_ranges(new, state):
        requests = new["spec"].get("resources", {}).get("requests", {})
        _limit(old, limit_ranges, {CLAIM: [_Asked(quantities(requests), {})]}, _storage_problems)


def _limit_ranges(new: Data, state: State) -> list[LimitRange]:
    if not state.all(_LIMIT_RANGE):
        return []
    found = state.inside(_LIMIT_RANGE, new["metadata"].get("namespace", ""))
    return [convert(item, LimitRange) for item in found]


def _limit(
    old: Data | None,
    limit_ranges: list[LimitRange],
    asked: dict[str, list[_Asked]],
    problems_of: Callable[[LimitRangeItem, _Asked], Iterator[str]],
) -> None:
    if old is not None and old["metadata"].get("deletionTimestamp"):
        return
    for limit_range in limit_ranges:
        found = [
            problem
            for limit in limit_range.spec.limits
            for each in asked.get(limit.type, ())
            for problem in problems_of(limit, each)
        ]
        problems = list(dict.fromkeys(found))
        if problems:
            raise Denied(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _compute_problems(limit: LimitRangeItem, asked: _Asked) -> Iterator[str]:
    for name in sorted(limit.min):
        yield from _too_little(limit, name, asked)
    for name in sorted(limit.max):
        yield from _too_much(limit, name, asked)
    for name in sorted(limit.max_limit_request_ratio):
        yield from _too_far_apart(limit, name, asked)


def _storage_problems(limit: LimitRangeItem, asked: _Asked) -> Iterator[str]:
    for name in sorted(limit.min):
        yield from _too_little(limit, name, asked)
    for name in sorted(limit.max):
        most = Quantity.of(limit.max[name])
        request = asked.requests.get(name)
        text = f"maximum {name} usage per {limit.type} is {most}"
        if request is None:
            yield f"{text}.  No request is specified"
        elif _is_more(request, most, None):
            yield f"{text}, but request is {request}"


def _too_little(limit: LimitRangeItem, name: str, asked: _Asked) -> Iterator[str]:
    least = Quantity.of(limit.min[name])
    request, most = asked.requests.get(name), asked.limits.get(name)
    text = f"minimum {name} usage per {limit.type} is {least}"
    if request is None:
        yield f"{text}.  No request is specified"
    elif _is_more(least, request, most):
        yield f"{text}, but request is {request}"
    elif most is not None and _is_more(least, most, request):
        yield f"{text}, but limit is {most}"


def _too_much(limit: LimitRangeItem, name: str, asked: _Asked) -> Iterator[str]:
    most = Quantity.of(limit.max[name])
    request, limited = asked.requests.get(name), asked.limits.get(name)
    text = f"maximum {name} usage per {limit.type} is {most}"
    if limited is None:
        yield f"{text}.  No limit is specified"
    elif _is_more(limited, most, request):
        yield f"{text}, but limit is {limited}"
    elif request is not None and _is_more(request, most, limited):
        yield f"{text}, but request is {request}"


def _too_far_apart(limit: LimitRangeItem, name: str, asked: _Asked) -> Iterator[str]:
    most = Quantity.of(limit.max_limit_request_ratio[name])
    request, limited = asked.requests.get(name), asked.limits.get(name)
    text = f"{name} max limit to request ratio per {limit.type} is {most}"
    if request is None or not request.nano:
        yield f"{text}, but no request is specified or request is 0"
    elif limited is None or not limited.nano:
        yield f"{text}, but no limit is specified or limit is 0"
    else:
        ratio = _number(limited, most, request) / _number(request, most, limited)
        if ratio * 1000 > most.milli_value():
            yield f"{text}, but provided ratio is {ratio:f}"


def _is_more(one: Quantity, other: Quantity, beside: Quantity | None) -> bool:
    """Whether an amount is larger, as Kubernetes compares the two and a third one."""
    return _number(one, other, beside) > _number(other, one, beside)


def _number(amount: Quantity, *others: Quantity | None) -> int:
    """Thousandths of an amount, or whole units when it or one of the others is very large."""
    is_small = all(each is None or each.value() <= MAX_MILLI for each in (amount, *others))
    return amount.milli_value() if is_small else amount.value()
