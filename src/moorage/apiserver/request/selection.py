"""Which objects a list or a watch is about: label and field selectors as one predicate."""

from __future__ import annotations

from dataclasses import dataclass

from moorage.api import labels
from moorage.api.labels import SelectorError
from moorage.apiserver.http.failures import bad_request
from moorage.apiserver.http.messages import Request
from moorage.apiserver.request import fieldselectors
from moorage.apiserver.request.fieldselectors import Predicate
from moorage.apiserver.request.routes import Route


@dataclass(frozen=True, slots=True)
class Selection:
    """What selects objects; `matches` is None when all of them are selected."""

    matches: Predicate | None
    name: str = ""
    """The only name that can match, when the selector says so."""


def selection(route: Route, request: Request) -> Selection:
    """What a request selects; Refused when a selector cannot be parsed."""
    label_text, field_text = request.parameter("labelSelector"), request.parameter("fieldSelector")
    if not label_text and not field_text and not route.name:
        return Selection(None)
    predicates: list[Predicate] = []
    name = route.name
    try:
        if label_text:
            by_label = labels.parse(label_text)
            predicates.append(lambda data: by_label.matches(data["metadata"].get("labels") or {}))
        if field_text:
            if field_text.count(",") >= labels.MAX_REQUIREMENTS:
                raise labels.too_many_requirements()
            by_field = fieldselectors.parse(field_text, route.kind.api_version, route.kind.kind)
            predicates.append(by_field.matches)
            name = name or by_field.exact("metadata.name") or ""
    except SelectorError as error:
        raise bad_request(f"unable to parse selector: {error}") from None
    if route.name:
        predicates.append(lambda data: data["metadata"]["name"] == route.name)
    return Selection(
        predicates[0] if len(predicates) == 1 else lambda data: all(predicate(data) for predicate in predicates), name
    )
