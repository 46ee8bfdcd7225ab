"""The environments of Kubernetes' expressions: over a taint, over a node's labels, and over a device."""

from __future__ import annotations

from moorage.cel import types
from moorage.cel.check.declarations import Field
from moorage.cel.env import kubernetes
from moorage.cel.ext import bindings
from moorage.cel.ext.quantity import QUANTITY_TYPE

_LABEL_KEY, _LABEL_VALUE, _LABELS = 317, 63, 256
_DOMAIN, _ID, _ENTRIES, _TEXT = 63, 32, 32, 64
_WHOLE = 0
"""Kubernetes gives objects no size, so that its estimate of comparing two of them is nothing."""


TAINT_ENV = kubernetes(
    {"taint": types.object_of("kubernetes.Taint")},
    {
        "kubernetes.Taint": {
            "key": Field(types.STRING, "key"),
            "value": Field(types.STRING, "value"),
            "effect": Field(types.STRING, "effect"),
            "timeAdded": Field(types.TIMESTAMP, "time_added", optional=True),
        }
    },
    sizes={
        ("taint",): _WHOLE,
        ("taint", "key"): _LABEL_KEY,
        ("taint", "value"): _LABEL_VALUE,
        ("taint", "effect"): 16,
    },
)
"""The `expression` of a toleration."""

NODE_ENV = kubernetes(
    {"node": types.object_of("kubernetes.Node")},
    {"kubernetes.Node": {"labels": Field(types.map_of(types.STRING, types.STRING), "labels")}},
    sizes={
        ("node",): _WHOLE,
        ("node", "labels"): _LABELS,
        ("node", "labels", "@keys"): _LABEL_KEY,
        ("node", "labels", "@values"): _LABEL_VALUE,
    },
)
"""One of the `matchCELExpressions` of a node selector term."""


def _by_domain(value: types.Type) -> types.Type:
    return types.map_of(types.STRING, types.map_of(types.STRING, value))


def _sizes(field: str) -> dict[tuple[str, ...], int]:
    outer = ("device", field)
    inner = (*outer, "@values")
    return {
        outer: _ENTRIES, (*outer, "@keys"): _DOMAIN,
        inner: _ENTRIES, (*inner, "@keys"): _ID, (*inner, "@values"): _TEXT,
    }  # fmt: skip


DEVICE_ENV = kubernetes(
    {"device": types.object_of("kubernetes.DRADevice")},
    {
        "kubernetes.DRADevice": {
            "driver": Field(types.STRING, "driver"),
            "attributes": Field(_by_domain(types.DYN), "attributes"),
            "capacity": Field(_by_domain(QUANTITY_TYPE), "capacity"),
            "allowMultipleAllocations": Field(types.BOOL, "allow_multiple_allocations"),
        }
    },
    sizes={("device",): _WHOLE, ("device", "driver"): _DOMAIN, **_sizes("attributes"), **_sizes("capacity")},
    more=(bindings.LIBRARY,),
)
"""A CEL selector of a device class or of a device request."""
