"""The environments of tolerations and node selectors in one, with Kubernetes' libraries and the sizes of its API."""

from __future__ import annotations

from dataclasses import dataclass, field

from moorage.cel import types
from moorage.cel.check.declarations import Field
from moorage.cel.env import Env, kubernetes
from moorage.cel.values import Timestamp

SIZES = {
    ("taint", "key"): 317,
    ("taint", "value"): 63,
    ("taint", "effect"): 16,
    ("node", "labels"): 256,
    ("node", "labels", "@keys"): 317,
    ("node", "labels", "@values"): 63,
}


@dataclass
class Taint:
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Timestamp | None = None


@dataclass
class Node:
    labels: dict[str, str] = field(default_factory=dict)


def environment() -> Env:
    text = types.STRING
    return kubernetes(
        {"taint": types.object_of("kubernetes.Taint"), "node": types.object_of("kubernetes.Node")},
        {
            "kubernetes.Taint": {
                "key": Field(text, "key"),
                "value": Field(text, "value"),
                "effect": Field(text, "effect"),
                "timeAdded": Field(types.TIMESTAMP, "time_added", optional=True),
            },
            "kubernetes.Node": {"labels": Field(types.map_of(text, text), "labels")},
        },
        sizes=SIZES,
    )
