"""Validation of requests and limits of containers and pods, and of the resources of nodes."""

from __future__ import annotations

from collections.abc import Collection

from moorage.api.meta import Data
from moorage.bounded import remember_short
from moorage.names import label_key_errors
from moorage.quantity import Quantity, QuantityError
from moorage.registry import namesyntax
from moorage.registry.checks import NEGATIVE, Errors, syntax
from moorage.validation.field import duplicate, forbidden, invalid, not_found, not_supported, required

_COMPUTE = frozenset(("cpu", "memory", "ephemeral-storage"))
_COUNTED = frozenset((
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
    "services.nodeports", "services.loadbalancers",
))  # fmt: skip
_STANDARD = _COMPUTE | _COUNTED | frozenset((
    "storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage", "requests.storage", "limits.cpu",
    "limits.memory", "limits.ephemeral-storage",
))  # fmt: skip
_HUGE = "hugepages-"

_MOST_LISTED = 100
"""How many names an error lists from which one can be chosen."""


def is_native(name: str) -> bool:
    """Whether a resource is one of Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a resource is one that a device plugin or an administrator adds to nodes."""
    return not is_native(name) and not name.startswith("requests.") and not label_key_errors(f"requests.{name}")


def can_overcommit(name: str) -> bool:
    """Whether the limit of a resource may be larger than the request."""
    return is_native(name) and not name.startswith(_HUGE)


@remember_short(4096)
def name_problems(name: str) -> tuple[str, ...]:
    """What is wrong with the name of a resource."""
    problems = tuple(label_key_errors(name))
    if "/" in name or problems or name in _STANDARD or name.startswith((_HUGE, f"requests.{_HUGE}")):
        return problems
    return ("must be a standard resource type or fully qualified",)


@remember_short(4096)
def container_name_problems(name: str) -> tuple[str, ...]:
    """What is wrong with the name of a resource that a container asks for."""
    if name in _COMPUTE:
        return ()
    problems = name_problems(name)
    if "/" not in name:
        return problems if name.startswith(_HUGE) else (*problems, "must be a standard resource for containers")
    if not is_native(name) and not is_extended(name):
        return (*problems, "doesn't follow extended resource name standard")
    return problems


def is_standard_quota(name: str) -> bool:
    """Whether a quota can limit a resource whose name has no prefix."""
    return (name in _STANDARD and name != "storage") or name.startswith((_HUGE, f"requests.{_HUGE}"))


def amount_errors(path: str, name: str, amount: str) -> Errors:
    """Validate a quantity of a resource: some resources are integers."""
    quantity = Quantity.of(amount)
    if quantity.nano < 0:
        yield invalid(path, amount, NEGATIVE)
    if name not in _COMPUTE and (name in _COUNTED or is_extended(name)) and quantity.milli_value() % 1000:
        yield invalid(path, amount, "must be an integer")


def resource_errors(path: str, resources: Data, claims: Collection[str]) -> Errors:
    """Validate the requests, limits and claims of a container; `claims` are those of its pod."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            here = f"{path}.{part}[{name}]"
            yield from syntax(here, name, container_name_problems(name))
            yield from amount_errors(here, name, amount)
            if name.startswith(_HUGE):
                yield from _page_errors(here, name, amount)
    for name, amount in requests.items():
        yield from _within_limit(path, name, amount, limits.get(name))
    if any(name.startswith(_HUGE) for name in (*limits, *requests)) and not {"cpu", "memory"} & {*limits, *requests}:
        yield forbidden(path, "HugePages require cpu or memory")
    if "claims" in resources:
        yield from _claim_errors(f"{path}.claims", resources["claims"], claims)


def pod_resource_errors(path: str, resources: Data) -> Errors:
    """Validate the requests and limits of a whole pod."""
    if resources.get("claims"):
        yield forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    limits = resources.get("limits", {})
    for part in ("limits", "requests"):
        for name, amount in resources.get(part, {}).items():
            here = f"{path}.{part}[{name}]"
            if name not in ("cpu", "memory") and not name.startswith(_HUGE):
                yield not_supported(here, name, ("cpu", _HUGE, "memory"))
            yield from amount_errors(here, name, amount)
    for name, amount in resources.get("requests", {}).items():
        yield from _within_limit(path, name, amount, limits.get(name))


def _within_limit(path: str, name: str, amount: str, limit: str | None) -> Errors:
    if limit is None:
        if not can_overcommit(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    requested, most = Quantity.of(amount), Quantity.of(limit)
    if requested != most and not can_overcommit(name):
        yield invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")
    elif requested > most:
        yield invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}")


def _page_errors(path: str, name: str, amount: str) -> Errors:
    try:
        page = Quantity.parse(name.removeprefix(_HUGE))
    except QuantityError:
        page = Quantity.integer(0)
    whole = page.nano > 0 and page.nano % 10**9 == 0
    if not whole or Quantity.of(amount).value() % page.value():
        yield invalid(path, amount, f"{amount} is not positive integer multiple of {name}")


def _claim_errors(path: str, uses: list[Data], claims: Collection[str]) -> Errors:
    seen: set[str] = set()
    in_part: set[str] = set()
    listed = f": {', '.join(sorted(claims)[:_MOST_LISTED])}" if claims else " which is empty"
    for index, use in enumerate(uses):
        here = f"{path}[{index}]"
        name, request = use.get("name", ""), use.get("request", "")
        if not name:
            yield required(here)
            continue
        key = f"{name}/{request}" if request else name
        if request:
            yield from syntax(f"{here}.request", request, namesyntax.label(request))
        overlaps = not request and name in in_part
        if name in seen or key in seen or overlaps:
            yield duplicate(here, name if name in seen or overlaps else key)
        seen.add(key)
        if request:
            in_part.add(name)
        if name not in claims:
            yield not_found(here, name, f"must be one of the names in pod.spec.resourceClaims{listed}")
