"""`why` and the scheduler never disagree: over random clusters, every answer is compared with what really happens."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Iterator
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pytest

from moorage.features import ALL_ON
from moorage.scheduler.config import Configuration, PluginRef, PluginSet, ProfileSpec
from moorage.scheduler.framework import Cycle, Plugin, Scope
from moorage.scheduler.plugins.registry import DEFAULTS
from moorage.scheduler.scheduler import Scheduler
from moorage.scheduler.table.nodes import Mask, Rows
from moorage.tools.remedy import Remedy
from moorage.tools.why import Explainer, Explanation
from tests.scheduler.in_memory_api import InMemoryAPI
from tests.seeds import seed
from tests.tools.random_cluster import RandomCluster, cluster_of

Data = dict[str, Any]
SEEDS = range(seed(1), seed(1) + 20)
PODS = 4


class OnlyNode(Plugin):
    """Lets pods go to one node only, or anywhere."""

    name = "OnlyNode"
    scope = Scope.CLUSTER
    target: ClassVar[str] = ""

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        table = self.handle.table
        mask = np.full(table.size, not self.target)
        if self.target:
            mask[table.rows[self.target]] = True
        return mask[rows]


FORCED = Configuration(
    (ProfileSpec(plugins={"filter": PluginSet(enabled=(PluginRef("OnlyNode"),))}),),
    registry={**{plugin.name: plugin for plugin, _ in DEFAULTS}, "OnlyNode": OnlyNode},
)


def explained(objects: list[Data], pod: Data) -> Explanation:
    cluster = cluster_of([*objects, pod])
    (explanation,) = Explainer(cluster, ALL_ON, items=[cluster.items[-1]], exact=True).explain_all()
    return explanation


def decided(objects: list[Data], pod: Data, node: str = "") -> str:
    """Where a real scheduler puts a pod that may go to one node only, or anywhere; empty when it waits."""
    api = InMemoryAPI()
    scheduler = Scheduler(api.client, ALL_ON, FORCED, seed=3, quiet=True)
    api.informers.append(scheduler.handle.informers)
    for data in (*objects, pod):
        api.put(data["kind"], copy.deepcopy(data))
    api.tell()
    OnlyNode.target = node
    entry = scheduler.queue.pods.get(pod["metadata"]["uid"])
    assert entry is not None
    while (popped := scheduler.queue.pop()) is not None:
        if popped is entry and scheduler.attempt(entry):
            return scheduler.counted[entry.info.uid].node_name
    return ""


def names(explanation: Explanation) -> set[str]:
    return {name for fit in explanation.answer.fits for name in fit.nodes}


@pytest.mark.parametrize("number", SEEDS)
async def test_a_pod_fits_on_a_node_exactly_when_the_scheduler_forced_to_it_binds_it(number: int) -> None:
    made = RandomCluster(number)
    for each in range(PODS):
        pod = made.pod(f"new-{each}")
        said = explained(made.objects, pod)
        bound = {name for node in made.nodes if decided(made.objects, pod, name := node["metadata"]["name"]) == name}
        assert names(said) == bound, json.dumps(pod)
        chosen = decided(made.objects, pod)
        best = said.answer.fits[0].nodes if said.answer.fits else ("",)
        assert chosen in best
        assert all(each.refusals for each in said.answer.refused)


def operations(remedy: Remedy) -> Iterator[list[str] | Data]:
    """The single steps of the commands: words of a command, or an operation of a patch of the pod."""
    for command in remedy.commands:
        words = shlex.split(command)
        if "-p" in words and words[2] in ("pod", "resourceclaim"):
            name = words[3] if words[2] == "resourceclaim" else ""
            yield from ({"claim": name, **each} for each in json.loads(words[words.index("-p") + 1]))
        else:
            yield words


def performed(steps: list[list[str] | Data], objects: list[Data], pod: Data) -> tuple[list[Data], Data]:
    """The cluster and the pod after the steps, done as kubectl does them."""
    objects, pod = copy.deepcopy(objects), copy.deepcopy(pod)
    for step in steps:
        if isinstance(step, dict):
            claims = (each for each in objects if each["kind"] == "ResourceClaim")
            _patch(next((each for each in claims if each["metadata"]["name"] == step["claim"]), pod), step)
            continue
        if step[0] == "echo":
            made = json.loads(step[1])
            made["metadata"] |= {"uid": "made", "resourceVersion": "999"}
            objects.append({**made, "status": {"phase": "Pending"}})
            continue
        verb, name = step[1], step[3] if step[2] in ("node", "pod") else step[2]
        if verb == "delete":
            objects = [each for each in objects if (each["kind"], each["metadata"]["name"]) != ("Pod", name)]
            continue
        node = next(each for each in objects if (each["kind"], each["metadata"]["name"]) == ("Node", name))
        if verb == "uncordon":
            node["spec"]["unschedulable"] = False
        elif verb == "label":
            key, _, value = step[4].partition("=")
            node["metadata"]["labels"][key] = value
        else:
            assert verb == "taint"
            _taint(node, step[4])
    return objects, pod


def _taint(node: Data, words: str) -> None:
    mark, _, effect = words.rpartition(":")
    key, _, value = mark.partition("=")
    kept = [each for each in node["spec"]["taints"] if (each["key"], each["effect"]) != (key, effect.removesuffix("-"))]
    added = [] if effect.endswith("-") else [{"key": key, "value": value, "effect": effect}]
    node["spec"]["taints"] = kept + added


def _patch(pod: Data, operation: Data) -> None:
    *path, last = operation["path"].strip("/").split("/")
    target: Any = pod
    for name in path:
        target = target[int(name)] if isinstance(target, list) else target[name.replace("~1", "/")]
    if operation["op"] == "remove":
        del target[last]
    elif isinstance(target, list):
        target.append(operation["value"])
    else:
        target[last.replace("~1", "/")] = operation["value"]


@pytest.mark.parametrize("number", SEEDS)
async def test_the_smallest_change_makes_the_pod_fit_and_no_part_of_it_does(number: int) -> None:
    made = RandomCluster(number, pods=12)
    for each in range(PODS):
        pod = made.pod(f"new-{each}")
        said = explained(made.objects, pod)
        for remedy in said.answer.remedies:
            steps = list(operations(remedy))
            if not steps:
                assert remedy.edits[0].startswith("one more node like")
                continue
            assert decided(*performed(steps, made.objects, pod)) in remedy.nodes, (remedy, json.dumps(pod))
            for part in combinations(steps, len(steps) - 1):
                assert not decided(*performed(list(part), made.objects, pod)), (remedy, part)


def test_random_clusters_say_yes_and_no() -> None:
    """The properties above would hold if nothing ever fitted."""
    fitting = refused = remedied = 0
    plugins: set[str] = set()
    for number in SEEDS:
        made = RandomCluster(number, pods=12)
        for each in range(PODS):
            answer = explained(made.objects, made.pod(f"new-{each}")).answer
            fitting += bool(answer.fits)
            refused += not answer.fits
            remedied += bool(answer.remedies)
            plugins |= {refusal.plugin for nodes in answer.refused for refusal in nodes.refusals}
            plugins |= {refusal.plugin for refusal in answer.rejected}
    assert fitting > 15
    assert refused > 15
    assert remedied > 10
    assert plugins >= {
        "TaintToleration", "NodeUnschedulable", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeBinding",
        "VolumeRestrictions", "PodTopologySpread", "InterPodAffinity", "DynamicResources",
    }  # fmt: skip
