"""The options of a request, from its query or from the body of a deletion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.api.decode import DecodeError, convert
from moorage.api.kinds import Kind
from moorage.api.meta import Int64, Wire
from moorage.apiserver.http.failures import bad_request, invalid
from moorage.apiserver.http.messages import Request
from moorage.apiserver.request.bodies import parsed
from moorage.gotext import quote, seconds
from moorage.validation import field
from moorage.validation.field import FieldError

EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"
FOREGROUND, BACKGROUND, ORPHAN = "Foreground", "Background", "Orphan"

_MATCH = "resourceVersionMatch"
_INT64 = 2**63


def _options(kind: str) -> Kind:
    return Kind("meta.k8s.io", "v1", kind, kind.lower())


class Preconditions(Wire):
    """What an object must be for a deletion to be carried out."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Wire):
    """How an object is to be deleted."""

    grace_period_seconds: Int64 | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions = Preconditions()
    dry_run: tuple[str, ...] = ()


async def delete_options(request: Request) -> DeleteOptions:
    """The options of a deletion, from its body and its query; Refused when they make no sense."""
    options = await parsed(request) if request.body else {}
    if not isinstance(options, dict):
        raise bad_request("the body must be DeleteOptions")
    if request.parameter("gracePeriodSeconds"):
        options["gracePeriodSeconds"] = number(request, "gracePeriodSeconds")
    if policy := request.parameter("propagationPolicy"):
        options["propagationPolicy"] = policy
    if "orphanDependents" in request.query:
        options["orphanDependents"] = flag(request, "orphanDependents")
    if dry := request.query.get("dryRun"):
        options["dryRun"] = list(dry)
    return read_delete_options(options)


def read_delete_options(data: Any) -> DeleteOptions:
    """The options of a deletion as data; Refused when they make no sense."""
    try:
        options = convert(data, DeleteOptions)
    except DecodeError as error:
        raise bad_request(f"DeleteOptions: {error}") from None
    if errors := list(_delete_errors(options)):
        raise invalid(_options("DeleteOptions"), "", errors)
    return options


def _delete_errors(options: DeleteOptions) -> Iterator[FieldError]:
    policy = options.propagation_policy
    if policy is not None and options.orphan_dependents is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        yield field.invalid("propagationPolicy", policy, detail)
    if policy is not None and policy not in (FOREGROUND, BACKGROUND, ORPHAN):
        yield field.not_supported("propagationPolicy", policy, (FOREGROUND, BACKGROUND, ORPHAN, "nil"))
    if set(options.dry_run) - {"All"}:
        yield FieldError(field.ErrorType.NOT_SUPPORTED, "dryRun", options.dry_run, 'supported values: "All"')


def apply_force(request: Request) -> bool:
    """Whether an applied configuration takes over fields of others; Refused when it names no field manager."""
    if not request.parameter("fieldManager"):
        raise bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        )
    return request.parameter("force").lower() in ("true", "1")


def check_list(request: Request) -> None:
    """Refuse a list whose options contradict each other."""
    if errors := list(_list_errors(request)):
        raise invalid(_options("ListOptions"), "", errors)


def _list_errors(request: Request) -> Iterator[FieldError]:
    match, version = request.parameter(_MATCH), request.parameter("resourceVersion")
    if match and not version:
        yield field.forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match and request.parameter("continue"):
        yield field.forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")
    if match and match not in (EXACT, NOT_OLDER_THAN):
        yield field.not_supported(_MATCH, match, (EXACT, NOT_OLDER_THAN, ""))
    if match == EXACT and version == "0":
        yield field.forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if "sendInitialEvents" in request.query:
        yield field.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def check_watch(request: Request) -> None:
    """Refuse a watch whose options contradict each other."""
    if errors := list(_watch_errors(request)):
        raise invalid(_options("ListOptions"), "", errors)


def _watch_errors(request: Request) -> Iterator[FieldError]:
    match, initial = request.parameter(_MATCH), "sendInitialEvents" in request.query
    if initial and match != NOT_OLDER_THAN:
        yield field.forbidden(_MATCH, f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}")
    if match and not initial:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        yield field.forbidden(_MATCH, detail)
    if match and match != NOT_OLDER_THAN:
        yield field.not_supported(_MATCH, match, (NOT_OLDER_THAN,))
    if match and request.parameter("continue"):
        yield field.forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")


def flag(request: Request, name: str) -> bool:
    """A parameter that is true or false, as Kubernetes reads it: what is not false is true."""
    values = request.query.get(name)
    return values is not None and values[0].lower() not in ("false", "0")


def check_timeout(request: Request) -> None:
    """Refuse a request whose timeout is not a duration."""
    text = request.parameter("timeout")
    if text and seconds(text) is None:
        raise bad_request(f"invalid timeout specified in the request URL - time: invalid duration {quote(text)}")


def number(request: Request, name: str) -> int:
    """A parameter that is an integer, 0 when it is absent; Refused when it is not one."""
    text = request.parameter(name, "0")
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) < 20 and -_INT64 <= int(text) < _INT64:
        return int(text)
    raise bad_request(f"{name} must be an integer, not {text!r}")


def revision(request: Request) -> int:
    """The resourceVersion of a request, 0 when it has none; Refused when it is not a number."""
    text = request.parameter("resourceVersion") or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) >= _INT64:
        raise bad_request(f"invalid resource version {text!r}: must be a non-negative integer")
    return int(text)
