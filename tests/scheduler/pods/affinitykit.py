"""Pods that want others near or far, and clusters to hold against them."""

from __future__ import annotations

from typing import Any

from moorage.api.pod import Pod
from moorage.scheduler.plugins.interpodaffinity import InterPodAffinity
from tests.scheduler.plugin_on_table import Data, PluginOnTable, exists, one_of, pod, pods

HOSTNAME = "kubernetes.io/hostname"
TEAM1 = one_of("team", "team1")
HOSTS = {"a": {HOSTNAME: "a"}, "b": {HOSTNAME: "b"}}
FOO, BAR, FOOBAR = exists("foo"), exists("bar"), one_of("foo", "bar")


def holding(affinity: Data, labels: str = "", namespace: str = "default", node: str = "") -> Pod:
    """A pod with terms of its own."""
    return pod(pods(f":{labels}")[0].metadata.labels, namespace, node, affinity=affinity)


def world(nodes: dict[str, dict[str, str]], there: list[Pod], **args: Any) -> PluginOnTable:
    """Nodes, pods on them, and the namespaces of two teams."""
    alone = PluginOnTable(InterPodAffinity, nodes, **args)
    for name in ("subteam1.team1", "subteam2.team1", "subteam1.team2", "subteam2.team2"):
        alone.namespace(name, team=name.partition(".")[2])
    alone.add(*there)
    return alone
