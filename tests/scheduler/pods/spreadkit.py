"""Constraints on the spread of pods, and clusters to hold against them."""

from __future__ import annotations

from typing import Any

from moorage.scheduler.pods.spread import HARD
from moorage.scheduler.table.nodes import HOSTNAME
from tests.scheduler.plugin_on_table import Data, exists

FOO, BAR = exists("foo"), exists("bar")
TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
TOLERATION = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}

ZONES = {
    "a": {"zone": "1", "node": "a"},
    "b": {"zone": "1", "node": "b"},
    "x": {"zone": "2", "node": "x"},
    "y": {"zone": "2", "node": "y"},
}
HOSTS = {name: {HOSTNAME: name} for name in "abcd"}
ZONED_HOSTS = {name: {"zone": "1" if name in "ab" else "2", HOSTNAME: name} for name in "abxy"}


def constraint(key: str, selector: Data | None = FOO, skew: int = 1, action: str = HARD, **more: Any) -> Data:
    """A topology spread constraint."""
    found = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action, **more}
    return found if selector is None else found | {"labelSelector": selector}


def in_terms(key: str, *values: str, operator: str = "In") -> Data:
    """A required node affinity."""
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def lacking(nodes: dict[str, dict[str, str]], name: str, key: str) -> dict[str, dict[str, str]]:
    """The same nodes, one of them without a label."""
    return nodes | {name: {each: value for each, value in nodes[name].items() if each != key}}


def with_foo(*names: str, nodes: dict[str, dict[str, str]] = ZONES) -> dict[str, dict[str, str]]:
    """The same nodes, some with a label that a pod can select them by."""
    return {name: labels | ({"foo": ""} if name in names else {}) for name, labels in nodes.items()}


ZONE_FOO, NODE_FOO = constraint("zone"), constraint("node")
HONOR_TAINTS: Data = {"nodeTaintsPolicy": "Honor"}
