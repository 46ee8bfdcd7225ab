"""`moorage capacity` counts what really fits."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from typing import Any

import pytest

from moorage.api.decode import convert
from moorage.api.node import Node
from moorage.features import ALL_ON
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from moorage.tools.capacity import Capacity, CapacityAnswer, Growth, WantedPods
from moorage.tools.cluster import Cluster, ClusterObject
from tests.plane import node, pod
from tests.scheduler.devices import devicekit as kit
from tests.scheduler.in_memory_api import InMemoryAPI
from tests.scheduler.volumes.storage import affinity, claim_data, class_data, on, volume_data
from tests.seeds import seed
from tests.tools.random_cluster import HOST, RandomCluster, cluster_of, typed

Data = dict[str, Any]
SEEDS = range(seed(1), seed(1) + 12)


def filled(objects: list[Data], *wanted: tuple[Data, int], growth: int = 0) -> CapacityAnswer:
    cluster = cluster_of(objects)
    shares = [WantedPods(ClusterObject(typed(data)), share) for data, share in wanted]
    cluster.items += [item for item, _ in shares]
    return Capacity(cluster, ALL_ON, shares).fill(growth)


async def really_filled(objects: list[Data], pod: Data) -> Counter[str]:
    """Pods are created until one is not bound."""
    api = InMemoryAPI()
    scheduler = Scheduler(api.client, ALL_ON, Configuration(), seed=1, quiet=True)
    api.informers.append(scheduler.handle.informers)
    for data in objects:
        api.put(data["kind"], copy.deepcopy(data))
    bound: Counter[str] = Counter()
    while True:
        more = copy.deepcopy(pod)
        more["metadata"] |= {"name": f"more-{bound.total()}", "uid": f"uid-more-{bound.total()}"}
        api.put("Pod", more)
        api.tell()
        while (entry := scheduler.queue.pop()) is not None and entry.info.uid != more["metadata"]["uid"]:
            pass
        if entry is None or not scheduler.attempt(entry):
            return bound
        await asyncio.gather(*scheduler.tasks)
        api.tell()
        assert api.bindings[-1][0] == more["metadata"]["uid"]
        bound[api.bindings[-1][1]] += 1


@pytest.mark.parametrize("number", SEEDS)
async def test_as_many_fit_as_can_really_be_created(number: int) -> None:
    made = RandomCluster(number, nodes=4, pods=4)
    for each in range(3):
        more = made.pod(f"more-{each}", claims=False)
        answer = filled(made.objects, (more, 1))
        really = await really_filled(made.objects, more)
        assert {name: pods.total() for name, pods in answer.where.items()} == really
        assert answer.sets == really.total()


SMALL = [node("small-1", cpu="4"), node("small-2", cpu="4")]


def test_what_runs_out_first_is_named_with_numbers() -> None:
    answer = filled(SMALL, (pod("web", requests={"cpu": "1500m"}), 1))
    assert (answer.sets, answer.open_nodes) == (4, 2)
    (shortage,) = answer.shortages
    assert shortage == ("cpu", "asks for 1.5, 1 of 4 free", 2)


def test_a_set_fits_only_as_a_whole() -> None:
    answer = filled(SMALL, (pod("web", requests={"cpu": "1"}), 3), (pod("db", requests={"cpu": "2"}), 1))
    assert answer.sets == 1
    assert answer.stops_at == "Pod default/db"
    assert sum((pods for pods in answer.where.values()), Counter()) == {"Pod default/web": 3, "Pod default/db": 1}


def test_growth_is_counted_in_nodes_of_each_sort() -> None:
    big = node("big", taints=[{"key": "gpu", "value": "a100", "effect": "NoSchedule"}], cpu="32")
    tolerant = pod("web", requests={"cpu": "2"}, tolerations=[{"key": "gpu", "operator": "Exists"}])
    answer = filled([*SMALL, big], (tolerant, 1), growth=28)
    assert answer.sets == 20
    assert answer.growth == [Growth("big", 1), Growth("small-1", 4)]
    assert filled(SMALL, (pod("web", requests={"cpu": "2"}), 1), growth=4).growth == []
    assert filled(SMALL, (pod("web", requests={"cpu": "8"}), 1), growth=1).growth == []


def test_every_pod_has_volumes_and_devices_of_its_own() -> None:
    volumes = [volume_data(f"disk-{number}", **affinity(on(HOST, "small-1"))) for number in range(3)]
    for volume in volumes:
        volume["status"] = {"phase": "Available"}
    claim = claim_data("data")
    del claim["metadata"]["name"]
    template = {"metadata": {"name": "data"}, "spec": claim["spec"]}
    stateful = {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default", "uid": "db"},
        "spec": {"serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "volumeClaimTemplates": [template],
                 "template": {"metadata": {"labels": {"app": "db"}}, "spec": pod("db")["spec"]}},
    }  # fmt: skip
    answer = filled([*SMALL, class_data(), *volumes], (stateful, 1))
    assert (answer.sets, list(answer.where)) == (3, ["small-1"])
    gpus = kit.resource_slice("small-2", kit.device("gpu-0"), kit.device("gpu-1"))
    one = kit.claim("one", kit.request(allocationMode="ExactCount", count=1))
    devices = {**one, "kind": "ResourceClaimTemplate", "spec": {"spec": one["spec"]}}
    user = pod("train", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    answer = filled([*SMALL, kit.device_class(), gpus, devices], (user, 1))
    assert (answer.sets, list(answer.where)) == (2, ["small-2"])
    assert answer.shortages[0].example.startswith("request gpu asks for 1 device: 2 match, 2 taken")


def test_a_node_that_does_not_say_what_it_holds_takes_nothing() -> None:
    silent = ClusterObject(convert({"metadata": {"name": "silent"}}, Node))
    web = ClusterObject(typed(pod("web")))
    assert Capacity(Cluster([silent, web]), ALL_ON, [WantedPods(web)]).fill().sets == 0
