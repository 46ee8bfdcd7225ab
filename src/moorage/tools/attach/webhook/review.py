"""AdmissionReviews: what the API server asks of the webhook, and the answers."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.kinds import Kind
from moorage.api.meta import Data, Object, Wire
from moorage.api.rules import DEVICE_TOLERATIONS, POD_RULES, RulesError, rules_of
from moorage.apiserver.base.offload import MAX_METADATA, holds_more
from moorage.apiserver.http.failures import forbidden, invalid
from moorage.apiserver.http.messages import Refused
from moorage.features import ALL_ON
from moorage.registry.pod.attached import rules_refusal
from moorage.tools.attach.webhook.rewriting import WebhookSettings, patch, rewritten
from moorage.validation import field
from moorage.validation.advice import ADVICE
from moorage.validation.attached import attached_advice, attached_errors, attached_update_errors, unreadable_rules
from moorage.validation.rules import Breaches, Rule, RuleContext, Severity, context_of

_NOBODY = context_of((), ALL_ON)
_RULES = (*POD_RULES, DEVICE_TOLERATIONS)
_MAX_WARNINGS, _MAX_ADVISED = 20, 64
"""How many warnings an answer has, and how many tolerations a pod may have to get advice: each pair is compared."""


class ReviewError(ValueError):
    """A body that is no AdmissionReview of a kind that is known here."""


class _Request(Wire):
    uid: str = ""
    name: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class _Review(Wire):
    request: _Request


class _Place(Wire):
    namespace: str = ""


class _PlacedReview(Wire):
    request: _Place


_read = msgspec.json.Decoder(_Review).decode
_read_place = msgspec.json.Decoder(_PlacedReview).decode


def namespace_of(body: bytes) -> str:
    """The namespace that an AdmissionReview is about; empty when it is about none. Raises ReviewError."""
    try:
        return _read_place(body).request.namespace
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ReviewError(f"the body is no AdmissionReview: {error}") from None


def mutate(body: bytes, settings: WebhookSettings) -> bytes:
    """The answer to an AdmissionReview: what to change in an object. Raises ReviewError."""
    request, kind = _asked(body)
    data = request.object or {}
    if _is_leaving(data):
        return _answer(request, {"allowed": True})
    try:
        convert(data, kind.struct)
        changes = list(patch(data, rewritten(data, request.old_object, settings)))
    except RecursionError:
        raise ReviewError("the object is nested too deeply") from None
    except RulesError as error:
        return _refused(request, invalid(kind, request.name, unreadable_rules(kind, error)))
    except DecodeError as error:
        return _refused(request, invalid(kind, request.name, [field.invalid(error.path, field.OMITTED, error.message)]))
    if not changes:
        return _answer(request, {"allowed": True})
    encoded = base64.b64encode(msgspec.json.encode(changes)).decode()
    return _answer(request, {"allowed": True, "patchType": "JSONPatch", "patch": encoded})


def validate(body: bytes, settings: WebhookSettings, namespace: Object | None = None) -> bytes:
    """The answer to an AdmissionReview: whether rules may be stored, and advice. Raises ReviewError.

    `namespace` is the one that the object is in; None when it is in none.
    """
    request, kind = _asked(body)
    data, old_data = request.object or {}, request.old_object
    try:
        item, old = convert(data, kind.struct), convert(old_data, kind.struct) if old_data else None
    except DecodeError as error:
        raise ReviewError(str(error)) from None
    if _is_leaving(data) or (old is not None and _rules(kind, item) == _rules(kind, old)):
        return _answer(request, {"allowed": True})  # what is stored stays writable, whatever is wrong with it
    errors = attached_errors(item) + (attached_update_errors(item, old) if old is not None else [])
    if errors:
        return _refused(request, invalid(kind, request.name, errors))
    if why := _not_allowed(kind, item, settings, namespace):
        return _refused(request, forbidden(kind, request.name, why))
    warnings = [*_elsewhere(kind, item, settings.scheduler_name), *_advice(kind, item)]
    return _answer(request, {"allowed": True, **({"warnings": warnings[:_MAX_WARNINGS]} if warnings else {})})


def _asked(body: bytes) -> tuple[_Request, Kind]:
    try:
        request = _read(body).request
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ReviewError(f"the body is no AdmissionReview: {error}") from None
    if holds_more([request.object, request.old_object], MAX_METADATA):
        raise ReviewError(f"the review holds more than {MAX_METADATA:,} values")
    data = request.object or {}
    kind = kinds.find(str(data.get("apiVersion")), str(data.get("kind")))
    if kind is None:
        raise ReviewError(f"the review is about {data.get('apiVersion')} {data.get('kind')}, which has no rules")
    return request, kind


def _answer(request: _Request, response: Data) -> bytes:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return msgspec.json.encode({**review, "response": {"uid": request.uid, **response}})


def _refused(request: _Request, refusal: Refused) -> bytes:
    body = refusal.response.body
    assert isinstance(body, bytes)  # not a stream
    return _answer(request, {"allowed": False, "status": msgspec.json.decode(body)})


def _not_allowed(kind: Kind, item: Object, settings: WebhookSettings, namespace: Object | None) -> str:
    """Why its namespace does not allow the rules of an object; empty when it does, or when there are none."""
    if namespace is None or not any(_rules(kind, item)):
        return ""
    metadata = kind.pod_metadata_of(item)
    rules = rules_of(metadata.annotations) if metadata else None
    tolerations = rules.tolerations if rules else ()
    return rules_refusal(namespace, namespace.metadata.name, tolerations, settings.rule_namespaces)


def _is_leaving(data: Data) -> bool:
    metadata = data.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


def _rules(kind: Kind, item: Object) -> list[str | None]:
    metadata = kind.pod_metadata_of(item) or getattr(getattr(item, "spec", None), "metadata", None) or item.metadata
    return [metadata.annotations.get(name) for name in _RULES]


def _advice(kind: Kind, item: Object) -> list[str]:
    metadata = kind.pod_metadata_of(item)
    rules = rules_of(metadata.annotations) if metadata else None
    if rules is None or len(rules.tolerations) > _MAX_ADVISED:
        return []
    return [
        f"{path}: {message}"
        for rule in ADVICE.values()
        if rule.severity is Severity.WARNING
        for path, message in attached_advice(item, partial(_checked, rule))
    ]


def _checked(rule: Rule[Object, RuleContext], item: Object) -> Breaches:
    return rule.check(item, _NOBODY)


def _elsewhere(kind: Kind, item: Object, scheduler: str) -> list[str]:
    """A pod with rules that another scheduler places. Templates name theirs, or their pods are given ours."""
    spec, metadata = kind.pod_spec_of(item), kind.pod_metadata_of(item)
    if spec is None or metadata is None or not any(name in metadata.annotations for name in POD_RULES):
        return []
    if spec.scheduler_name in (scheduler, "" if kind.kind == "Pod" else "default-scheduler", ""):
        return []
    path = f"{kind.pod_spec}.schedulerName"
    return [
        f"{path}: {spec.scheduler_name} places the pod without the rules in its annotations; {scheduler} knows them"
    ]
