"""What plugins that accept a node have found there: which toleration matched, and how much is free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.requests import amount_text, pod_requests
from moorage.features import Gates
from moorage.match.reasons import toleration_text
from moorage.match.tolerations import Tolerations

SHOWN_MAX = 20
REPELS = ("NoSchedule", "NoExecute")
Room = Mapping[str, tuple[int, int]]
"""Of each resource of a node how much is requested, and how much there is."""


def accepted(pod: Pod, node: Node, room: Room, gates: Gates) -> dict[str, list[str]]:
    """Sentences by plugin."""
    return {
        "TaintToleration": list(islice(_tolerated(pod, node, gates), SHOWN_MAX)),
        "NodeResourcesFit": list(islice(_enough(pod, node, room), SHOWN_MAX)),
    }


def _tolerated(pod: Pod, node: Node, gates: Gates) -> Iterator[str]:
    tolerations = Tolerations(pod.spec.tolerations, gates)
    for taint in node.spec.taints:
        matched = tolerations.first_match(taint) if taint.effect in REPELS else None
        if matched is not None:
            yield f"taint {taint}: tolerated by `{toleration_text(matched)}`"


def _enough(pod: Pod, node: Node, room: Room) -> Iterator[str]:
    own = pod.spec.node_name == node.metadata.name
    for name, asked in pod_requests(pod.spec).items():
        requested, there = room.get(name, (0, 0))
        free = there - requested + (asked if own else 0)
        if asked:
            texts = [amount_text(name, value) for value in (asked, free, there)]
            yield f"{name}: asks for {texts[0]}, {texts[1]} of {texts[2]} free"
