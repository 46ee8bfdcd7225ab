"""Which rules in annotations a namespace allows."""

from __future__ import annotations

from moorage.api.decode import convert
from moorage.api.labels import LabelMatcher
from moorage.api.meta import Object
from moorage.api.pod import Toleration
from moorage.api.rules import TOLERATIONS, TolerationList
from moorage.registry.pod.tolerations import WHITELIST, annotated, outside
from moorage.registry.state import Denied


def rules_refusal(
    namespace: Object | None, name: str, tolerations: TolerationList, allowed: LabelMatcher | None
) -> str:
    """Why pods in a namespace may not have rules, or not these tolerations as rules; empty when they may.

    `allowed` are the labels of the namespaces whose pods may have rules; None is all.
    """
    labels, annotations = (namespace.metadata.labels, namespace.metadata.annotations) if namespace else ({}, {})
    if allowed is not None and not allowed.matches(labels):
        return f"rules in annotations are not allowed in namespace {name}: its labels do not match {allowed}"
    if not tolerations or WHITELIST not in annotations:
        return ""
    try:
        whitelist = [convert(each, Toleration) for each in annotated(annotations, WHITELIST, name)]
    except Denied as error:
        return str(error)
    refused = whitelist and outside(whitelist, tolerations, f"metadata.annotations[{TOLERATIONS}]")
    return f"rules conflict with the whitelist of namespace {name}: {refused}" if refused else ""
